"""One script per question that takes longer than a test may; each ends with what it measured as a line of JSON."""
