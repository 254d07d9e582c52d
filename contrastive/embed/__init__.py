"""The command that uses the sentence vectors of a model.

In reading order:

    __main__.py  what is asked for, what is refused, what is printed
    export.py    the model as a folder for sentence-transformers
"""
