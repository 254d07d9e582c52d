"""data/readers.py: the course's format, the message of each bad input, and no row lost."""

import gzip
import sys
from collections import Counter
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from data import readers
from data.examples import (
    COURSE_FILES,
    FORMATS,
    PARA,
    SST,
    STS,
    TRAINING_FORMATS,
    Example,
    Format,
    evenly_spaced,
)
from data.options import SAMPLE_FOLDER
from data.readers import read_course_file, read_examples
from data.tables.columns import ColumnNames

COURSE = Path(__file__).parents[2] / "data" / "course"
SST_HEADER = "\tid\tsentence\tsentiment\n"
STS_HEADER = "\tid\tsentence1\tsentence2\tsimilarity\n"
PARA_HEADER = "\tid\tsentence1\tsentence2\tis_duplicate\n"


@pytest.fixture
def write(tmp_path):
    def write_file(content: str | bytes) -> Path:
        path = tmp_path / "rows.csv"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write_file


def message_of(path, format, **options) -> str:
    """The message with which the file is refused."""
    with pytest.raises(ValueError) as caught:
        read_examples(path, format, **options)
    return str(caught.value)


def test_single_sentence_by_hand(write):
    path = write(SST_HEADER + "0\taa1\t A lovely film .\t3\n1\tbb2\t It 's dull .\t1\n")
    table = read_examples(path, SST)
    assert table.examples == (
        Example("aa1", "A lovely film .", None, 3.0),
        Example("bb2", "It 's dull .", None, 1.0),
    )
    assert table.summary == f"{path}: 2 rows read, 0 dropped"


def test_pair_with_decimals_and_doubled_quotes(write):
    path = write(STS_HEADER + '7\taa1\tA man sings.\t"""Who sings?"" he asked."\t2.75\n')
    assert read_examples(path, STS).examples == (
        Example("aa1", "A man sings.", '"Who sings?" he asked.', 2.75),
    )


def test_a_probability_is_a_label_of_training_pairs_alone(write):
    path = write(PARA_HEADER + "0\tq1\tA ?\tB ?\t0.25\n")
    assert read_examples(path, TRAINING_FORMATS["para"]).examples[0].label == 0.25
    message = "label '0.25' is not allowed; PARA labels are whole numbers 0 to 1"
    assert message in message_of(path, PARA)

    path = write(PARA_HEADER + "0\tq1\tA ?\tB ?\t1.5\n")
    message = "label '1.5' is not allowed; PARA labels are 0 to 1"
    assert message in message_of(path, TRAINING_FORMATS["para"])
    assert TRAINING_FORMATS | {"para": PARA} == FORMATS


def test_columns_are_found_by_name_as_in_the_sst_test_file(write):
    path = write("0\t\tid\tsentence\n1\t0.0\taa1\t Effective\n")
    assert read_examples(path, SST, labelled=False).examples == (
        Example("aa1", "Effective", None, None),
    )


def test_labels_are_ignored_where_none_are_asked_for(write):
    path = write(SST_HEADER + "0\taa1\tFine\tunknown\n")
    assert read_examples(path, SST, labelled=False).examples[0].label is None


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("\ufeff" + SST_HEADER + "0\taa1\tFine\t3\n", id="byte-order mark"),
        pytest.param(
            SST_HEADER.replace("\n", "\r\n") + "0\taa1\tFine\t3\r\n", id="line ends of Windows"
        ),
        pytest.param(SST_HEADER + "\n0\taa1\tFine\t3\n\n\n", id="blank lines"),
        pytest.param(SST_HEADER + "0\taa1\tFine\t3", id="no line break at the end"),
        pytest.param(SST_HEADER + "0\taa1\tFine\t3.0\n", id="a decimal"),
    ],
)
def test_harmless_variations(write, content):
    assert read_examples(write(content), SST).examples == (Example("aa1", "Fine", None, 3.0),)


def test_line_break_inside_quotes_belongs_to_the_sentence_and_counts_as_a_line(write):
    path = write(SST_HEADER + '0\taa1\t"two\nlines"\t3\n1\tbb2\tFine\tnine\n')
    assert "line 4: label 'nine'" in message_of(path, SST)
    table = read_examples(path, SST, drop_bad_rows=True)
    assert table.examples[0].sentence_1 == "two\nlines"


