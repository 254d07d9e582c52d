"""report.html and README.md, the model card, of an encoder that was trained from plain text.

Both say what run.json and log.csv hold. minbert/reporting writes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from minbert import hub
from minbert.commands.flags import shell_command
from minbert.commands.options import changed, from_flat
from minbert.pretraining.options import PlainTextOptions, PlainTextRun
from minbert.reporting.model_cards import CardMetadata, write_card
from minbert.reporting.pages import Section, write_html
from minbert.training import run_page

TITLES = {"held_out_loss": "held-out loss", "masked_accuracy": "masked accuracy"}
NOT_STATED = (
    "Not stated. The licence of the weights depends on the text, and on the model of --init. Add "
    "it before you publish the model."
)


def write_report(run: PlainTextRun, record: Mapping[str, Any]) -> Path:
    """Write report.html into the run's folder; returns its path. record: that of run.json."""
    curves = run_page.read_curves(run.folder)
    sections = [
        Section("Training", curves.problem, level=2),
        score_section(record),
        *(run_page.curve_section(name, steps, {}) for name, steps in curves.stages.items()),
        run_page.cost_section(record, curves),
        *run_page.reproduction_sections(record, command_of(run, record)),
    ]
    path = run.folder / run_page.REPORT_FILE
    write_html(path, f"Run {run.folder.resolve().name}", sections)
    return path


def write_model_card(run: PlainTextRun, record: Mapping[str, Any]) -> Path:
    """Write README.md into the run's folder; returns its path. record: that of run.json."""
    name = run.folder.resolve().name
    options = run.options
    start = options.init if options.has_init else ""
    metadata = CardMetadata(
        name=name,
        tags=("minbert", "bert"),
        base_model=hub.published_name(start) if start else "",
        pipeline="fill-mask",
    )
    kind = "the weights of another model" if start else "random weights"
    prose = (
        f"A BERT encoder, trained by minBERT with masked language modelling on "
        f"{record['tokens']:,} tokens of plain text. It began with {kind}. transformers opens it."
    )
    command = command_of(run, record, has_folders=False)
    first, environment, _ = run_page.reproduction_sections(record, command)
    sections = [
        Section("Model", prose, level=2),
        Section("Scores", "On text that was held out.", score_section(record).table, level=2),
        Section("Licence", NOT_STATED, level=2),
        first,
        environment,
    ]
    path = run.folder / run_page.CARD_FILE
    write_card(path, metadata, name, sections)
    return path


def score_section(record: Mapping[str, Any]) -> Section:
    """Loss and accuracy at the masked tokens of the text that was held out."""
    return run_page.evaluation_section(
        "Held-out text",
        record["history"],
        record["best"]["step"],
        "held_out_loss",
        TITLES,
        is_one_scale=False,
    )


def command_of(run: PlainTextRun, record: Mapping[str, Any], has_folders: bool = True) -> str:
    """The command with a flag for each option that differs from its default.

    has_folders: whether the folders of the text and of the run are named.
    """
    paths = [*run.corpus, run.folder]
    corpus = [str(path) if has_folders else path.name for path in paths]
    out = corpus.pop()
    program = ["python", "-m", "minbert.pretraining", "--corpus", *corpus, "--out", out]
    names = set(record["options"]) - {"corpus", "out", "resume"}
    # "auto" has been replaced in the record.
    values = {name: record["options"][name] for name in names}
    return shell_command(program, changed(from_flat(PlainTextOptions, values)), separator="-")
