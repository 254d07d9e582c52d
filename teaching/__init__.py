"""For courses that teach with this code. docs/teaching.md says how.

handout.py      Writes a copy of the clone without the answers of some exercises.
pictures/       Command: draws the pictures of the documents.
"""
