"""data/sample: real sentences, none of the course's dev or test files, and none in two splits."""

from __future__ import annotations

import csv
import shutil
from collections import Counter
from pathlib import Path

import pytest

from data.examples import COURSE_FILES, FORMATS, PARA, SST, STS, Example
from data.readers import read_examples
from tools.sample import clean, second_rule
from tools.sample.held_out import HeldOut, normal_form
from tools.sample.rows import SPLITS, Source
from tools.sample.second_rule import SecondRule

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "data" / "sample"
HUNDRED = ROOT / "tests" / "hundred_sentences.tsv"
MAX_BYTES = 4_000_000
SOURCE_OF = {source.value: source for source in Source}
COURSE = ROOT / "data" / "course"


def read_split(task: str, split: str) -> tuple[Example, ...]:
    path = SAMPLE / COURSE_FILES[task][split]
    return read_examples(path, FORMATS[task], labelled=split != "test").examples


@pytest.fixture(scope="module")
def sample() -> dict[str, dict[str, tuple[Example, ...]]]:
    """The examples of the nine files by task and split."""
    tables = {}
    for task in COURSE_FILES:
        tables[task] = {split: read_split(task, split) for split in SPLITS}
    return tables


def sentences_of(splits: dict[str, tuple[Example, ...]]) -> list[str]:
    sentences: list[str] = []
    for examples in splits.values():
        for example in examples:
            sentences += example.texts
    return sentences


# --- what is inside -------------------------------------------------------------------------------


def test_the_data_card_counts_the_rows(sample):
    page = (ROOT / "data" / "README.md").read_text("utf-8")
    for task, splits in sample.items():
        counts = [f"{len(splits[split]):,}" for split in SPLITS]
        row = f"| {task.upper()}, sample | {' | '.join(counts)} |"
        assert row in page, f"data/README.md has other counts; expected is {row}"


def test_the_files_are_small():
    assert sum(path.stat().st_size for path in SAMPLE.iterdir()) < MAX_BYTES


def test_all_five_classes_and_both_polarities_are_common(sample):
    for split in ("train", "dev"):
        examples = sample["sst"][split]
        shares = Counter(int(example.label) for example in examples)
        for label in range(5):
            assert 0.08 < shares[label] / len(examples) < 0.4, f"{split}, class {label}"


def test_labels_of_pairs_cover_their_range(sample):
    for split in ("train", "dev"):
        labels = [example.label for example in sample["para"][split]]
        assert 0.35 < sum(labels) / len(labels) < 0.5
        counts = Counter(min(int(example.label), 4) for example in sample["sts"][split])
        for whole in range(5):
            assert counts[whole] > 0.1 * len(sample["sts"][split]), f"{split}, {whole}"


def test_an_id_tells_the_source_and_is_used_once(sample):
    ids = []
    for task in sample.values():
        for split in task.values():
            ids += [example.id for example in split]
    assert len(set(ids)) == len(ids)
    sources = Counter(SOURCE_OF[row_id[:2]] for row_id in ids)
    assert set(sources) == set(Source)
    assert sources[Source.CONTROLLED] < 0.1 * len(ids), "most sentences are real"


@pytest.mark.parametrize("format", [SST, PARA, STS], ids=lambda format: format.name)
def test_files_have_the_course_headers(format):
    headers = {}
    for split in SPLITS:
        path = SAMPLE / COURSE_FILES[format.name][split]
        headers[split] = path.read_text("utf-8").split("\n")[0].split("\t")
    labelled = ["", "id", *format.text_columns, format.label_column]
    assert headers["train"] == headers["dev"] == labelled
    assert headers["test"] == (["0"] if format is SST else []) + labelled[:-1]


# --- leakage --------------------------------------------------------------------------------------


def test_no_sentence_stands_in_two_splits(sample):
    """Neither in one task, nor in two: the tasks share the encoder."""
    forms: dict[str, set[str]] = {split: set() for split in SPLITS}
    for splits in sample.values():
        for split, examples in splits.items():
            forms[split].update(normal_form(text) for text in sentences_of({split: examples}))
    assert not forms["train"] & forms["dev"]
    assert not forms["train"] & forms["test"]
    assert not forms["dev"] & forms["test"]


def test_none_of_the_hundred_sentences_is_inside(sample):
    with open(HUNDRED, encoding="utf-8", newline="") as file:
        texts = [row["sentence"] for row in csv.DictReader(file, delimiter="\t")]
    hundred = {normal_form(text) for text in texts}
    for splits in sample.values():
        assert not hundred & {normal_form(text) for text in sentences_of(splits)}


