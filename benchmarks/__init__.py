"""One script per question that takes longer than a test may; each prints what it measured as a closing JSON line."""
