"""The command `python -m contrastive.train METHOD`: one contrastive stage, and no task.

It is the stage that --pretrain of run_multitask.py trains.

Reading order:
  options.py   The options of the command, and what is refused before any work.
  texts.py     What TEXT may be, and the rows that a method reads of it.
  parser.py    The command line: --steps is the short form of --contrastive_steps.
  work.py      Opens the encoder, trains the stage, writes the folder.
  __main__.py  The command.
"""
