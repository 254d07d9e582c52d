"""Command: a task's head and its encoder as a model of other libraries.

classifier.py        As a ForSequenceClassification of transformers, where that is exact.
sentence_classifier.py  As a SentenceTransformer whose vectors are the logits.
graph.py             As an ONNX graph, which holds any head.
onnx_predictor.py    Predicts with this graph, without torch. It is copied beside each graph.
work.py              Writes the folder, and compares the model in it with the run.
options.py           The options of the command, and what is refused before any work.
__main__.py          The command.
"""
