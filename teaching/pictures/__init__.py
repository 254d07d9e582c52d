"""The pictures of the documents, in light and dark: `python -m teaching.pictures`.

canvas.py       Boxes, words, arrows and cells, in two styles. Writes a picture's files.
overview.py     README: from a sentence to six files.
encoder.py      The encoder: masks of attention, and poolings.
training.py     The training loop and pretraining: one step, and masked words.
__main__.py     All pictures by name, and the command.
"""
