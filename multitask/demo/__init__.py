"""Command: a page on this machine to try a finished run, `python -m multitask.demo RUN`.

answers.py           What the page shows: answers, attention, the nearest training rows, tables.
server.py            The page and its answers over HTTP, for this machine alone.
options.py           The options of the command.
__main__.py          The command.
"""
