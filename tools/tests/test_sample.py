"""data/sample: real sentences, none of the course's dev or test files, and none in two splits."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import pytest

from data.examples import COURSE_FILES, FORMATS, PARA, SST, STS, Example
from data.readers import read_examples
from tools.sample.held_out import HeldOut, normal_form, read_held_out
from tools.sample.rows import SPLITS, Source

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "data" / "sample"
HUNDRED = ROOT / "tests" / "hundred_sentences.tsv"
MAX_BYTES = 4_000_000
SOURCE_OF = {source.value: source for source in Source}
COURSE = ROOT / "data" / "course"
# Rows that touch the course's dev and test files. data/sample/README.md names them.
KNOWN_LEAKS = {
    ("sst", "train"): 47,
    ("sst", "dev"): 4,
    ("sst", "test"): 9,
    ("para", "train"): 5,
    ("sts", "train"): 1,
}


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
    ids = [example.id for task in sample.values() for split in task.values() for example in split]
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
def test_no_other_row_touches_the_course_s_dev_and_test_files_than_its_page_names(sample):
    """The rule that made the sample did not read the treebank's brackets, nor near copies."""
    held_out = read_held_out(COURSE)
    for task, splits in sample.items():
        for split, examples in splits.items():
            rows = [row for row in examples if any(held_out.touches(text) for text in row.texts)]
            assert len(rows) == KNOWN_LEAKS.get((task, split), 0), f"{task} {split}: {rows[:3]}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("A film about the café  on the hill", True, id="case and accents"),
        pytest.param("Well, a film about the cafe on the hill!", True, id="contains one"),
        pytest.param("about the cafe on the hill", True, id="is contained in one"),
        pytest.param("the cafe on the", False, id="too short to tell"),
        pytest.param("a film about the house on the hill", False, id="another sentence"),
    ],
)
def test_what_touches_a_held_out_sentence(text, expected):
    held_out = HeldOut(["A film about the cafe on the hill .", "Short one"])
    assert held_out.touches(text) == expected


# --- the rule that finds leaks --------------------------------------------------------------------


def as_treebank(text: str) -> str:
    """A sentence as the treebank of SST writes it: signs as words of their own, and by names."""
    words = text.replace("(", " -LRB- ").replace(")", " -RRB- ").replace("[", " -LSB- ")
    words = words.replace("]", " -RSB- ").replace("n't", " n't").replace('"', " `` ")
    return " ".join(words.replace(" - ", " -- ").replace(",", " ,").replace("/", r"\/").split())


def second_rule(text: str, other: str) -> bool:
    """Whether one text holds the other one as a run of whole words, or nearly equals it.

    It shares no line with tools/sample/held_out.py. That file compares letters without blanks, and
    sets of words. This one compares whole words in their order, and how often each one is there.
    """
    runs = []
    for sentence in (text, other):
        for name in ("-LRB-", "-RRB-", "-LSB-", "-RSB-", "-LCB-", "-RCB-"):
            sentence = sentence.replace(name, " ").replace(" n't", "n't")
        signs = [sign if sign.isalnum() or sign == " " else " " for sign in sentence.casefold()]
        runs.append(" ".join("".join(signs).split()))
    short, long = sorted(runs, key=len)
    if len(short) >= 30 and f" {short} " in f" {long} ":
        return True
    counts = [Counter(run.split()) for run in runs]
    num_common = (counts[0] & counts[1]).total()
    num_words = max(counts[0].total(), counts[1].total())
    return num_words >= 8 and num_common >= 0.8 * num_words


def test_two_rules_find_sentences_that_the_treebank_writes_in_its_way(sample):
    """Those with brackets are held out. Both rules find all of them, and no other one."""
    texts = [text for text in sentences_of(sample["sst"]) if len(normal_form(text)) >= 40]
    bracketed = [text for text in texts if "(" in text]
    assert len(bracketed) > 20
    held_out_texts = [as_treebank(text) for text in bracketed]
    held_out = HeldOut(held_out_texts)
    for text, written in zip(bracketed, held_out_texts, strict=True):
        assert "-LRB-" in written
        assert held_out.touches(text) and second_rule(text, written)
        # As many reviews do, with a part of its own before it.
        longer = f"Now and then one must say it: {text}"
        assert held_out.touches(longer) and second_rule(longer, written)

    others = [text for text in texts if "(" not in text][:300]
    for text in others:
        by_second_rule = any(second_rule(text, written) for written in held_out_texts)
        assert held_out.touches(text) == by_second_rule, text


def test_near_copies_are_found_by_both_rules(sample):
    """One word of at least twelve is dropped, or another one is put in its place."""
    texts = [text for text in sentences_of(sample["sst"]) if len(set(text.split())) >= 14][:100]
    held_out = HeldOut(as_treebank(text) for text in texts)
    for text in texts:
        words = text.split()
        middle = len(words) // 2
        dropped = " ".join(words[:middle] + words[middle + 1 :])
        changed = " ".join([*words[:middle], "zebra", *words[middle + 1 :]])
        for copy in (dropped, changed):
            assert held_out.is_near(copy) and second_rule(copy, as_treebank(text)), copy


def test_letters_of_a_bracket_s_name_are_no_letters_of_the_text():
    """The older rule kept "lrb" and "rrb", so no sentence with brackets was found."""
    assert normal_form("A film -LRB- of sorts -RRB- .") == normal_form("A film (of sorts).")
    held_out = HeldOut(["A slow film -LRB- of sorts -RRB- about a small town ."])
    assert held_out.overlaps("A slow film (of sorts) about a small town.")
