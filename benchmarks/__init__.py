"""One script per question that takes longer than a test may; what it measured comes as lines of JSON."""
