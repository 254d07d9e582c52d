"""Flags and help."""
