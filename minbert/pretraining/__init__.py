"""Masked language modelling: a stage on the tasks' own text, and a command on plain text."""
