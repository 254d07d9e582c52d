"""multitask/check.py and the score of a leaderboard file: `python -m multitask.check FILE...`.

If a score is wrong, it most likely follows the place of a row instead of its id.
"""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from course.editions import EDITIONS, MODES
from data.examples import CFIMDB_FILES, COURSE_FILES
from data.readers import read_examples
from minbert.commands.files import digest_of_file, write_json
from multitask.check import main
from multitask.checked_files import MODE_OF_WORD, PART1_NAME
from multitask.prediction_files import score_predictions
from multitask.prediction_files import write_predictions as write
from multitask.tasks import BUILT_IN_TASKS, TASKS

ROOT = Path(__file__).parents[2]
SST = TASKS["sst"]
IDS = ["a7d575c9ed86ea9633660c67e", "33cfa32975091f471e3a19656", "0009d487c97525f8589179641"]
TEST_IDS = [f"t{row_id}" for row_id in IDS]
VALUES = {
    "sst": np.array([3, 0, 4]),
    "para": np.array([1, 0, 1]),
    "sts": np.float32([2.7514617, -0.25, 5]),
}
LABELS = {"sst": [3, 1, 4], "para": [1, 0, 0], "sts": [2.5, 0.0, 4.75]}

# The score of two right rows of three, and its interval by Wilson.
TWO_OF_THREE = "accuracy 0.6667 [0.208, 0.939]"


def write_table(path: Path, task, ids, labels) -> None:
    """A file of the course. labels: None in a test file."""
    header = ["", "id", *task.format.text_columns]
    sentences = [f"sentence {number}" for number in range(len(task.format.text_columns))]
    rows = [[str(index), row_id, *sentences] for index, row_id in enumerate(ids)]
    if labels is not None:
        header.append(task.format.label_column)
        for row, label in zip(rows, labels, strict=True):
            row.append(str(label))
    lines = ["\t".join(row) + "\n" for row in [header, *rows]]
    path.write_text("".join(lines))


@pytest.fixture
def data_dir(tmp_path):
    """The course's six dev and test files, three rows each."""
    folder = tmp_path / "data"
    folder.mkdir()
    for task in TASKS.values():
        files = COURSE_FILES[task.name]
        write_table(folder / files["dev"], task, IDS, LABELS[task.name])
        write_table(folder / files["test"], task, TEST_IDS, None)
    return folder


def write_six(folder: Path) -> list[str]:
    """Write the six prediction files and return their paths."""
    paths = []
    for task in TASKS.values():
        for split, ids in (("dev", IDS), ("test", TEST_IDS)):
            paths.append(str(folder / f"{task.name}-{split}-output.csv"))
            write(paths[-1], task, ids, VALUES[task.name])
    return paths


def read_dev(data_dir, task):
    return read_examples(data_dir / COURSE_FILES[task.name]["dev"], task.format)


def test_scores_by_hand(tmp_path, data_dir):
    write_six(tmp_path / "out")
    scores = {}
    for task in TASKS.values():
        path = tmp_path / "out" / f"{task.name}-dev-output.csv"
        scores[task.name] = score_predictions(path, task, read_dev(data_dir, task))
    correlation = np.corrcoef(VALUES["sts"], LABELS["sts"])[0, 1]
    assert scores["sst"] == pytest.approx(2 / 3)
    assert scores["para"] == pytest.approx(2 / 3)
    assert scores["sts"] == pytest.approx(correlation, rel=1e-6)


def test_the_score_follows_the_id_and_not_the_place(tmp_path, data_dir):
    path = tmp_path / "file.csv"
    dev = read_dev(data_dir, SST)
    write(path, SST, IDS[::-1], VALUES["sst"][::-1])
    assert score_predictions(path, SST, dev) == pytest.approx(2 / 3)
    # The negative control: values that belong to other ids.
    write(path, SST, IDS[::-1], VALUES["sst"])
    assert score_predictions(path, SST, dev) == 0.0


def test_a_table_without_labels_has_no_score(tmp_path, data_dir):
    write(tmp_path / "file.csv", SST, TEST_IDS, VALUES["sst"])
    table = read_examples(data_dir / COURSE_FILES["sst"]["test"], SST.format, labelled=False)
    with pytest.raises(ValueError, match="has no label; each row must have one to be scored"):
        score_predictions(tmp_path / "file.csv", SST, table)


