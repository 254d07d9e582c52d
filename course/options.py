"""The options of the commands of this package. No torch here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from course.editions import DEFAULT_EDITION, EDITIONS, HELP_OF_COURSE, MODES, Edition
from minbert.commands.options import CommandOptions, argument, positional
from minbert.commands.outputs import HELP_OF_OVERWRITE
from minbert.commands.plugins import plugin_argument

MODES_OF_2024 = EDITIONS["cs224n-2024"].modes


@dataclass(frozen=True)
class PredictOptions(CommandOptions):
    """The command line of course.predict."""

    run: Path = positional("RUN", "folder of a finished run")
    data_dir: Path | None = argument(
        None,
        "folder of the dev and test files (default: those of the run, with all their rows)",
        "DIR",
    )
    out: Path = argument(
        None, "the files are DIR/predictions/TASK-SPLIT-output.csv", "DIR", is_required=True
    )
    plugin: tuple[str, ...] = plugin_argument()
    drop_bad_rows: bool = argument(
        False, "skip malformed dev rows, as the run did if it had this flag"
    )
    overwrite: bool = argument(False, HELP_OF_OVERWRITE)


@dataclass(frozen=True)
class SubmitOptions(CommandOptions):
    """The command line of course.submit."""

    run: Path = positional(
        "RUN", "folder of a finished run, or of multitask.ensemble (add --data-dir)"
    )
    part1: Path | None = argument(
        None,
        "folder of course.part1: adds its eight files; or of your own eight files in "
        "DIR/predictions (add --data-dir)",
        "DIR",
    )
    course: str = argument(DEFAULT_EDITION, HELP_OF_COURSE, choices=EDITIONS)
    code: str = argument(
        ".",
        "folder whose .py files are added, as the course does it; none: no code",
        "FOLDER",
    )
    data_dir: str | None = argument(
        None,
        "folder of the data files, if RUN or the folder of --part1 has no run.json",
        "DIR",
    )
    out: Path | None = argument(None, "the zip (default: the course's name, here)", "ZIP")
    overwrite: bool = argument(False, HELP_OF_OVERWRITE)

    @property
    def edition(self) -> Edition:
        """The year of the course."""
        return EDITIONS[self.course]

    def check(self) -> None:
        if self.part1 is not None and not self.edition.has_part1:
            raise ValueError(
                f"--part1 has no place in the zip of {self.edition.title}. Drop it, or choose "
                "--course cs224n-2023 or cs224n-2024."
            )


@dataclass(frozen=True)
class Part1Options(CommandOptions):
    """The command line of course.part1, without the flags of its runs."""

    data_dir: str = argument("data/course", "folder with the course's files", "DIR")
    out: Path = argument(
        Path("runs/part1"), "folder of the four runs and of the eight files", "DIR"
    )
    course: str = argument(DEFAULT_EDITION, HELP_OF_COURSE, choices=EDITIONS)
    option: str | None = argument(None, "train in this mode only (default: in both)", choices=MODES)
    fine_tune_mode: str | None = argument(
        None, "the same as --option, in the words of 2024", choices=MODES_OF_2024
    )

    @property
    def edition(self) -> Edition:
        """The year of the course."""
        return EDITIONS[self.course]

    @property
    def modes(self) -> tuple[str, ...]:
        """The modes to train: both, or that of --option or --fine-tune-mode."""
        if self.fine_tune_mode is not None:
            return (MODES[MODES_OF_2024.index(self.fine_tune_mode)],)
        return MODES if self.option is None else (self.option,)

    def check(self) -> None:
        if not self.edition.has_part1:
            raise ValueError(
                f"--course {self.course}: the files of part 1 have names in CS224N only. Choose "
                "--course cs224n-2023 or cs224n-2024."
            )
        if self.fine_tune_mode is not None and self.option is not None:
            raise ValueError(
                "--option and --fine-tune-mode say the same thing; pass only one of them."
            )