def test_labelled_rows_without_label_or_sentence_are_dropped_and_named(write):
    rows = [
        "0\taa1\tWhy?\tHow?\t1.0",
        "1\tbb2\tWhy?\tHow?\t",
        "2\tcc3\tWhy?\t\t",
        "3\tdd4\t \tHow?\t0.0",
    ]
    path = write(PARA_HEADER + "\n".join(rows) + "\n")
    table = read_examples(path, PARA)
    assert [example.id for example in table.examples] == ["aa1"]
    assert table.summary == (
        f"{path}: 4 rows read, 3 dropped (line 3, id bb2: empty label; line 4, id cc3: empty "
        "sentence2 and label; line 5, id dd4: empty sentence1)"
    )


def test_a_dropped_row_is_found_by_any_id_that_can_be_printed(write):
    path = write(SST_HEADER + "0\tq-17\t \t3\n1\ta\x07\t \t3\n2\tbb2\tFine\t3\n")
    summary = read_examples(path, SST).summary
    assert "(line 2, id q-17: empty sentence; line 3, id unusable: empty sentence)" in summary


def test_unlabelled_rows_are_never_dropped(write):
    path = write("\tid\tsentence1\tsentence2\n0\taa1\tWhy?\t\n1\tbb2\t\tHow?\n")
    table = read_examples(path, PARA, labelled=False, drop_bad_rows=True)
    assert table.examples == (Example("aa1", "Why?", "", None), Example("bb2", "", "How?", None))
    short = write("\tid\tsentence1\tsentence2\n0\taa1\tWhy?\n")
    message = message_of(short, PARA, labelled=False, drop_bad_rows=True)
    assert "line 2: the row has 3 fields" in message and "none is skipped" in message


def test_summary_names_five_rows_and_counts_the_rest(write):
    bad_rows = "".join(f"{n}\tid{n}\tFine\t\n" for n in range(8))
    path = write(SST_HEADER + bad_rows + "9\taa1\tFine\t3\n")
    summary = read_examples(path, SST).summary
    assert "9 rows read, 8 dropped" in summary
    assert "id id4" in summary
    assert "id id5" not in summary
    assert summary.endswith("; and 3 more)")


class BadRowCase(NamedTuple):
    """A row that cannot be read, and how the message about it begins."""

    format: Format
    row: str | bytes
    message: str


BAD_ROWS = {
    "label is a word": BadRowCase(
        STS, "0\taa1\tOne.\tTwo.\tn/a\n", "label 'n/a' is not a number; STS labels are 0 to 5"
    ),
    "label is nan": BadRowCase(
        STS, "0\taa1\tOne.\tTwo.\tnan\n", "label 'nan' is not a number; STS labels are 0 to 5"
    ),
    "label too high": BadRowCase(
        STS, "0\taa1\tOne.\tTwo.\t5.1\n", "label '5.1' is not allowed; STS labels are 0 to 5"
    ),
    "label infinite": BadRowCase(
        STS, "0\taa1\tOne.\tTwo.\tinf\n", "label 'inf' is not a number; STS labels are 0 to 5"
    ),
    "label negative": BadRowCase(
        SST, "0\taa1\tFine\t-1\n", "label '-1' is not allowed; SST labels are whole numbers"
    ),
    "label not whole": BadRowCase(
        PARA,
        "0\taa1\tWhy?\tHow?\t0.5\n",
        "label '0.5' is not allowed; PARA labels are whole numbers 0 to 1",
    ),
    "row too short": BadRowCase(SST, "0\taa1\tFine\n", "the row has 3 fields; the header names 4"),
    "row too long": BadRowCase(
        SST, "0\taa1\tFine\tfilm\t3\n", "the row has 5 fields; the header names 4"
    ),
    "id empty": BadRowCase(SST, "0\t\tFine\t3\n", "the id is empty"),
    "id with a comma": BadRowCase(
        SST, "0\ta,b\tFine\t3\n", "the id 'a,b' holds a comma, tab or line break"
    ),
    "id doubled": BadRowCase(SST, "0\tgood\tFine\t3\n", "the id good stands on line 2 already"),
    "not UTF-8": BadRowCase(
        SST, "0\taa1\tcafé ".encode() + b"caf\xe9\t3\n", "the row holds bytes that are not UTF-8"
    ),
    "the header again": BadRowCase(SST, SST_HEADER, "the row repeats the header"),
    "a failed formula": BadRowCase(
        SST, "0\taa1\t#NAME?\t3\n", "'sentence' holds #NAME?, a spreadsheet's failed formula"
    ),
    "a zero byte": BadRowCase(
        SST, b"0\taa1\tca\0\t3\n", "the row holds a zero byte, which is no text"
    ),
}
HEADERS = {"sst": SST_HEADER, "para": PARA_HEADER, "sts": STS_HEADER}
GOOD_ROWS = {
    "sst": "0\tgood\tFine\t2\n",
    "para": "0\tgood\tFine\tHow?\t1\n",
    "sts": "0\tgood\tFine\tHow?\t2.5\n",
}