def test_check_scores_dev_verifies_test_and_gives_both_overalls(tmp_path, data_dir, capsys):
    paths = write_six(tmp_path / "out")
    assert main([*paths, "--data-dir", str(data_dir)]) == 0
    printed = capsys.readouterr()
    pearson = np.corrcoef(VALUES["sts"], LABELS["sts"])[0, 1]
    overall_2023 = (4 / 3 + pearson) / 3
    overall_2024 = (4 / 3 + (pearson + 1) / 2) / 3
    # Three rows are not those of the course. Nothing else is said about them.
    notes = printed.err.splitlines()
    assert len(notes) == 6
    assert notes[0] == (
        f"note: {data_dir / 'ids-sst-dev.csv'} may not be the course's file: the course's file has "
        "1,101 rows, and this one has 3. Maybe it is cut off."
    )
    *lines, overall = printed.out.splitlines()
    assert lines == [
        f"{paths[0]}: SST dev, 3 rows, accuracy 0.6667 [0.208, 0.939]",
        f"{paths[1]}: SST test, 3 rows, every id once, no labels to score against",
        f"{paths[2]}: PARA dev, 3 rows, accuracy 0.6667 [0.208, 0.939]",
        f"{paths[3]}: PARA test, 3 rows, every id once, no labels to score against",
        f"{paths[4]}: STS dev, 3 rows, Pearson {pearson:.4f} [0.000, 1.000]",
        f"{paths[5]}: STS test, 3 rows, every id once, no labels to score against",
    ]
    # The interval of an overall score is that of the mean of the tasks, and holds it.
    number = r"(\d\.\d+)"
    parts = f"{number} \\[{number}, {number}\\]"
    found = re.fullmatch(f"overall 2023: {parts}, overall 2024: {parts}", overall)
    assert found is not None, overall
    assert found[1] == f"{overall_2023:.4f}" and found[4] == f"{overall_2024:.4f}"
    assert found[2] < found[1] < found[3] and found[5] < found[4] < found[6]


def test_check_says_whether_the_run_wrote_the_file(tmp_path, data_dir, capsys):
    run = tmp_path / "run"
    path = run / "predictions" / "sst-dev-output.csv"
    words = [str(path), "--data-dir", str(data_dir)]
    write(path, SST, IDS, VALUES["sst"])
    record = {"predictions": {"sst_dev": digest_of_file(path)}}
    write_json(run / "run.json", record, has_checksum=True)
    assert main(words) == 0
    assert "NOT as" not in capsys.readouterr().out
    write(path, SST, IDS[::-1], VALUES["sst"])
    assert main(words) == 2
    expected = "accuracy 0.0000 [0.000, 0.561]; NOT as the run run wrote it: it was edited"
    assert expected in capsys.readouterr().out
    # A damaged record cannot tell, so the file is not as it should be either.
    (run / "run.json").write_text("[]")
    assert main(words) == 2
    assert "run.json cannot be read, so nobody knows" in capsys.readouterr().out
    assert main(words[:1]) == 2
    assert "run.json does not say which data the run has predicted" in capsys.readouterr().err


def write_run(run: Path, data_dir: Path, values) -> Path:
    """A run of SST, such as one of part 1. Returns the path of its dev file."""
    path = run / "predictions" / "sst-dev-output.csv"
    write(path, SST, IDS, values)
    options = {}
    for split, name in COURSE_FILES["sst"].items():
        options[f"sst_{split}"] = str(data_dir / name)
    for split, name in CFIMDB_FILES.items():
        options[f"cfimdb_{split}"] = str(data_dir / name)
    record = {"options": options, "predictions": {"sst_dev": digest_of_file(path)}}
    write_json(run / "run.json", record, has_checksum=True)
    return path


def test_a_copy_of_part_1_is_compared_with_its_run(tmp_path, data_dir, capsys):
    """course.part1 copies the files of several runs into one folder."""
    part1 = tmp_path / "part1"
    good = write_run(part1 / "finetune-sst", data_dir, VALUES["sst"])
    poor = write_run(part1 / "pretrain-sst", data_dir, VALUES["sst"][::-1])
    for name in ("finetune-sst-dev-out.csv", "full-model-sst-dev-out.csv"):
        copy = part1 / "predictions" / name
        copy.parent.mkdir(exist_ok=True)
        shutil.copyfile(good, copy)
        assert main([str(copy)]) == 0
        assert capsys.readouterr().out == f"{copy}: SST dev, 3 rows, {TWO_OF_THREE}\n"

        # Edited by hand, and the file of the other mode in its place.
        copy.write_text(copy.read_text("utf-8").replace(" , 0 ", " , 1 "), "utf-8")
        assert main([str(copy)]) == 2
        message = "accuracy 1.0000 [0.439, 1.000]; NOT as the run finetune-sst wrote it"
        assert message in capsys.readouterr().out
        shutil.copyfile(poor, copy)
        assert main([str(copy)]) == 2
        assert "NOT as the run finetune-sst wrote it" in capsys.readouterr().out


