"""tools/sample/sample_grades.py: what each run reads, what is trained, and the table."""

from __future__ import annotations

import hashlib
import json
import subprocess
from random import Random

import numpy as np
import pytest

from data.examples import COURSE_FILES, SST, Example
from data.readers import read_examples
from tools.sample import reviews, sample_grades
from tools.sample.grades import FIRST, FIRST_SEEDS, candidates
from tools.sample.reviews import Opinion
from tools.sample.rows import Row, Source
from tools.sample.sample_grades import (
    main,
    make_record,
    measure_all,
    name_of,
    split_rows,
    train,
    write_data,
)
from tools.sample.shares import Shares

FILM = Row(("a lovely film .",), 3, Source.FILMS)
PRODUCT = Row(("The screen is great.",), 4, Source.PRODUCTS)
PHRASES = Row(("easy to use",), 4, Source.PROS_AND_CONS)


class ToyBuilder:
    """A builder of four rows. Only the film sentence depends on the shares."""

    def sst(self, shares: Shares) -> dict[str, list[Row]]:
        film = FILM._replace(label=2 if shares.neutral > 0.2 else 3)
        return {"train": [film, PRODUCT], "dev": [PRODUCT, PHRASES], "test": [film]}

    def random(self, name: str) -> Random:
        return Random(name)


def test_the_product_sentences_are_the_measure_and_in_no_file(tmp_path):
    kept, products = split_rows(ToyBuilder().sst(FIRST))
    assert kept == {"train": [FILM], "dev": [PHRASES], "test": [FILM]}
    assert [(example.texts, example.label) for example in products] == [(PRODUCT.texts, 4)] * 2

    assert write_data(ToyBuilder(), Shares(0.25, 0.15), tmp_path) == products
    (row,) = read_examples(tmp_path / COURSE_FILES["sst"]["train"], SST).examples
    assert (row.texts[0].strip(), row.label) == (FILM.texts[0], 2.0)
    assert (tmp_path / COURSE_FILES["sts"]["dev"]).is_file()


def test_shares_change_classes_and_no_sentence(monkeypatch):
    """Twenty sentences of each polarity, the clearest last."""
    opinions = [Opinion(f"good {number}", 1) for number in range(20)]
    opinions += [Opinion(f"bad {number}", -1) for number in range(20)]
    log_odds = np.array([*range(20), *range(0, -20, -1)])
    monkeypatch.setattr(reviews, "log_odds", lambda *others: log_odds)

    def labels(source, neutral, strong):
        rows = reviews.grade(opinions, source, None, None, Shares(neutral, strong))
        assert [row.texts[0] for row in rows] == [opinion.text for opinion in opinions]
        return [row.label for row in rows]

    films = labels(Source.FILMS, 0.1, 0.2)
    assert films == [2] * 2 + [3] * 14 + [4] * 4 + [2] * 2 + [1] * 14 + [0] * 4
    # Phrases are never neutral.
    phrases = labels(Source.PROS_AND_CONS, 0.1, 0.5)
    assert phrases == [3] * 10 + [4] * 10 + [1] * 10 + [0] * 10


def test_a_run_is_trained_once_and_goes_on_after_a_stop(tmp_path, monkeypatch):
    commands = []
    data = tmp_path / "data"
    write_data(ToyBuilder(), FIRST, data)
    rows = (data / COURSE_FILES["sst"]["train"]).read_bytes()
    files = {"ids-sst-train.csv": hashlib.sha256(rows).hexdigest()}

    def run(command, **settings):
        commands.append(command)
        folder = tmp_path / "neutral-15-strong-25-seed-7"
        folder.mkdir(exist_ok=True)
        name = "run.json" if "--resume" in command else "options.json"
        (folder / name).write_text(json.dumps({"files": files}))

    monkeypatch.setattr(subprocess, "run", run)
    folders = {train(FIRST, 7, data, tmp_path) for _ in range(3)}
    assert folders == {tmp_path / "neutral-15-strong-25-seed-7"}
    first, second = commands
    assert first[first.index("--tasks") + 1] == "sst" and first[first.index("--seed") + 1] == "7"
    assert first[first.index("--data-dir") + 1] == str(data)
    assert second[-2:] == ["--resume", str(*folders)]

    # Other rows would give another score.
    write_data(ToyBuilder(), Shares(0.25, 0.25), data)
    with pytest.raises(ValueError, match="was trained on other rows"):
        train(FIRST, 7, data, tmp_path)


def test_the_finalists_get_one_more_seed(tmp_path, monkeypatch):
    best = Shares(0.25, 0.35)

    def record(shares, run, products):
        return {**shares._asdict(), "scores": {"SST, macro-F1": 0.9 if shares == best else 0.1}}

    monkeypatch.setattr(sample_grades, "train", lambda shares, seed, data, out: seed)
    monkeypatch.setattr(sample_grades, "make_record", record)
    records = list(measure_all(ToyBuilder(), tmp_path))
    assert len(records) == len(candidates()) * len(FIRST_SEEDS) + 4
    assert records[-1]["neutral"] == FIRST.neutral and records[-1]["strong"] == FIRST.strong
    assert sum(record["scores"]["SST, macro-F1"] == 0.9 for record in records) == 3
    assert len({name_of(shares) for shares in candidates()}) == len(candidates())


def test_a_cache_of_others_is_refused(sample_data, tmp_path, capsys):
    (tmp_path / "texts.txt").write_text("a list of mine\n")
    flags = []
    for name in ("sources", "wordnet", "cache", "out"):
        flags += [f"--{name}", str(tmp_path)]
    assert main([*flags, "--course", str(sample_data)]) == 2
    assert "--cache" in capsys.readouterr().err


def test_the_record_of_a_run_has_its_shares_and_scores(two_runs):
    products = [Example(str(number), f"word {number}", None, float(number)) for number in range(5)]
    record = make_record(FIRST, two_runs[0], products)
    assert record["products"] == 5 and record["neutral"] == 0.15
    assert 0.0 <= record["scores"]["SST, macro-F1"] <= 1.0