@pytest.mark.parametrize("name", BAD_ROWS)
def test_bad_row_is_an_error_with_line_and_advice_or_is_dropped_and_named(write, name):
    format, bad_row, expected = BAD_ROWS[name]
    if isinstance(bad_row, str):
        bad_row = bad_row.encode()
    good_start = HEADERS[format.name] + GOOD_ROWS[format.name]
    path = write(good_start.encode() + bad_row)

    # A command without the flag does not name it.
    message = message_of(path, format)
    assert message.startswith(f"{path}, line 3: {expected}")
    assert message.endswith("Fix or remove the row.")
    message = message_of(path, format, drop_bad_rows=False)
    assert message.endswith("Fix the row, or pass --drop-bad-rows to skip and count such rows.")

    table = read_examples(path, format, drop_bad_rows=True)
    assert [example.id for example in table.examples] == ["good"]
    assert "2 rows read, 1 dropped (line 3, id " in table.summary
    assert expected in table.summary


def test_missing_file(tmp_path):
    message = message_of(tmp_path / "absent.csv", SST)
    assert "absent.csv: there is no such file" in message and "python -m data.download" in message


def test_folder_instead_of_a_file(tmp_path):
    assert "cannot be read" in message_of(tmp_path, SST)


@pytest.mark.parametrize("content", ["", "\n\n", "\ufeff"])
def test_empty_file(write, content):
    message = "rows.csv: the file is empty; expected are a header and at least one row"
    assert message in message_of(write(content), SST)


ONE_ROW = SST_HEADER + "0\taa1\tDas Café für 5 €\t3\n"


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(ONE_ROW.encode("utf-16-le"), id="UTF-16 without a mark"),
        pytest.param(ONE_ROW.encode("utf-16"), id="UTF-16 LE"),
        pytest.param(b"\xfe\xff" + ONE_ROW.encode("utf-16-be"), id="UTF-16 BE"),
        pytest.param(ONE_ROW.replace("\t", ",").encode(), id="commas"),
        pytest.param(b"sep=;\r\n" + ONE_ROW.replace("\t", ";").encode(), id="semicolons"),
    ],
)
def test_files_of_other_programs_give_the_same_rows(write, content):
    table = read_examples(write(content), SST)
    assert table.examples == (Example("aa1", "Das Café für 5 €", None, 3.0),)
    assert table.summary.endswith("1 rows read, 0 dropped")


def test_windows_1252_is_read_and_the_user_is_told(write):
    table = read_examples(write(ONE_ROW.encode("cp1252")), SST)
    assert table.examples[0].sentence_1 == "Das Café für 5 €"
    assert "; read as Windows-1252, because it is not UTF-8; it holds 'Café'" in table.summary
    assert table.cut(0).notes == table.notes


def test_a_cut_takes_rows_at_even_distances_and_counts_the_others(write):
    """So the part of a file that is sorted by label holds all labels."""
    rows = "".join(f"{number}\tr{number}\tfine\t{number // 2}\n" for number in range(10))
    table = read_examples(write(SST_HEADER.encode() + rows.encode()), SST)
    cut = table.cut(4)
    assert [example.id for example in cut.examples] == ["r0", "r2", "r5", "r7"]
    assert cut.num_left_out == 6
    assert cut.summary.endswith("10 rows read, 0 dropped, 6 left out as asked")
    assert table.cut(10) is table


def test_evenly_spaced():
    """At the places 0, 2.5, 5 and 7.5 of ten, rounded down."""
    assert evenly_spaced(range(10), 4) == [0, 2, 5, 7]
    assert evenly_spaced("abc", 0) == []
    for limit in (3, 99):
        assert evenly_spaced("abc", limit) == "abc"


def test_compressed(write):
    message = message_of(write(gzip.compress(SST_HEADER.encode())), SST)
    assert "the file is compressed; unpack it with gunzip first" in message


def test_ids_may_hold_blanks(write):
    """An early release of the course's Quora files has such ids."""
    path = write(PARA_HEADER + "0\t101 0a1b2c3d\tA ?\tB ?\t1.0\n1\t102 0a1b2c3d\tC ?\tD ?\t0.0\n")
    ids = [example.id for example in read_examples(path, PARA).examples]
    assert ids == ["101 0a1b2c3d", "102 0a1b2c3d"]


