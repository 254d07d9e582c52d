"""Pairs labelled with probabilities: from `multitask.predict --probabilities` to a training run.

If a loss is wrong here, the probabilities were most likely rounded to classes, or shifted.
"""

import io
import shutil

import pytest
import torch

import multitask.stage
from command_line.options import Options
from data.examples import COURSE_FILES
from multitask.losses import paraphrase_loss, prior_shift
from multitask.predict import main
from multitask.rows import read_tables
from tests.toy_multitask import encoded, task_job


@pytest.fixture
def job_on(sample_data, tiny_model, tmp_path):
    """A function: a training file of PARA, given as text, and options -> the rows and the job."""

    def make(text: str, **changes):
        folder = shutil.copytree(sample_data, tmp_path / "data", dirs_exist_ok=True)
        (folder / COURSE_FILES["para"]["train"]).write_text(text, encoding="utf-8")
        options = Options.of(
            data_dir=str(folder),
            model=str(tiny_model),
            pair_encoding="cross",
            lr=1e-3,
            batch_size=8,
            epochs=1,
            max_length=48,
            precision="fp32",
            **changes,
        ).with_files()
        rows = encoded(options, read_tables(options.data))
        return rows, task_job(options, rows, tmp_path / "run")

    return make


def file_of(labels: list[float | str]) -> str:
    """A training file of PARA with these labels."""
    lines = ["\tid\tsentence1\tsentence2\tis_duplicate"]
    for index, label in enumerate(labels):
        lines.append(f"{index}\tq{index}\tHow do I {index} ?\tHow to {index} ?\t{label}")
    return "\n".join(lines)


def test_a_run_learns_from_what_others_say(two_runs, job_on, monkeypatch, capsys):
    """As docs/recipes.md joins them. The loss is that of the very numbers that were printed."""
    pairs = [f"How do I {number} ?\tHow to {number} ?" for number in range(4)]
    stdin = io.TextIOWrapper(io.BytesIO("\n".join(pairs).encode()))
    monkeypatch.setattr("sys.stdin", stdin)
    assert main([*map(str, two_runs), "--task", "para", "--probabilities"]) == 0
    said = [line.split("\t")[0] for line in capsys.readouterr().out.splitlines()]
    labels = [float(label) for label in said]
    assert len(set(said)) > 1
    assert all(0 < label < 1 for label in labels)

    rows, job = job_on(file_of(said))
    batch = rows["para"]["train"].batch([0, 1, 2, 3])
    assert batch.labels.tolist() == pytest.approx(labels)
    job.model.eval()
    with torch.no_grad():
        expected = paraphrase_loss(job.model("para", batch), torch.tensor(labels))
        torch.testing.assert_close(job.loss("para", batch), expected)


def test_the_shift_is_of_the_classes_and_for_them(job_on, monkeypatch):
    shares = []

    def watched(share, prior):
        shares.append(share)
        return prior_shift(share, prior)

    monkeypatch.setattr(multitask.stage, "prior_shift", watched)
    rows, job = job_on(file_of([1, 0, 0, 0, 0.9, 0.8]), para_prior=0.5)
    assert shares == [0.25]  # of the classes; the mean of all labels is .45

    batch = rows["para"]["train"].batch(list(range(6)))
    job.model.eval()
    with torch.no_grad():
        logit = job.model("para", batch)
        shift = prior_shift(0.25, 0.5)
        of_classes = paraphrase_loss(logit[:4] + shift, batch.labels[:4])
        of_probabilities = paraphrase_loss(logit[4:], batch.labels[4:])
        expected = (4 * of_classes + 2 * of_probabilities) / 6
        torch.testing.assert_close(job.loss("para", batch), expected)


def test_probabilities_alone_have_no_share(job_on):
    message = "--para_prior 0.5 needs training pairs labelled 0 and 1; PARA's are not both"
    with pytest.raises(ValueError, match=message):
        job_on(file_of([0.1, 0.9]), para_prior=0.5)
    job_on(file_of([0.1, 0.9]))