def test_the_words_of_part_1_are_those_of_the_courses():
    words = {}
    for edition in EDITIONS.values():
        words |= dict(zip(edition.modes, MODES, strict=True))
    assert words == MODE_OF_WORD
    for file in EDITIONS["cs224n-2024"].part1_files():
        name = PART1_NAME.fullmatch(Path(file.name).name)
        assert (MODE_OF_WORD[name[1]], name[2]) == (file.mode, file.task)


def test_check_finds_the_data_of_a_run(tmp_path, data_dir, capsys):
    """Files of a run, and the copies that course.part1 makes of the files of several runs."""
    path = write_run(tmp_path / "part1" / "pretrain-sst", data_dir, VALUES["sst"])
    copy = tmp_path / "part1" / "predictions" / "pretrain-sst-dev-out.csv"
    copy.parent.mkdir()
    shutil.copyfile(path, copy)
    renamed = copy.with_name("mine.csv")
    shutil.copyfile(path, renamed)
    for file in (path, copy, renamed):
        assert main([str(file)]) == 0
        assert capsys.readouterr().out == f"{file}: SST dev, 3 rows, {TWO_OF_THREE}\n"
    # The negative control: this file belongs to no run, so its ids are looked up in the sample.
    other = copy.with_name("other.csv")
    write(other, SST, IDS[::-1], VALUES["sst"])
    assert main([str(other)]) == 2
    error = capsys.readouterr().err
    assert "none of its 3 ids is in " in error and "sample/ids-sst-dev.csv or " in error
    assert "sample has no ids-cfimdb-dev.csv and no ids-cfimdb-test-student.csv. Pass" in error


@pytest.mark.parametrize(
    "name, words",
    [
        ("sst-dev-output.csv", "its name says SST dev, but its ids are those of SST test"),
        ("pretrain-cfimdb-test-out.csv", "its name says CFIMDB test, but"),
        ("sst-sentiment-dev-output.csv", "its name says SST dev, but"),
        ("last-linear-layer-sst-test-out.csv", ""),
        ("mine.csv", ""),
    ],
)
def test_a_file_with_the_name_of_other_rows_is_refused(tmp_path, data_dir, capsys, name, words):
    write(tmp_path / name, SST, TEST_IDS, VALUES["sst"])
    assert main([str(tmp_path / name), "--data-dir", str(data_dir)]) == (2 if words else 0)
    assert words in capsys.readouterr().err


def test_the_name_tells_dev_from_test_where_the_ids_are_the_same(tmp_path, data_dir, capsys):
    """Rows of a file without ids are called by their lines."""
    ids = ["line-1", "line-2", "line-3"]
    write_table(data_dir / COURSE_FILES["sst"]["dev"], SST, ids, [3, 1, 4])
    write_table(data_dir / COURSE_FILES["sst"]["test"], SST, ids[:2], None)
    expected = {
        "sst-dev-output.csv": "SST dev, 3 rows, accuracy 1.0000 [0.439, 1.000]",
        "sst-test-output.csv": "SST test, 2 rows, every id once",
        "dev.csv": "SST dev, 3 rows, accuracy 1.0000 [0.439, 1.000]",
        "test.csv": "SST test, 2 rows, every id once",
    }
    for name, words in expected.items():
        num_rows = 3 if "dev" in name else 2
        write(tmp_path / name, SST, ids[:num_rows], [3, 1, 4][:num_rows])
        assert main([str(tmp_path / name), "--data-dir", str(data_dir)]) == 0
        assert words in capsys.readouterr().out


