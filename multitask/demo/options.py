"""The options of `python -m multitask.demo`. No torch here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from minbert.commands.options import CommandOptions, argument, positional
from minbert.commands.plugins import plugin_argument


@dataclass(frozen=True)
class DemoOptions(CommandOptions):
    """The command line of multitask.demo."""

    run: Path | None = positional(
        "RUN",
        "folder that run_multitask.py wrote, such as runs/latest (default: the small model that "
        "comes with minBERT)",
        is_required=False,
    )
    port: int = argument(
        8000, "the port of the page's address; 0 takes a free one", "N", low=0, high=65_535
    )
    plugin: tuple[str, ...] = plugin_argument()
