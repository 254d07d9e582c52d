"""Pairs labelled with probabilities, from `multitask.predict --probabilities` to the loss of a training run."""

import io
import shutil

import pytest
import torch

import multitask.stage
from command_line.options import Options
from data.readers import COURSE_FILES
from multitask.losses import paraphrase_loss, prior_shift
from multitask.predict import main
from multitask.stage import read_tables
from tests.toy_multitask import encoded, task_job


@pytest.fixture
def job_on(sample_data, tiny_model, tmp_path):
    """A function: a training file of PARA, given as text, and options -> the rows and the job of a run on it."""

    def make(text: str, **changes):
        folder = shutil.copytree(sample_data, tmp_path / "data")
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
    rows = (
        f"{index}\tq{index}\tHow do I {index} ?\tHow to {index} ?\t{label}"
        for index, label in enumerate(labels)
    )
    return "\n".join(["\tid\tsentence1\tsentence2\tis_duplicate", *rows])


def test_a_run_learns_from_what_others_say(two_runs, job_on, monkeypatch, capsys):
    """As docs/multitask.md joins them; the loss is that of the very numbers that were printed."""
    pairs = [f"How do I {number} ?\tHow to {number} ?" for number in range(4)]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("\n".join(pairs).encode())))
    assert main([*map(str, two_runs), "--task", "para", "--probabilities"]) == 0
    said = [line.split("\t")[0] for line in capsys.readouterr().out.splitlines()]
    assert len(set(said)) > 1 and all(0 < float(label) < 1 for label in said)
    rows, job = job_on(file_of(said))
    batch = rows["para"]["train"].batch([0, 1, 2, 3])
    assert batch.labels.tolist() == pytest.approx(list(map(float, said)))
    job.model.eval()
    with torch.no_grad():
        logit = job.model("para", batch)
        torch.testing.assert_close(
            job.loss("para", batch), paraphrase_loss(logit, torch.tensor([*map(float, said)]))
        )


def test_the_shift_is_of_the_classes_and_for_them(job_on, monkeypatch):
    shares = []
    monkeypatch.setattr(
        multitask.stage,
        "prior_shift",
        lambda share, prior: shares.append(share) or prior_shift(share, prior),
    )
    rows, job = job_on(file_of([1, 0, 0, 0, 0.9, 0.8]), para_prior=0.5)  # the mean of all is .45
    assert shares == [0.25]
    batch = rows["para"]["train"].batch(list(range(6)))
    job.model.eval()
    with torch.no_grad():
        logit = job.model("para", batch)
        own = paraphrase_loss(logit[:4] + prior_shift(0.25, 0.5), batch.labels[:4])
        others = paraphrase_loss(logit[4:], batch.labels[4:])
        torch.testing.assert_close(job.loss("para", batch), (4 * own + 2 * others) / 6)


def test_probabilities_alone_have_no_share(job_on):
    with pytest.raises(
        ValueError,
        match="--para_prior 0.5 needs training pairs labelled 0 and 1; PARA's are not both",
    ):
        job_on(file_of([0.1, 0.9]), para_prior=0.5)