def test_only_a_cut_dev_file_is_blamed_on_dev_rows(tmp_path, data_dir, capsys):
    ids = [f"a{number}" for number in range(9)]
    write_table(data_dir / COURSE_FILES["sst"]["dev"], SST, ids, [1] * 9)
    write_table(data_dir / COURSE_FILES["sst"]["test"], SST, [f"b{row_id}" for row_id in ids], None)
    dev, test = str(tmp_path / "dev.csv"), str(tmp_path / "test.csv")
    write(dev, SST, ids[:3], [1, 1, 1])
    write(test, SST, [f"b{row_id}" for row_id in ids[:3]], [1, 1, 1])
    for path, is_blamed in ((dev, True), (test, False)):
        assert main([path, "--data-dir", str(data_dir)]) == 2
        error = capsys.readouterr().err
        assert "6 missing" in error
        assert ("A run with --dev-rows predicts only a part" in error) is is_blamed


def test_check_gives_no_overall_for_two_tasks_or_for_two_files_of_one(tmp_path, data_dir, capsys):
    sst, _, para, _, sts, _ = write_six(tmp_path / "out")
    assert main([sst, para, "--data-dir", str(data_dir)]) == 0
    assert main([sst, sst, para, sts, "--data-dir", str(data_dir)]) == 0
    assert "overall 20" not in capsys.readouterr().out


def test_check_goes_on_after_a_refused_file_and_exits_2(tmp_path, data_dir, capsys):
    sst, _, para, _, sts, _ = write_six(tmp_path / "out")
    bad = tmp_path / "bad.csv"
    bad.write_bytes(Path(para).read_bytes().replace(b"656 , 0.0", b"656 , 0.7"))
    wide = tmp_path / "wide.csv"
    wide.write_bytes(Path(sst).read_bytes().replace(b"656 , 0", b"656 , " + 10**6 * b"\x1b"))
    files = [sst, str(bad), str(wide), str(tmp_path / "none.csv"), sts]
    assert main([*files, "--data-dir", str(data_dir)]) == 2
    printed = capsys.readouterr()
    assert [line.split(":")[0] for line in printed.out.splitlines()] == [sst, sts]
    assert printed.err.count("note: ") == 2
    assert f"refused: {bad}, line 3: the value is '0.7'" in printed.err
    assert f"refused: {wide}, line " in printed.err and len(printed.err) < 4000
    assert "\x1b" not in printed.err
    assert f"refused: {tmp_path / 'none.csv'}: cannot be read" in printed.err


def test_check_names_a_missing_id_of_either_split(tmp_path, data_dir, capsys):
    write(tmp_path / "dev.csv", SST, IDS[:2], [3, 0])
    write(tmp_path / "test.csv", SST, TEST_IDS[:2], [3, 0])
    write(tmp_path / "other.csv", SST, ["x1", "x2"], [3, 0])
    files = [str(tmp_path / name) for name in ("dev.csv", "test.csv", "other.csv")]
    assert main([*files, "--data-dir", str(data_dir)]) == 2
    printed = capsys.readouterr()
    assert f"dev.csv: of 3 expected SST ids, 1 missing ({IDS[2]})" in printed.err
    assert f"test.csv: of 3 expected SST ids, 1 missing (t{IDS[2]})" in printed.err
    dev, test = (data_dir / name for name in list(COURSE_FILES["sst"].values())[1:])
    assert f"other.csv: none of its 2 ids is in {dev} or {test}, and" in printed.err
    assert "has no ids-cfimdb-dev.csv and no ids-cfimdb-test-student.csv" in printed.err
    assert printed.out == ""


def test_check_against_a_gold_file(tmp_path, data_dir, capsys):
    paths = write_six(tmp_path / "out")
    gold = str(data_dir / COURSE_FILES["sst"]["dev"])
    assert main([paths[0], "--gold", gold]) == 0
    assert capsys.readouterr().out == f"{paths[0]}: SST gold, 3 rows, {TWO_OF_THREE}\n"
    assert main([paths[4], "--gold", gold]) == 2
    assert "the header has no column" in capsys.readouterr().err