def test_the_cmu_format_has_no_ids_and_no_header(write):
    table = read_examples(write("3 ||| Fine , really\n\n1 ||| Dull\n"), SST)
    assert table.examples == (
        Example("line-1", "Fine , really", None, 3.0),
        Example("line-3", "Dull", None, 1.0),
    )
    assert table.summary.endswith("; it has no column id, so rows are called by their lines")
    unlabelled = read_examples(write("0 ||| Fine\n"), SST, labelled=False)
    assert unlabelled.examples == (Example("line-1", "Fine", None, None),)


def test_without_an_id_rows_are_called_by_their_lines_but_not_in_a_test_file(write):
    path = write("sentence,sentiment\nFine,3\n")
    assert read_examples(path, SST).examples == (Example("line-2", "Fine", None, 3.0),)
    message = message_of(path, SST, labelled=False)
    assert "the header has no column id; found are: sentence, sentiment. A file without" in message


def test_columns_of_other_names(write):
    path = write("key;Nachricht;Wert\nx;Gut;3,5\ny;Schlecht;0\n")
    names = ColumnNames(text="nachricht", label="Wert", id="key")
    free = Format("sst", ("sentence",), "sentiment", 0, 5, is_integer=False)
    assert [e.label for e in read_examples(path, free, names=names).examples] == [3.5, 0]
    message = message_of(path, free, names=ColumnNames(text="Text"))
    assert "no column Text, which --text names; found are: key, Nachricht, Wert." in message


@pytest.mark.parametrize(
    ("label", "expected"), [("TRUE", 1), ("false", 0), ("1", 1), ("0,0", 0), ("1.0", 1)]
)
def test_a_label_of_two_values_may_be_a_word(write, label, expected):
    path = write(PARA_HEADER + f"0\tq1\tA ?\tB ?\t{label}\n")
    assert read_examples(path, PARA).examples[0].label == expected


def test_a_true_score_is_no_number(write):
    assert "label 'TRUE' is not a number" in message_of(
        write(STS_HEADER + "0\tq1\tA.\tB.\tTRUE\n"), STS
    )


def test_header_without_rows(write):
    assert "a header and no usable rows (0 dropped)" in message_of(write(SST_HEADER), SST)


def test_header_and_only_dropped_rows(write):
    message = message_of(write(SST_HEADER + "0\taa1\tFine\t\n"), SST)
    assert "a header and no usable rows (1 dropped, the first: line 2, id aa1: " in message


def test_header_without_a_needed_column_names_those_found(write):
    message = message_of(write("\tid\tphrase\tsentiment\n0\taa1\tFine\t3\n"), SST)
    assert "line 1: the header has no column sentence; found are: id, phrase, sentiment." in message
    assert "SST files need id, sentence, sentiment. Fix the header, or pass" in message


def test_file_that_is_not_text(write):
    path = write(b"PK\x03\x04\xff\xfe\x00\x80\n\x99")
    assert "the file begins as an archive, but is damaged" in message_of(path, SST)


@pytest.mark.parametrize("dropping", [False, True])
@pytest.mark.parametrize("end", ['It is "fine"\t3\n', "Good\t2\nthree\tfields\n"])
def test_a_quote_that_swallows_rows_is_never_dropped_with_them(write, dropping, end):
    """Named by its first line. --drop-bad-rows would count one row and lose them all."""
    path = write(SST_HEADER + '0\taa1\tFine\t3\n0\taa2\t"Fine\t3\n1\tbb2\t' + end)
    message = message_of(path, SST, drop_bad_rows=dropping)
    assert "the row that begins on line 3 has a field with " in message
    assert "a quote that is never closed, or stands where none belongs" in message


def test_two_quotes_that_swallow_a_row_with_the_line_ends_of_an_old_mac(write):
    content = SST_HEADER + '0\taa1\t"Good\t1\n1\taa2\t"Bad\t2\n2\taa3\tFine\t3\n'
    path = write(content.replace("\n", "\r"))
    message = "the row that begins on line 2 has a field with line breaks that ends wrongly"
    assert message in message_of(path, SST)


def test_a_very_long_sentence_is_a_sentence(write):
    """Python's csv stops at 131,072 characters a field unless it is told otherwise."""
    text = "word " * 80_000
    (example,) = read_examples(write(SST_HEADER + f"0\taa1\t{text}\t3\n"), SST).examples
    assert example.sentence_1 == text.strip()


