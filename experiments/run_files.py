"""Reading what a run wrote into its folder: options.json, run.json and each stage.json."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from minbert.commands import files

Scores = dict[str, float]

# The sections of run.json that the tables read.
SECTIONS = ("options", "scores", "stages")


def read_json(path: Path, *sections: str) -> dict[str, Any]:
    """Return the content of options.json or run.json.

    Raises ValueError where the file is damaged or where one of the sections is missing.
    """
    try:
        content = files.read_json(path)
        checked = {name: dict(content[name]) for name in sections}
        return {**content, **checked}
    except files.DamagedFile as error:
        raise ValueError(f"{path}: {error}.") from error
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ValueError(
            f"{path}: there is no such file. Give the folder of a finished run."
        ) from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path}: not what a run writes ({type(error).__name__}: {error}). Move the run."
        ) from error


def read_record(folder: Path) -> dict[str, Any]:
    """Return the run.json of a finished run. Raises ValueError where it is damaged."""
    return read_json(folder / "run.json", *SECTIONS)


def dev_scores(record: dict[str, Any], published: Collection[str] = ()) -> Scores:
    """Return the dev scores of a finished run, by the names in run.json.

    A run with fewer tasks has the scores of its own tasks. The heads of the others are untrained.
    published: tasks whose score the report of a recipe prints. They count even so, as there.
    """
    # Imported late, because it imports torch, which --help does not need.
    from multitask.tasks import answerable_tasks, stored_tasks, with_overall

    options = record["options"]
    read = stored_tasks(record)
    trained = answerable_tasks(read, options["tasks"].split(","), options["head"])
    counted = [name for name in read if name in trained or name in published]
    return with_overall({name: record["scores"][name] for name in counted})


def metrics_of(record: dict[str, Any]) -> dict[str, str]:
    """Return the metric of each task that a finished run has read, such as "Pearson"."""
    from multitask.tasks import stored_tasks  # late, as above

    return {name: task.metric for name, task in stored_tasks(record).items()}


def train_scores(record: dict[str, Any]) -> Scores:
    """Return the scores on training rows that --score_train has computed, or {}."""
    return dict(record.get("train_scores", {}))


def stage_records(folder: Path, record: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return what run.json says of each stage of --pretrain, by stage.

    "seconds" comes from the folder of the stage's encoder. It is missing where that folder was
    deleted.
    """
    stages = {name: dict(stage) for name, stage in record["stages"].items()}
    for name, stage in stages.items():
        # The last encoder is the result of the chain, so its folder has a name of its own.
        is_last = name == list(stages)[-1]
        path = folder / ("encoder" if is_last else f"encoder-{name}") / "stage.json"
        if path.is_file():
            stage["seconds"] = read_json(path)["seconds"]
    return stages
