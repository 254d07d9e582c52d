"""--task name=tickets,train=tickets.csv,...: from the text of a flag to a request for a task.

Everything that shows without opening a file is checked here. task_tables.py then reads the files.
No torch here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from data.tables.numbers import parse_number
from data.task_specs import BUILT_IN, KINDS

# One item of the flag. A value in quotes may hold commas.
ITEM = re.compile(
    r"\s*(?P<key>[^=,]*?)\s*=\s*"
    r"(?P<value>\"(?:[^\"]|\"\")*\"|'(?:[^']|'')*'|[^,]*?)\s*(?:,|$)"
)
KEYS = (
    "name",
    "train",
    "dev",
    "test",
    "text",
    "text_pair",
    "label",
    "id",
    "kind",
    "separator",
    "labels",
    "drop_labels",
    "low",
    "high",
    "loss",
    "metric",
    "split_seed",
    "fold",
)
EXAMPLE = "name=tickets,train=tickets.csv,text=message,label=team"
FOLD = re.compile(r"(\d{1,4})/(\d{1,4})", re.ASCII)
QUOTES = ('"', "'")
# Words that stand in place of a task's name in --score, and other keys of run.json's scores.
RESERVED = ("overall_2023", "overall_2024", "mean", "auto", "none")
FITTED_ENDING = "_lowest"  # of the number that --sts_range fits
DEV_SHARE = 0.2  # of the training rows, where there is no dev file
SPLIT_SEED = 0


@dataclass(frozen=True)
class TaskRequest:
    """A task of a user: what --task says of it. None: it does not say.

    dev: the path of a file. dev_share: the share of the training rows that are dev instead.
    drop_labels: rows with these labels are dropped and counted.
    separator: the sign between several labels of a row. fold, num_folds: which of so many equal
        parts of the training rows is dev instead, from 1. 0: a share of them is drawn.
    """

    name: str
    train: str
    dev: str | None = None
    dev_share: float = DEV_SHARE
    test: str | None = None
    text: str | None = None
    text_pair: str | None = None
    label: str | None = None
    id: str | None = None
    kind: str | None = None
    separator: str = ""
    labels: tuple[str, ...] = ()
    drop_labels: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    loss: str = ""
    metric: str = ""
    split_seed: int = SPLIT_SEED
    fold: int = 0
    num_folds: int = 0

    @property
    def is_split(self) -> bool:
        """Whether the dev rows are drawn from the training file."""
        return self.dev is None

    def file_of(self, split: str) -> str | None:
        """The file that a split is read from, or None where it has none."""
        if split == "dev" and self.is_split:
            return self.train
        return {"train": self.train, "dev": self.dev, "test": self.test}[split]

    def files(self) -> list[str]:
        """The different files of the task."""
        paths = (self.train, self.dev, self.test)
        return list(dict.fromkeys(path for path in paths if path is not None))


def parse_task(text: str) -> TaskRequest:
    """The request in the value of one --task flag.

    Raises ValueError with what was found, what is possible and what to do.
    """
    # Keys and name first: all further messages name the task.
    values = split_items(text)
    check_keys(text, values)
    place = f"--task {values['name']}"
    check_name(values["name"])

    checked: dict[str, Any] = {"name": values["name"], "train": values["train"]}
    for key in ("test", "text", "text_pair", "label", "id"):
        if key in values:
            checked[key] = values[key]
    if "text_pair" in values and "text" not in values:
        raise ValueError(f"{place}: text_pair= names the second text; add text= for the first one.")
    checked |= parse_dev(place, values)
    checked |= parse_kind(place, values)
    return TaskRequest(**checked)


def parse_tasks(texts: tuple[str, ...]) -> dict[str, TaskRequest]:
    """The requests of all --task flags, by name. Raises ValueError as parse_task does."""
    requests: dict[str, TaskRequest] = {}
    for text in texts:
        request = parse_task(text)
        for name in requests:
            # Files of both would have one name where the system does not tell capitals apart.
            if name.casefold() == request.name.casefold():
                raise ValueError(
                    f"--task {text}: another --task has the name {name}; give each its own."
                )
        requests[request.name] = request
    return requests


def with_fold(text: str, fold: int, num_folds: int) -> str:
    """The text of a --task flag in which one of so many equal parts of the training rows is dev.

    A dev file is left out. fold: from 1.
    """
    items = {key: value for key, value in split_items(text).items() if key not in ("dev", "fold")}
    items["fold"] = f"{fold}/{num_folds}"
    parts = []
    for key, value in items.items():
        quoted = value.replace('"', '""')
        parts.append(f'{key}="{quoted}"')
    return ",".join(parts)


# --- the keys -------------------------------------------------------------------------------------


def split_items(text: str) -> dict[str, str]:
    """The values of the flag by key. Raises ValueError for what is no key=value, or comes twice."""
    values: dict[str, str] = {}
    position = 0
    while position < len(text):
        item = ITEM.match(text, position)
        if item is None:
            part = text[position:].partition(",")[0].strip()
            raise ValueError(
                f"--task {text}: '{part}' is no key=value. Expected is such as --task {EXAMPLE}. A "
                'value that holds a comma stands in quotes: train="my, file.csv".'
            )
        key = item["key"]
        if key in values:
            raise ValueError(f"--task {text}: {key}= comes twice. Drop one of the two.")
        values[key] = unquoted(text, item["value"])
        position = item.end()
    return values


def unquoted(text: str, value: str) -> str:
    """A value without the quotes around it. Two quotes inside stand for one.

    text: the whole flag, for the message of a quote that is not closed.
    """
    quote = value[:1]
    if quote not in QUOTES or not quote:
        return value
    if len(value) < 2 or not value.endswith(quote):
        raise ValueError(f"--task {text}: the quote in {value} is not closed. Close or drop it.")
    return value[1:-1].replace(2 * quote, quote)


def check_keys(text: str, values: Mapping[str, str]) -> None:
    """Raise ValueError for a key that does not exist, has no value, or is missing."""
    for key, value in values.items():
        if key not in KEYS:
            close = get_close_matches(key, KEYS, n=1)
            hint = f"did you mean {close[0]}=?" if close else f"there are {', '.join(KEYS)}."
            raise ValueError(f"--task {text}: there is no key '{key}'; {hint}")
        if not value:
            raise ValueError(f"--task {text}: {key}= has no value. Give one, or drop the key.")
    for key in ("name", "train"):
        if key not in values:
            raise ValueError(f"--task {text}: {key}= is missing; write such as {EXAMPLE}.")


def check_name(name: str) -> None:
    """Raise ValueError for a name that is no identifier, or that means something else already."""
    if not (name.isidentifier() and name.isascii()):
        raise ValueError(
            f"--task name={name}: a name has letters, digits and _, and no digit first, such as "
            "tickets. It becomes part of file names."
        )
    folded = name.casefold()
    if folded in BUILT_IN:
        raise ValueError(
            f"--task name={name}: {folded} is a built-in task. Choose another name, or give its "
            f"files with --{folded}_train, --{folded}_dev and --{folded}_test."
        )
    if folded in RESERVED or folded.endswith(FITTED_ENDING):
        raise ValueError(
            f"--task name={name}: this name means another number in run.json. Choose another one."
        )


# --- the values -----------------------------------------------------------------------------------


def parse_dev(place: str, values: Mapping[str, str]) -> dict[str, Any]:
    """The values of dev and split_seed. dev is a file, or a share of the training rows."""
    parsed: dict[str, Any] = {}
    if "dev" in values:
        number = parse_number(values["dev"])
        if math.isnan(number):
            parsed["dev"] = values["dev"]
        elif 0 < number < 1:
            parsed["dev_share"] = number
        else:
            raise ValueError(
                f"{place}: dev={values['dev']}; it is a file, or a share of the training rows "
                "between 0 and 1, such as 0.2."
            )
    parsed |= parse_fold(place, values)
    if "split_seed" not in values:
        return parsed

    # A seed needs rows that are drawn.
    seed = values["split_seed"]
    if "dev" in parsed:
        raise ValueError(
            f"{place}: split_seed={seed} has no effect beside a dev file: nothing is drawn. Drop "
            "one of the two."
        )
    if not (seed.isascii() and seed.isdecimal()):
        raise ValueError(f"{place}: split_seed={seed}; it is a whole number, at least 0.")
    parsed["split_seed"] = int(seed)
    return parsed


def parse_fold(place: str, values: Mapping[str, str]) -> dict[str, int]:
    """The value of fold, such as 2/5: the second of five equal parts is dev."""
    if "fold" not in values:
        return {}
    if "dev" in values:
        raise ValueError(f"{place}: fold= and dev= both say which rows are dev. Drop one of them.")
    match = FOLD.fullmatch(values["fold"])
    fold, num_folds = map(int, match.groups()) if match else (0, 0)
    if not 1 <= fold <= num_folds or num_folds < 2:
        raise ValueError(
            f"{place}: fold={values['fold']}; it is a part and the number of parts, such as 2/5."
        )
    return {"fold": fold, "num_folds": num_folds}


def parse_kind(place: str, values: Mapping[str, str]) -> dict[str, Any]:
    """The values of kind, separator, labels, low, high, loss and metric."""
    parsed = parse_separator(place, values)
    kind = parsed.get("kind", values.get("kind"))
    if kind is not None:
        check_choice(place, "kind", kind, tuple(KINDS))
        parsed["kind"] = kind
    parsed |= parse_limits(place, values)
    if "labels" in values:
        parsed["labels"] = parse_labels(place, values["labels"])
    if "drop_labels" in values:
        parsed["drop_labels"] = parse_dropped(place, values["drop_labels"])
        both = [name for name in parsed["drop_labels"] if name in parsed.get("labels", ())]
        if both:
            raise ValueError(
                f"{place}: labels= and drop_labels= both name '{both[0]}'. Drop one of the two."
            )

    # Only a score has limits, and only classes have names.
    has_limits = "low" in parsed or "high" in parsed
    if "labels" in parsed and (has_limits or kind == "score"):
        raise ValueError(
            f"{place}: labels= names classes, and low=, high= and kind=score belong to a number. "
            "Drop one of them."
        )
    if has_limits:
        if kind not in (None, "score"):
            raise ValueError(f"{place}: low= and high= have no effect with kind={kind}. Drop them.")
        parsed["kind"] = "score"
    if kind == "binary" and len(parsed.get("labels", "12")) != 2:
        raise ValueError(f"{place}: kind=binary has two labels; labels= names another number.")
    check_measures(place, parsed.get("kind"), values)
    parsed |= {key: values[key] for key in ("loss", "metric") if key in values}
    return parsed


def parse_separator(place: str, values: Mapping[str, str]) -> dict[str, Any]:
    """The value of separator, with the only kind whose rows have something to separate."""
    if "separator" not in values:
        return {}
    kind = values.get("kind", "multilabel")
    if kind != "multilabel":
        raise ValueError(
            f"{place}: separator= stands between several labels of a row, and a row of kind={kind} "
            "has one. Say kind=multilabel, or drop separator=."
        )
    return {"separator": values["separator"], "kind": kind}


def parse_limits(place: str, values: Mapping[str, str]) -> dict[str, float]:
    """The values of low and high."""
    limits: dict[str, float] = {}
    for key in ("low", "high"):
        if key in values:
            limits[key] = parse_limit(place, key, values[key])
    if len(limits) == 1:
        raise ValueError(f"{place}: low= and high= come together. Give both, or neither.")
    if limits and limits["low"] >= limits["high"]:
        raise ValueError(
            f"{place}: low={limits['low']:g} is not below high={limits['high']:g}. Swap them."
        )
    return limits


def parse_limit(place: str, key: str, text: str) -> float:
    """The lowest or highest score."""
    number = parse_number(text)
    if not math.isfinite(number):
        raise ValueError(f"{place}: {key}={text}; it is a number, such as 0 or 10.")
    return number


def parse_labels(place: str, text: str) -> tuple[str, ...]:
    """The names of the classes, in their order."""
    names = tuple(name.strip() for name in text.split("|"))
    if len(names) < 2 or len(set(names)) < len(names) or "" in names:
        raise ValueError(
            f"{place}: labels={text}; it is two or more different names, separated by |, such as "
            "no|yes. A shell needs quotes around a flag with |."
        )
    return names


def parse_dropped(place: str, text: str) -> tuple[str, ...]:
    """The labels whose rows are dropped."""
    names = tuple(name.strip() for name in text.split("|"))
    if len(set(names)) < len(names) or "" in names:
        raise ValueError(
            f"{place}: drop_labels={text}; it is one or more different labels, separated by |, "
            "such as '-|NA'. Rows without a label are dropped in any case."
        )
    return names


def check_measures(place: str, kind: str | None, values: Mapping[str, str]) -> None:
    """Raise ValueError for a loss or metric that does not exist, or does not fit the kind."""
    for key in ("loss", "metric"):
        if key not in values:
            continue
        # Without a kind, every loss and metric may turn out to fit.
        possible: list[str] = []
        for name in KINDS if kind is None else (kind,):
            of_kind = KINDS[name].losses if key == "loss" else KINDS[name].metrics
            possible += of_kind
        check_choice(place, key, values[key], tuple(dict.fromkeys(possible)), kind)


def check_choice(
    place: str, key: str, value: str, choices: tuple[str, ...], kind: str | None = None
) -> None:
    """Raise ValueError for a value that is none of the choices. kind: of the task, if known."""
    if value in choices:
        return
    close = get_close_matches(value, choices, n=1)
    hint = f" Did you mean {close[0]}?" if close else ""
    of_kind = f" with kind={kind}" if kind else ""
    raise ValueError(f"{place}: {key}={value}; it is one of {', '.join(choices)}{of_kind}.{hint}")