def test_quote_that_is_never_closed(write):
    rows = "1\tbb2\tA long row follows the quote.\t3\n" * 5000
    path = write(SST_HEADER + '0\taa1\t"Fine\t3\n' + rows)
    message = "a quote that is never closed, or stands where none belongs, does this"
    assert message in message_of(path, SST)


# --- the short way, and the reader of all tables --------------------------------------------------


def test_every_file_of_the_course_goes_the_short_way():
    for names in COURSE_FILES.values():
        for name in names.values():
            assert read_course_file(SAMPLE_FOLDER / name) is not None, name


def test_a_row_of_the_course_passes_few_functions():
    calls: Counter[str] = Counter()

    def count(frame, event, _):
        if event == "call" and "/data/" in frame.f_code.co_filename:
            calls[frame.f_code.co_name] += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        table = read_examples(SAMPLE_FOLDER / "sts-dev.csv", STS)
    finally:
        sys.setprofile(before)
    of_each_row = [name for name, number in calls.items() if number >= len(table.examples)]
    assert {"parse", "parse_label"} <= set(of_each_row)
    assert len(of_each_row) <= 6, f"a row passes {', '.join(of_each_row)}"


def test_quotes_of_the_sst_test_file_are_those_of_csv(write):
    path = write('0\t\tid\tsentence\n1\t0.0\taa1\t"Yes."\n2\t1.0\tbb2\tNo.\n')
    (first, _) = read_examples(path, SST, labelled=False).examples
    assert first.sentence_1 == "Yes."


DAMAGE = (
    '"',
    '""',
    "\t",
    ",",
    "\n",
    "\r\n",
    '\\"',
    "\\N",
    "\\n",
    "NA",
    "#N/A",
    "\0",
    "é",
    "\ufeff",
    "\n\n",
)


def damaged_file(random: Random) -> bytes:
    """A small file of SST, mostly with a piece of text where none belongs."""
    sentences = ("A film .", '"""Who?"" he asked."', "It 's 1\\/2", '"Yes."', '"two\nlines"')
    lines = ["\tid\tsentence\tsentiment"]
    for number in range(random.randint(1, 5)):
        sentence = random.choice(sentences)
        lines.append(f"{number}\ta{random.randrange(99)}\t{sentence}\t{random.choice('012')}")
    text = "\n".join(lines) + "\n"
    for _ in range(random.randint(0, 2)):
        place = random.randrange(len(text))
        text = text[:place] + random.choice(DAMAGE) + text[place + random.randint(0, 1) :]
    return text.encode()


def outcome_of(path, **options):
    """The examples, dropped rows and notes of a file, or the message with which it is refused."""
    try:
        table = read_examples(path, SST, **options)
    except ValueError as error:
        return str(error)
    return table.examples, table.dropped, table.notes


def test_the_short_way_gives_what_the_reader_of_all_tables_gives(write, monkeypatch):
    random = Random(0)
    num_short = 0
    for _ in range(400):
        path = write(damaged_file(random))
        num_short += read_course_file(path) is not None
        for options in ({}, {"drop_bad_rows": True}, {"labelled": False}):
            short = outcome_of(path, **options)
            with monkeypatch.context() as patch:
                patch.setattr(readers, "read_course_file", lambda path: None)
                assert short == outcome_of(path, **options), path.read_bytes()
    assert 100 < num_short < 300, "the files should be of both kinds"


@pytest.mark.skipif(not COURSE.is_dir(), reason="python -m data.download has not run")
def test_course_files_lose_only_the_two_broken_quora_rows():
    num_rows = {}
    for format in (SST, PARA, STS):
        for split, name in COURSE_FILES[format.name].items():
            table = read_examples(COURSE / name, format, labelled=split != "test")
            num_rows[name] = (len(table.examples), len(table.dropped))
    expected = {
        "ids-sst-train.csv": (8544, 0),
        "ids-sst-dev.csv": (1101, 0),
        "ids-sst-test-student.csv": (2210, 0),
        "quora-dev.csv": (20212, 2),
        "sts-train.csv": (6040, 0),
        "sts-dev.csv": (863, 0),
        "sts-test-student.csv": (1725, 0),
    }
    assert expected.items() <= num_rows.items()
    assert [name for name, (_, num_dropped) in num_rows.items() if num_dropped] == ["quora-dev.csv"]
