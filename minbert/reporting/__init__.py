"""What a person looks at: tables, figures, HTML pages and the curves of a training run.

Reading order:
  tables.py    A table of finished texts, and a table of scores for the terminal.
  figures.py   The kinds of plots: their data, and how matplotlib draws each one.
  images.py    From a plot to SVG for a page, or to a PNG file.
  pages.py     A report as sections, written as HTML, Markdown or text for a terminal.
  curves.py    The curves of a pretraining run while it goes on: a PNG file and a TensorBoard log.
  attention_pictures.py  The attention of one sentence: of one head, or of all layers and heads.

The HTML page and its style sheet stand in templates/.

This package imports nothing of ours but minbert.commands, so every package may use it.
"""
