"""Masked language modelling: a stage on the tasks' own text, and a command on plain text.

The files in reading order:

    mlm.py          The objective: which tokens are masked, the head that predicts them, the loss.
    stage.py        The stage `--pretrain mlm`, on the training rows of the tasks.
    packing.py      Plain text as a vocabulary and packed sequences without padding.
    sizes.py        The named shapes of new encoders.
    options.py      The options of the stage and of the command.
    plain_text.py   The work of the command, from plain text to an encoder's folder.
    run_report.py   What report.html and the model card of the command say.
    __main__.py     `python -m minbert.pretraining`: the command line.
"""

from minbert.commands.hidden import check_packages

check_packages("data")
