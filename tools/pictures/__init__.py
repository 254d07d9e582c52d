"""The pictures of the documents, in light and dark: `python -m tools.pictures`.

canvas.py       Boxes, words, arrows and cells, in two styles. Writes a picture's files.
overview.py     README: from a sentence to six files.
encoder.py      The encoder: masks of attention, and poolings.
training.py     The tour, the training loop and pretraining.
contrastive.py  Contrastive training: in-batch negatives, and vectors before and after.
multitask.py    The multitask stage: pairs in the encoder, samplers, and gradient surgery.
layers.py       Hidden states and poolings before and after contrastive training.
museum.py       The curves of mistakes beside those of right code.
__main__.py     All pictures by name, and the command.
"""
