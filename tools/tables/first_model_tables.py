"""The tables of the default job on real sentences: how good is the first model?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from experiments.comparable import check_row
from experiments.conditions import count, measured_on, not_measured
from experiments.records import RECORDS, Record, group_records, newest_of, read_records
from experiments.tables import Answer, format_head, format_row, format_scores, score_cells
from minbert.options import EncoderOptions
from minbert.training.options import TrainingOptions

REAL_SENTENCES = RECORDS / "real-sentences.jsonl"

# What the README and the first table of results show.
FIRST_SCORES = (
    "SST, five classes, accuracy",
    "SST, polarity",
    "PARA, accuracy",
    "STS, Pearson",
)


def with_newest_data(records: Sequence[Record]) -> list[Record]:
    """The records whose runs read the same data as the last one.

    The bundled sample changes. Scores of an older sample stay on file, and in no table.
    """
    if not records:
        return []
    newest = records[-1]["run"]["data"]
    return [record for record in records if record["run"]["data"] == newest]


def runs_on_real_sentences() -> dict[str, list[Record]]:
    """The records of the default job on real sentences, by model: those of the newest data.

    Each seed counts once. Raises ValueError where the runs of a model have different options.
    """
    records = read_records(REAL_SENTENCES)
    newest = newest_of(with_newest_data(records), lambda record: (record["model"], seed_of(record)))
    of_model = group_records(newest, "model")
    for model, group in of_model.items():
        check_row(model, [record["run"] for record in group])
    # The columns stay in the order in which the models were first measured.
    names = group_records(records, "model")
    return {model: of_model[model] for model in names if model in of_model}


def seed_of(record: Record) -> int:
    """The seed of the run that a record measures."""
    return record["run"]["seed"]


def runs_of(records: Iterable[Record]) -> list[Record]:
    """The runs that records measure."""
    return [record["run"] for record in records]


def default_runs(of_model: Mapping[str, list[Record]]) -> tuple[str, list[Record]]:
    """The default model and its records; another model where it has none yet."""
    default = EncoderOptions().model
    model = default if default in of_model else next(iter(of_model))
    return model, of_model[model]


def score_lines(
    of_title: Mapping[str, list[Record]], scores: Sequence[str] | None = None
) -> list[str]:
    """The lines of a table of scores, without what stands below them.

    of_title: the records of each column. scores: of the rows, or None for all of them.
    """
    titles = [f"{name}, {count(len(records), 'seed')}" for name, records in of_title.items()]
    lines = format_head(["", *titles, "majority"])

    # All columns were measured on the same sentences, so they have the same majority.
    majority = next(iter(of_title.values()))[0]["majority"]
    for score in majority if scores is None else scores:
        cells = [score]
        for records in of_title.values():
            cells.append(format_scores([record["scores"][score] for record in records]))
        lines.append(format_row([*cells, f"{majority[score]:.3f}"]))
    return lines


def real_sentences() -> str:
    """Scores of the default job on real sentences, by model: tools/benchmarks/real_sentences.py."""
    of_model = runs_on_real_sentences()
    if not of_model:
        return not_measured("real-sentences")
    runs = []
    for records in of_model.values():
        runs += runs_of(records)
    return "\n".join([*score_lines(of_model), "", measured_on(runs)])


def first_results() -> str:
    """The four rows of the README: those of the default model in `real_sentences`."""
    of_model = runs_on_real_sentences()
    if not of_model:
        return not_measured("real-sentences")
    model, records = default_runs(of_model)
    lines = score_lines({model: records}, FIRST_SCORES)
    return "\n".join([*lines, "", measured_on(runs_of(records))])


def default_job() -> str:
    """What the default job with the default seed prints at its end: its closing table."""
    # Imported late, because it imports torch.
    from multitask.leaderboard import closing_table
    from multitask.tasks import TASKS

    of_model = runs_on_real_sentences()
    if not of_model:
        return not_measured("real-sentences")
    model, records = default_runs(of_model)
    # The README's command has no --seed.
    default_seed = TrainingOptions().seed
    for run in runs_of(records):
        if run["seed"] == default_seed:
            table = closing_table(run["scores"], run["baselines"], TASKS)
            return f"```text\n{table}\n```\n\nThe model is {model}. {measured_on([run])}"
    # It is a run of run_multitask.py without --seed.
    return f"{not_measured('real-sentences')}, with a RUN of {model} that has the default seed."


def first_model_answers() -> list[Answer]:
    """The scores of the first model, encoder by encoder."""
    answers = []
    for model, records in runs_on_real_sentences().items():
        parts = []
        cells = score_cells([run["scores"] for run in records], FIRST_SCORES)
        for score, cell in zip(FIRST_SCORES, cells, strict=True):
            parts.append(f"{score} {cell}")
        title = f"How good is {model}, trained by the default job?"
        answers.append(Answer(title, "<br>".join(parts), "first-model.md"))
    return answers


FIRST_MODEL_TABLES: dict[str, Callable[[], str]] = {
    "default-job": default_job,
    "first-results": first_results,
    "real-sentences": real_sentences,
}
