"""What a training run's history looks like: a picture (matplotlib) and a TensorBoard log, both optional extras."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from minbert.commands.files import write_atomically

PANELS = {  # title of the vertical axis -> the entries of the history that it shows, with their names in the legend
    "loss (nats per masked token)": {"loss": "training", "held_out_loss": "held out"},
    "masked accuracy": {"masked_accuracy": "held out"},
}
EXTRAS = {
    "matplotlib": "curves: matplotlib is not installed",
    "tensorboard": "log: tensorboard is not installed",
}
COLOURS = {"training": "C0", "held out": "C1"}  # the same in every panel


def missing_libraries() -> str:
    """A sentence on what will not be drawn or logged, and how to change that; empty where all is there."""
    absent = [what for name, what in EXTRAS.items() if find_spec(name) is None]
    return f"no {' and no '.join(absent)} (bash setup.sh --plots)" if absent else ""


class Curves:
    """Brings FOLDER/curves.png and FOLDER/tensorboard/ up to date with a history that has one more entry at each call.

    A history is the loop's: a list of {"step": ..., "loss": ..., score: ...}. `tokens_per_step` turns steps into the
    horizontal axis, tokens seen.
    """

    def __init__(self, folder: Path, tokens_per_step: int, title: str) -> None:
        self.folder, self.tokens_per_step, self.title = folder, tokens_per_step, title
        self.writer, self.num_logged = None, 0

    def __call__(self, history: list[dict]) -> None:
        for name, write in {"tensorboard": self.log, "matplotlib": self.draw}.items():
            if find_spec(name) is not None:
                write(history)

    def log(self, history: list[dict]) -> None:
        """Append what is new; the first call of a process starts the log over, so that a resumed run has one curve."""
        from torch.utils.tensorboard import SummaryWriter  # late: it takes seconds to import

        if self.writer is None:
            shutil.rmtree(self.folder / "tensorboard", ignore_errors=True)
            self.writer = SummaryWriter(self.folder / "tensorboard")
        for entry in history[self.num_logged :]:
            for name in (name for lines in PANELS.values() for name in lines):
                self.writer.add_scalar(name, entry[name], entry["step"] * self.tokens_per_step)
        self.writer.flush()
        self.num_logged = len(history)

    def draw(self, history: list[dict]) -> None:
        """The picture of PANELS."""
        tokens = [entry["step"] * self.tokens_per_step / 1e6 for entry in history]
        panels = {
            label: {
                shown: (tokens, [entry[name] for entry in history]) for name, shown in lines.items()
            }
            for label, lines in PANELS.items()
        }
        draw_panels(self.folder / "curves.png", "tokens seen (millions)", panels, self.title)


def draw_panels(
    path: Path,
    x_label: str,
    panels: dict[str, dict[str, tuple[Sequence, Sequence]]],
    title: str = "",
) -> None:
    """Write a PNG of curves: a panel for each vertical axis, side by side, each a curve's name -> its x and y."""
    from matplotlib.figure import Figure  # not pyplot, which would look for a screen

    figure = Figure(figsize=(11, 4), layout="constrained")
    for axes, (label, lines) in zip(figure.subplots(1, len(panels)), panels.items(), strict=True):
        for name, (x, y) in lines.items():
            axes.plot(x, y, marker=".", label=name, color=COLOURS.get(name))
        if axes.get_ylim()[0] < 0:
            axes.axhline(0, color="grey", linewidth=0.8)
        axes.set(xlabel=x_label, ylabel=label, xlim=(0, None))
        axes.grid(alpha=0.3)
        axes.legend(frameon=False)
    figure.suptitle(title)
    write_atomically(path, lambda beside: figure.savefig(beside, dpi=120, format="png"))