def test_a_gold_file_of_another_program_with_other_columns(tmp_path, data_dir, capsys):
    """The dev rows of SST as Excel writes them in German."""
    paths = write_six(tmp_path)
    lines = ["Nummer;Satz;Klasse"]
    for example in read_dev(data_dir, SST).examples:
        lines.append(f'{example.id};"gut; 5 € ""teuer""";{example.label:g}')
    gold = tmp_path / "gold.csv"
    gold.write_bytes("\r\n".join(lines).encode("cp1252"))
    columns = ["--id", "nummer", "--text", "Satz", "--label", "Klasse"]
    assert main([paths[0], "--gold", str(gold), *columns]) == 0
    assert capsys.readouterr().out == f"{paths[0]}: SST gold, 3 rows, {TWO_OF_THREE}\n"
    assert main([paths[0], "--gold", str(gold)]) == 2
    assert "the header has no column sentence, sentiment; found are: Nummer" in (
        capsys.readouterr().err
    )
    assert main([paths[0], "--label", "Klasse"]) == 2
    assert "name columns of --gold; pass it, too." in capsys.readouterr().err


def test_check_with_a_header_of_no_task(tmp_path, data_dir, capsys):
    (tmp_path / "file.csv").write_bytes(b"id,Predicted_Sentiment\n")
    assert main([str(tmp_path / "file.csv"), "--data-dir", str(data_dir)]) == 2
    error = capsys.readouterr().err
    assert "line 1: the header is 'id,Predicted_Sentiment\\n'; it must be one of" in error
    assert "it must be one of 'id \\t Predicted_Sentiment" in error


def test_check_counts_the_rows_that_the_reader_drops(tmp_path, data_dir, capsys):
    gold = data_dir / COURSE_FILES["sst"]["dev"]
    with open(gold, "a") as file:
        file.write("3\tbad1\tA sentence\tn/a\n4\tbad2\tA sentence\t\n")
    path = write_six(tmp_path / "out")[0]
    assert main([path, "--gold", str(gold)]) == 2
    assert "label 'n/a' is not a number" in capsys.readouterr().err
    assert main([path, "--gold", str(gold), "--drop-bad-rows"]) == 0
    assert f"3 rows (2 rows of {gold} dropped), {TWO_OF_THREE}" in capsys.readouterr().out


# --- two tasks with one header ------------------------------------------------------------------


@pytest.fixture
def with_cfimdb(data_dir, tmp_path):
    """A data folder with SST and CFIMDB, whose prediction files have the same header."""
    folder = tmp_path / "both"
    shutil.copytree(data_dir, folder)
    header = "\tid\tsentence"
    for split, name in CFIMDB_FILES.items():
        ids = [f"film{split}{number}" for number in range(4)]
        lines = [f"{header}\tsentiment" if split != "test" else header]
        for number, row_id in enumerate(ids):
            label = "" if split == "test" else f"\t{number % 2}"
            lines.append(f"{number}\t{row_id}\ta film{label}")
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def test_the_ids_tell_cfimdb_from_sst(with_cfimdb, tmp_path, capsys):
    cfimdb = BUILT_IN_TASKS["cfimdb"]
    assert cfimdb.header == SST.header
    dev, test, sst = (str(tmp_path / name) for name in ("dev.csv", "test.csv", "sst.csv"))
    write(dev, cfimdb, [f"filmdev{number}" for number in range(4)], [0, 1, 1, 1])
    write(test, cfimdb, [f"filmtest{number}" for number in range(4)], [0, 1, 1, 1])
    write(sst, SST, IDS, VALUES["sst"])
    assert main([dev, test, sst, "--data-dir", str(with_cfimdb)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{dev}: CFIMDB dev, 4 rows, accuracy 0.7500 [0.301, 0.954]"
    assert lines[1].startswith(f"{test}: CFIMDB test, 4 rows, every id once")
    assert lines[2].startswith(f"{sst}: SST dev")
    # The labels of --gold say so, too.
    assert main([dev, "--gold", str(with_cfimdb / CFIMDB_FILES["dev"])]) == 0
    assert "CFIMDB gold, 4 rows, accuracy 0.7500 [0.301, 0.954]" in capsys.readouterr().out


def test_a_correlation_with_equal_labels_says_nothing(tmp_path, capsys):
    """scipy.stats.pearsonr gives nan. Different labels are the control."""
    predictions, gold = tmp_path / "sts.csv", tmp_path / "gold.csv"
    predictions.write_text("id \t Predicted_Similiary \n1 , 2.5 \n2 , 2.0 \n")
    for label, is_said in (("2", True), ("3", False)):
        gold.write_text(f"id\tsentence1\tsentence2\tsimilarity\n1\ta\tb\t2\n2\tc\td\t{label}\n")
        assert main([str(predictions), "--gold", str(gold)]) == 0
        said = f"which says nothing: all labels of {gold} are 2" in capsys.readouterr().out
        assert said == is_said
