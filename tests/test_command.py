"""minbert/command.py: what a command says and returns where it is stopped or its input is bad."""

import pytest

from minbert.command import exit_code


@pytest.mark.parametrize(("raised", "code", "said"), [
    (ValueError("a.csv: no header."), 2, "python -m x: a.csv: no header.\n"),
    (FileNotFoundError(2, "No such file", "b"), 2, "python -m x: [Errno 2] No such file: 'b'\n"),
    (KeyboardInterrupt(), 130, "\nStopped.\n"),
])
def test_how_it_ends(raised, code, said, capsys):
    @exit_code("python -m x")
    def main(arguments=None):
        assert arguments == ["--flag"]
        raise raised

    assert main(["--flag"]) == code and capsys.readouterr().err == said


@pytest.mark.parametrize("own", [None, 0, 7])
def test_a_code_of_its_own(own, capsys):
    assert exit_code("x")(lambda arguments: own)() == (own or 0) and not capsys.readouterr().err


def test_a_defect_is_shown_whole():
    @exit_code("x")
    def main(arguments=None):
        raise TypeError("a defect")

    with pytest.raises(TypeError):
        main()
