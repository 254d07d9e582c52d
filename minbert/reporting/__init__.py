"""What a person looks at: tables, figures, HTML pages and the curves of a training run.

Reading order:
  terminal.py            What a command shows while it works: titles, tables, progress.
  tables.py              A table of finished texts, and a table of scores for the terminal.
  differences.py         A difference with its interval, and the one rule for words.
  intervals.py           How far chance in rows and seeds moves a score or a difference.
  figures.py             The kinds of plots: their data, and how matplotlib draws each one.
  images.py              From a plot to SVG for a page, or to a PNG file.
  pages.py               A report as sections, written as HTML, Markdown or text for a terminal.
  model_cards.py         A README.md with metadata that the Hugging Face hub reads.
  event_file.py          A log of numbers over steps that TensorBoard draws.
  curves.py              A pretraining run's curves while it goes on: PNG and TensorBoard.
  attention_pictures.py  The attention of one sentence: of one head, or of all layers and heads.

The HTML page, its style sheet and the model card stand in templates/.

This package imports nothing of ours but minbert.commands, so every package may use it.
"""
