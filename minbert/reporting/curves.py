"""The curves of a pretraining run while it goes on: a PNG file and a TensorBoard log.

The log is written only if tensorboard is installed.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from minbert.commands.optional import install_command
from minbert.reporting.event_file import EventFile
from minbert.reporting.figures import Line, LinePlot
from minbert.reporting.images import write_png

# The title of a plot's vertical axis -> the entries of the history that it shows, with their
# names in the legend.
PANELS = {
    "loss (nats per masked token)": {"loss": "training", "held_out_loss": "held out"},
    "masked accuracy": {"masked_accuracy": "held out"},
}
# A name has the same colour in both plots.
COLOURS = {"training": "blue", "held out": "orange"}

History = Sequence[Mapping[str, Any]]


def missing_libraries() -> str:
    """Say which output the run will lack, and how to get it. Empty if nothing is missing."""
    if find_spec("tensorboard") is None:
        command = install_command(["tensorboard"], "--plots")
        return f"no TensorBoard log: tensorboard is not installed ({command})"
    return ""


class Curves:
    """Keeps FOLDER/curves.png and FOLDER/tensorboard/ up to date with a growing history.

    Each call takes the history of the training loop so far: a list of entries such as
    {"step": 10, "loss": 6.1, "held_out_loss": 6.0, "masked_accuracy": 0.1}.

    folder: of the run. title: above the plots.
    tokens_per_step: turns steps into the tokens seen, which the horizontal axis shows.
    """

    def __init__(self, folder: Path, tokens_per_step: int, title: str) -> None:
        self.folder = folder
        self.tokens_per_step = tokens_per_step
        self.title = title
        self.log_file: EventFile | None = None
        self.num_logged = 0

    def __call__(self, history: History) -> None:
        """Write the new entries to the log, and draw the curves anew."""
        if find_spec("tensorboard") is not None:
            self.log(history)
        self.draw(history)

    def log(self, history: History) -> None:
        """Append the new entries to the TensorBoard log.

        The first call of a process starts the log over. So a resumed run has one curve.
        """
        if self.log_file is None:
            shutil.rmtree(self.folder / "tensorboard", ignore_errors=True)
            self.log_file = EventFile(self.folder / "tensorboard")
        for entry in history[self.num_logged :]:
            tokens = entry["step"] * self.tokens_per_step
            for names in PANELS.values():
                for key in names:
                    self.log_file.add_scalar(key, entry[key], tokens)
        self.log_file.flush()
        self.num_logged = len(history)

    def draw(self, history: History) -> None:
        """Draw the plots of PANELS into curves.png."""
        millions = [entry["step"] * self.tokens_per_step / 1e6 for entry in history]
        plots = []
        for label, names in PANELS.items():
            lines = []
            for key, name in names.items():
                values = [entry[key] for entry in history]
                lines.append(Line(millions, values, name, colour=COLOURS[name]))
            plots.append(
                LinePlot(
                    tuple(lines),
                    "tokens seen (millions)",
                    label,
                    starts_at_zero=True,
                    aspect=0.75,
                )
            )
        write_png(self.folder / "curves.png", plots, self.title)
