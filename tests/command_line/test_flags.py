"""minbert/commands/flags.py: from the fields of a group to flags, in any command."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from minbert.commands.flags import Formatter, Parser, add_flag, parse_command, parser_of
from minbert.commands.options import (
    AUTO,
    CommandOptions,
    OptionGroup,
    argument,
    direct_fields,
    flag,
    positional,
)


@dataclass(frozen=True)
class ToyOptions(OptionGroup):
    """A group with a field of each type."""

    num_steps: int = flag(3, "Number of steps, 100 % of them.", low=1)
    learning_rate: float | str = flag(AUTO, "Peak. auto: 1e-3.", low=1e-9)
    decay: float = flag(1.0, "How fast it falls.")
    kind: str = flag("plain", "Which kind.", choices=("plain", "fancy"))
    way: str = flag(
        "left", "Which way.\n- left: not right\n- right: not left", choices=("left", "right")
    )
    in_file: str = flag("none", "Where it is.", is_file=True)
    out_dir: str = flag("runs", "Where it goes.")
    is_loud: bool = flag(False, "A switch.")


def build(separator: str = "_") -> Parser:
    parser = Parser(prog="toy", formatter_class=Formatter, argument_default=None)
    for item in direct_fields(ToyOptions):
        add_flag(parser, item, separator=separator)
    return parser


@pytest.mark.parametrize("separator", ["_", "-"])
def test_both_spellings_are_accepted_and_one_is_shown(separator, capsys):
    parser = build(separator)
    for name in ("--num_steps", "--num-steps"):
        assert parser.parse_args([name, "5"]).num_steps == 5
    parser.print_help()
    text = capsys.readouterr().out
    other = {"_": "-", "-": "_"}[separator]
    assert f"--num{separator}steps N" in text
    assert f"--num{other}steps" not in text


def test_help_shows_what_a_flag_takes_and_its_default(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    build().print_help()
    lines = capsys.readouterr().out.splitlines()
    shown = [" ".join(line.split()) for line in lines]
    assert "--num_steps N Number of steps, 100 % of them. (default: 3)" in shown
    assert "--learning_rate X Peak. auto: 1e-3. (default: auto)" in shown
    assert "--decay X How fast it falls. (default: 1)" in shown
    assert "--kind {plain,fancy} Which kind. (default: plain)" in shown
    start = shown.index("--way NAME Which way.")
    assert shown[start + 1 : start + 4] == [
        "- left: not right",
        "- right: not left",
        "(default: left)",
    ]
    assert "--in_file FILE Where it is. (default: none)" in shown
    assert "--out_dir DIR Where it goes. (default: runs)" in shown
    assert "--is_loud A switch. (default: off)" in shown


def test_values_have_the_type_of_the_field():
    line = "--num_steps 5 --learning_rate auto --decay 2 --is_loud"
    values = vars(build().parse_args(line.split()))
    assert values["num_steps"] == 5 and values["learning_rate"] == AUTO
    assert values["decay"] == 2.0 and isinstance(values["decay"], float)
    assert values["is_loud"] is True
    assert build().parse_args(["--learning-rate", "1e-3"]).learning_rate == 1e-3


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--num_step 5", "toy: unknown flag --num_step; did you mean --num_steps?"),
        ("--zzz", "toy: unknown flag --zzz; --help lists all flags."),
        ("--num_steps many", "toy: argument --num_steps: invalid int value: 'many'"),
        ("--num_steps 1_0", "toy: argument --num_steps: invalid int value: '1_0'"),
        ("--num_steps ３", "toy: argument --num_steps: invalid int value: '３'"),
        ("--learning_rate 1_0e-4", "toy: argument --learning_rate: invalid number value: '1_0e-4'"),
        ("--learning_rate fast", "toy: argument --learning_rate: invalid number value: 'fast'"),
        ("--kind grand", "toy: argument --kind: invalid choice: 'grand' (choose from "),
    ],
)
def test_a_refusal_is_one_line_and_ends_with_exit_code_2(line, message, capsys):
    parser = Parser(prog="toy", allow_abbrev=False)
    for item in direct_fields(ToyOptions):
        add_flag(parser, item)
    with pytest.raises(SystemExit) as caught:
        parser.parse_args(line.split())
    assert caught.value.code == 2
    (printed,) = capsys.readouterr().err.splitlines()
    assert printed.startswith(message)


def test_a_narrow_and_a_wide_terminal(monkeypatch, capsys):
    """Lines of a list begin under each other, and no line is wider than 100 columns."""
    for columns, widest in ((60, 60), (200, 100)):
        monkeypatch.setenv("COLUMNS", str(columns))
        build().print_help()
        lines = capsys.readouterr().out.splitlines()
        assert max(map(len, lines)) <= widest
        indents = {line.index("- ") for line in lines if line.strip().startswith("- ")}
        assert len(indents) == 1


# --- the whole command line of a command ----------------------------------------------------------


@dataclass(frozen=True)
class ToyCommand(CommandOptions):
    """A command line with everything that `argument` and `positional` can say."""

    model: str = positional("MODEL", "what to read")
    sets: tuple[Path, ...] = argument((), "files", "FILE...")
    out_dir: Path = argument(None, "where it goes", "DIR", is_required=True)
    from_: Path | None = argument(None, "where it comes from", "DIR")
    range: tuple[float, float] | None = argument(None, "both ends", "LOW HIGH")
    max_length: int | None = argument(None, "at most (default: all)", low=3)
    seed: int = argument(7, "of all numbers", low=0)


def toy(line: str) -> ToyCommand:
    return parse_command(ToyCommand, "toy", "A toy.", line.split())


def test_a_command_line_becomes_a_group():
    options = toy("mini --sets a b --out-dir x --from y --range 0 2.5 --max-length 4")
    assert options == ToyCommand(
        model="mini",
        sets=(Path("a"), Path("b")),
        out_dir=Path("x"),
        from_=Path("y"),
        range=(0.0, 2.5),
        max_length=4,
        seed=7,
    )
    # Both spellings are accepted, also of a flag that is required.
    assert toy("mini --out_dir x") == ToyCommand(model="mini", out_dir=Path("x"))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--out-dir x", "toy: the following arguments are required: MODEL"),
        ("mini", "toy: the following arguments are required: --out-dir/--out_dir"),
        ("mini --out-dir x --form y", "toy: unknown flag --form; did you mean --from?"),
        ("mini --out-dir x --range 1", "toy: argument --range: expected 2 arguments"),
    ],
)
def test_a_wrong_command_line_ends_the_program(line, message, capsys):
    with pytest.raises(SystemExit) as caught:
        toy(line)
    assert caught.value.code == 2 and capsys.readouterr().err.strip() == message


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_length": 2}, "--max-length is 2; it must be a whole number, at least 3."),
        ({"max_length": "2"}, "--max-length is '2'; it must be int or None."),
        ({"out_dir": None}, "--out-dir is missing."),
        ({"model": None}, "MODEL is missing."),
        ({"sets": ("a",)}, "--sets is ('a',); each of its values must be a path."),
        ({"range": (0, True)}, "--range is (0, True); each of its values must be a number."),
    ],
)
def test_values_that_no_command_line_gives_are_refused(changes, message):
    """A program may make the options, too."""
    with pytest.raises(ValueError) as caught:
        ToyCommand(**{"model": "mini", "out_dir": Path("x"), **changes})
    assert str(caught.value).startswith(message)


def test_the_help_of_a_command(monkeypatch):
    monkeypatch.setenv("COLUMNS", "90")
    lines = parser_of(ToyCommand, "toy", "A toy.", "An end.").format_help().splitlines()
    shown = [" ".join(line.split()) for line in lines]
    assert "MODEL what to read" in shown and "A toy." in shown and "An end." in shown
    assert "--sets FILE [FILE ...] files" in shown
    assert "--from DIR where it comes from" in shown
    assert "--range LOW HIGH both ends" in shown
    assert "--max-length N at most (default: all)" in shown
    assert "--seed N of all numbers (default: 7)" in shown
