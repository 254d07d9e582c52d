"""The command that uses the sentence vectors of a model.

In reading order:

    request.py   the flags, and what is refused before any work
    __main__.py  the sentences, and the answers that are printed
    export.py    the model as a folder for sentence-transformers
"""