@pytest.mark.skipif(not COURSE.is_dir(), reason="python -m data.download has not run")
def test_no_row_touches_the_course_s_dev_and_test_files(capsys):
    assert clean.main(["--course", str(COURSE)]) == 0, capsys.readouterr().out
    assert second_rule.main(["--course", str(COURSE)]) == 0, capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("A film about the café  on the hill", True, id="case and accents"),
        pytest.param("Well, a film about the cafe on the hill!", True, id="contains one"),
        pytest.param("about the cafe on the hill", True, id="is contained in one"),
        pytest.param("short one!", True, id="equals a short one"),
        pytest.param("the hill", False, id="too short to tell"),
        pytest.param("a film about a house in the woods", False, id="another sentence"),
        pytest.param("Who invented the sand clock?", True, id="four of five words"),
        pytest.param("What is depth perception?", True, id="one word more than a short one"),
        pytest.param("What's your favorite drink?", True, id="a short form is two words"),
        pytest.param("Who invented the sand clock of glass?", False, id="four of seven words"),
        pytest.param("What is the perception?  Why?", False, id="two words more"),
        pytest.param("Who are you?", False, id="another question"),
    ],
)
def test_what_touches_a_held_out_sentence(text, expected):
    sentences = ["A film about the cafe on the hill .", "Short one"]
    questions = ["Who invented the clock?", "What is perception?", "What 's your favorite book?"]
    assert HeldOut([*sentences, *questions]).touches(text) == expected


# --- the rule that finds leaks --------------------------------------------------------------------


def as_treebank(text: str) -> str:
    """A sentence as the treebank of SST writes it: signs as words of their own, and by names."""
    words = text.replace("(", " -LRB- ").replace(")", " -RRB- ").replace("[", " -LSB- ")
    words = words.replace("]", " -RSB- ").replace("n't", " n't").replace('"', " `` ")
    return " ".join(words.replace(" - ", " -- ").replace(",", " ,").replace("/", r"\/").split())


def test_two_rules_find_sentences_that_the_treebank_writes_in_its_way(sample):
    """Those with brackets are held out. Both rules find all of them, and no other one."""
    texts = [text for text in sentences_of(sample["sst"]) if len(normal_form(text)) >= 40]
    bracketed = [text for text in texts if "(" in text]
    assert len(bracketed) > 20
    held_out_texts = [as_treebank(text) for text in bracketed]
    first, second = HeldOut(held_out_texts), SecondRule(held_out_texts)
    for text, written in zip(bracketed, held_out_texts, strict=True):
        assert "-LRB-" in written
        assert first.touches(text) and second.finds(text)
        # As many reviews do, with a part of its own before it.
        longer = f"Now and then one must say it: {text}"
        assert first.touches(longer) and second.finds(longer)

    others = [text for text in texts if "(" not in text][:1000]
    for text in others:
        assert first.touches(text) == bool(second.finds(text)), text


def test_near_copies_are_found_by_both_rules(sample):
    """One word of at least twelve is dropped, or another one is put in its place."""
    texts = [text for text in sentences_of(sample["sst"]) if len(set(text.split())) >= 14][:100]
    written = [as_treebank(text) for text in texts]
    first, second = HeldOut(written), SecondRule(written)
    for text in texts:
        words = text.split()
        middle = len(words) // 2
        dropped = " ".join(words[:middle] + words[middle + 1 :])
        changed = " ".join([*words[:middle], "zebra", *words[middle + 1 :]])
        for copy in (dropped, changed):
            assert first.is_near(copy) and second.finds(copy), copy


def test_letters_of_a_bracket_s_name_are_no_letters_of_the_text():
    """The older rule kept "lrb" and "rrb", so no sentence with brackets was found."""
    assert normal_form("A film -LRB- of sorts -RRB- .") == normal_form("A film (of sorts).")
    held_out = HeldOut(["A slow film -LRB- of sorts -RRB- about a small town ."])
    assert held_out.overlaps("A slow film (of sorts) about a small town.")


def test_rows_that_touch_are_removed_and_the_others_stay_as_they_were(tmp_path, capsys):
    """Without any such row, the files keep their bytes: a control of what is written."""
    sample, course = tmp_path / "sample", tmp_path / "course"
    shutil.copytree(SAMPLE, sample)
    shutil.copytree(SAMPLE, course)
    for task, splits in COURSE_FILES.items():
        texts = FORMATS[task].text_columns
        for split in ("dev", "test"):
            header = ["", "id", *texts, FORMATS[task].label_column]
            row = ["0", "x", *["nothing"] * len(texts), "0"]
            lines = f"{chr(9).join(header)}\n{chr(9).join(row)}\n"
            (course / splits[split]).write_text(lines, encoding="utf-8")
    flags = ["--course", str(course), "--sample", str(sample), "--remove"]
    files = {path.name: path.read_bytes() for path in SAMPLE.glob("*.csv")}

    assert clean.main(flags) == 0
    assert {path.name: path.read_bytes() for path in sample.glob("*.csv")} == files

    touched = read_split("sst", "test")[3]
    with open(course / COURSE_FILES["sst"]["test"], "a", encoding="utf-8") as file:
        file.write(f"1\ty\t{as_treebank(touched.sentence_1)}\t0\n")
    assert clean.main([*flags[:-1]]) == 1
    assert touched.id in capsys.readouterr().out
    assert clean.main(flags) == 0
    name = COURSE_FILES["sst"]["test"]
    rows = read_examples(sample / name, FORMATS["sst"], labelled=False).examples
    assert [row.id for row in rows] == [
        row.id for row in read_split("sst", "test") if row.id != touched.id
    ]
    assert (sample / name).read_text("utf-8").split("\n")[4].startswith("4\t3\t")
