"""minbert/training/step_log.py: log.csv, one row per update, whatever stops the run."""

from __future__ import annotations

import csv
import signal
from pathlib import Path

import pytest

from minbert.training.job import Part
from minbert.training.loop import Interrupted, fit
from minbert.training.step_log import CHECKSUMS, COLUMNS, LOG_FILE, StepLog, StepRecord
from tests.toy_job import BATCH_SIZE, EPOCHS, NUM_STEPS, Kill, make_job


def logged(folder, **changes):
    """The toy job with a step log in `folder`, as a new process would make it."""
    return make_job(folder, on_step=StepLog(folder).write, **changes)


def read(folder) -> list[dict[str, str]]:
    """The rows of the log in `folder`, by column."""
    with open(folder / LOG_FILE, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def without_seconds(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    return [{name: text for name, text in row.items() if name != "seconds"} for row in rows]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The log of the toy job when nothing stops it."""
    folder = tmp_path_factory.mktemp("undisturbed")
    fit(logged(folder))
    return without_seconds(read(folder))


def record(stage="toy", step=1, **losses) -> StepRecord:
    """A record of one update with these losses."""
    mean = sum(losses.values()) / len(losses)
    return StepRecord(stage, 1, step, mean, losses, 0.1, 2.0, 0.5, 12)


def test_each_update_has_a_row_with_its_numbers(tmp_path):
    job = logged(tmp_path, warmup=0.0, max_grad_norm=0.0)
    losses = []
    plain_loss = job.loss

    def loss(task, batch):
        value = plain_loss(task, batch)
        losses.append(float(value.detach()))
        return value

    job.loss = loss
    fit(job)
    rows = read(tmp_path)
    assert [int(row["step"]) for row in rows] == list(range(1, NUM_STEPS + 1))
    assert [int(row["epoch"]) for row in rows] == [1] * 5 + [2] * 5 + [3] * 5
    assert {row["stage"] for row in rows} == {"toy"}
    # Exactly the loss that was computed: a float is written so that it can be read back.
    assert [float(row["loss"]) for row in rows] == losses
    # A linear schedule without warm-up falls from the peak to 0.
    learning_rates = [float(row["learning_rate"]) for row in rows]
    assert learning_rates == pytest.approx(
        [0.05 * (1 - step / NUM_STEPS) for step in range(NUM_STEPS)]
    )
    # Three numbers for each of four rows.
    assert {int(row["tokens"]) for row in rows} == {3 * BATCH_SIZE}
    seconds = [float(row["seconds"]) for row in rows]
    assert seconds == sorted(seconds)


def test_the_gradient_norm_is_that_before_clipping(tmp_path):
    norms = {}
    for name, limit in (("free", 0.0), ("clipped", 1e-3)):
        fit(logged(tmp_path / name, max_grad_norm=limit, epochs=1))
        norms[name] = float(read(tmp_path / name)[0]["gradient_norm"])
    assert norms["clipped"] == norms["free"] > 1e-3


def test_a_task_has_its_own_column_which_is_empty_where_it_is_not_trained(tmp_path):
    fit(logged(tmp_path))
    for number, row in enumerate(read(tmp_path)):
        trained, other = ("a", "b") if number % 5 % 2 == 0 else ("b", "a")
        assert row[f"loss_{trained}"] == row["loss"]
        assert row[f"loss_{other}"] == ""


def test_losses_of_one_update_are_those_of_its_tasks(tmp_path):
    job = logged(tmp_path, dropout=0.0, epochs=1)
    first = [Part("a", [0, 1], 0.5), Part("b", [2, 3], 0.5)]
    job.epoch_steps = lambda epoch, generator: [first]
    expected = {task: job.loss(task, job.load(task, rows)).item() for task, rows, _ in first}
    fit(job)
    row = read(tmp_path)[0]
    assert float(row["loss_a"]) == expected["a"]
    assert float(row["loss_b"]) == expected["b"]
    assert float(row["loss"]) == pytest.approx((expected["a"] + expected["b"]) / 2)


@pytest.mark.parametrize("number", range(1, NUM_STEPS + 1))
@pytest.mark.parametrize("how", [Kill, signal.SIGINT])
def test_the_log_of_a_resumed_run_is_that_of_an_undisturbed_one(tmp_path, undisturbed, number, how):
    def disturb(when, count):
        if (when, count) == ("step", number):
            if how is Kill:
                raise Kill
            signal.raise_signal(how)

    with pytest.raises(Kill if how is Kill else Interrupted):
        fit(logged(tmp_path, disturb=disturb))
    fit(logged(tmp_path), resume=True)
    assert without_seconds(read(tmp_path)) == undisturbed


def test_killed_inside_an_evaluation(tmp_path, undisturbed):
    """The rows since the last checkpoint are in the log already, and come again."""

    def disturb(when, count):
        if (when, count) == ("evaluation", 2):
            raise Kill

    with pytest.raises(Kill):
        fit(logged(tmp_path, disturb=disturb, save_every=100))
    assert len(read(tmp_path)) == 10
    fit(logged(tmp_path, save_every=100), resume=True)
    assert without_seconds(read(tmp_path)) == undisturbed


def test_a_finished_job_leaves_the_log_as_it_is(tmp_path):
    fit(logged(tmp_path))
    before = (tmp_path / LOG_FILE).read_bytes()
    fit(logged(tmp_path), resume=True)
    assert (tmp_path / LOG_FILE).read_bytes() == before
    assert len(read(tmp_path)) == NUM_STEPS == 5 * EPOCHS


def test_a_row_that_a_kill_has_cut_short_is_removed(tmp_path):
    log = StepLog(tmp_path)
    log.write(record(step=1, a=1.0))
    log.write(record(step=2, a=2.0))
    whole = (tmp_path / LOG_FILE).read_text()
    (tmp_path / LOG_FILE).write_text(whole + "toy,1,3,0.5")
    StepLog(tmp_path).write(record(step=3, a=3.0))
    assert [float(row["loss_a"]) for row in read(tmp_path)] == [1.0, 2.0, 3.0]


def damage(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


def test_a_damaged_row_is_left_out(tmp_path, capsys):
    """It may still look like a row: one digit is another one."""
    log = StepLog(tmp_path)
    for step in (1, 2, 3):
        log.write(record(step=step, a=float(step)))
    log.write(record(step=4, b=4.0))
    damage(tmp_path / LOG_FILE, ",12,2.0", ",12,6.0")
    StepLog(tmp_path).write(record(step=5, a=5.0))
    assert [row["loss_a"] for row in read(tmp_path)] == ["1.0", "3.0", "", "5.0"]
    assert "log.csv: 1 of 4 rows are damaged and left out" in capsys.readouterr().out

    # Without a header that is as it was written, nobody knows the columns.
    damage(tmp_path / LOG_FILE, "loss_a", "loss_c")
    StepLog(tmp_path).write(record(step=6, a=6.0))
    assert [row["loss_a"] for row in read(tmp_path)] == ["6.0"]
    assert "log.csv: 4 of 4 rows are damaged" in capsys.readouterr().out


def test_a_row_with_a_damaged_end_is_kept(tmp_path):
    """A kill would have left less of it."""
    log = StepLog(tmp_path)
    for step in (1, 2):
        log.write(record(step=step, a=float(step)))
    path = tmp_path / LOG_FILE
    path.write_text(path.read_text()[:-1] + "*")
    StepLog(tmp_path).write(record(step=3, a=3.0))
    assert [row["loss_a"] for row in read(tmp_path)] == ["1.0", "2.0", "3.0"]


def test_a_log_of_an_older_version_is_taken_as_it_is(tmp_path, capsys):
    """It has no checksums. A row without all its numbers is left out even so."""
    log = StepLog(tmp_path)
    for step in (1, 2):
        log.write(record(step=step, a=float(step)))
    (tmp_path / CHECKSUMS).unlink()
    StepLog(tmp_path).write(record(step=3, a=3.0))
    assert len(read(tmp_path)) == 3 and "damaged" not in capsys.readouterr().out
    (tmp_path / CHECKSUMS).unlink()
    damage(tmp_path / LOG_FILE, "toy,1,2,", "toy,1,2x,")
    StepLog(tmp_path).write(record(step=4, a=4.0))
    assert [row["step"] for row in read(tmp_path)] == ["1", "3", "4"]
    assert "1 of 3 rows are damaged" in capsys.readouterr().out


def test_rows_of_later_stages_go_with_the_step_that_comes_again(tmp_path):
    log = StepLog(tmp_path)
    log.write(record("simcse", 1, sentences=1.0))
    log.write(record("simcse", 2, sentences=2.0))
    log.write(record("multitask", 1, sst=3.0))
    StepLog(tmp_path).write(record("simcse", 2, sentences=4.0))
    assert [row["loss"] for row in read(tmp_path)] == ["1.0", "4.0"]


def test_a_task_that_comes_later_gets_a_column_and_older_rows_stay(tmp_path):
    log = StepLog(tmp_path)
    log.write(record("simcse", 1, sentences=1.0))
    log.write(record("multitask", 1, sst=3.0, para=5.0))
    lines = (tmp_path / LOG_FILE).read_text().splitlines()
    assert lines[0] == ",".join([*COLUMNS, "loss_sentences", "loss_sst", "loss_para"])
    assert lines[1].endswith(",1.0,,")
    assert lines[2].endswith(",,3.0,5.0")


def test_a_log_that_cannot_be_written_is_one_clear_error(tmp_path):
    log = StepLog(tmp_path)
    log.write(record(a=1.0))
    (tmp_path / LOG_FILE).unlink()
    (tmp_path / LOG_FILE).mkdir()
    with pytest.raises(ValueError, match=r"log.csv: cannot be written .*then resume the run"):
        log.write(record(step=2, a=1.0))
