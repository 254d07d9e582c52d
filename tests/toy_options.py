"""The options of a command line, and the message of one that is refused. For tests/command_line."""

from __future__ import annotations

import pytest

from command_line.options import Options
from command_line.parser import parse


def options_of(*flags: str) -> Options:
    """The options that these flags give."""
    options, resumed = parse(list(flags))
    assert resumed is None
    return options


def refusal(capsys: pytest.CaptureFixture, *flags: str) -> str:
    """The last line that a refused command line prints. It must end with exit code 2."""
    with pytest.raises(SystemExit) as caught:
        parse(list(flags))
    assert caught.value.code == 2
    return capsys.readouterr().err.strip().splitlines()[-1]
