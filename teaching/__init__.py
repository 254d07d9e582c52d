"""The hand-out for a course."""
