"""One training loop for every stage."""
