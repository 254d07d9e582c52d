"""Command: a task's head and its encoder as a model of other libraries.

classifier.py        As a ForSequenceClassification of transformers, where that is exact.
graph.py             As an ONNX graph, which holds any head.
__main__.py          The command line.
"""
