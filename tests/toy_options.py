"""Options of a command line, and what it says of one that it refuses; for test_options.py and test_option_checks.py."""

import pytest

from command_line.options import Options
from command_line.parser import parse


def options_of(*flags: str) -> Options:
    options, resumed = parse(list(flags))
    assert resumed is None
    return options


def refusal(capsys, *flags: str) -> str:
    """The last line that a refused command line prints; what argparse prints before it is its usage."""
    with pytest.raises(SystemExit) as caught:
        parse(list(flags))
    assert caught.value.code == 2
    return capsys.readouterr().err.strip().splitlines()[-1]
