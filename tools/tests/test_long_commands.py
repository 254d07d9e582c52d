"""tools/benchmarks: the commands that are no part of `all`, on a tiny model."""

from __future__ import annotations

import json

import pytest
import torch

from minbert import AdamW, BertConfig, fast
from tools.benchmarks import (
    contrastive,
    encoders,
    memory_of_batches,
    profiles,
    readable,
    scaling,
)
from tools.benchmarks.inputs import write_model
from tools.benchmarks.json_lines import run_missing
from tools.benchmarks.settings import Settings


def run_command(module, monkeypatch, *flags):
    """The `main` of a command with these flags."""
    monkeypatch.setattr("sys.argv", [module.__name__, *map(str, flags)])
    module.main()


# --- a series of runs -----------------------------------------------------------------------------


def test_a_run_whose_line_is_there_is_not_run_again(tmp_path):
    path = tmp_path / "lines.jsonl"
    path.write_text('{"name": "a", "seed": 0, "score": 0.5}\n')
    run = []

    def score(name, seed):
        run.append((name, seed))
        return {"name": name, "seed": seed, "score": 1.0}

    identities = [{"name": "a", "seed": 0}, {"name": "a", "seed": 1}]
    lines = run_missing(path, identities, score)
    assert run == [("a", 1)]
    assert [line["score"] for line in lines] == [0.5, 1.0]
    assert run_missing(path, identities, score) == lines
    assert len(run) == 1


def test_a_line_that_a_kill_has_cut_short_is_made_again(tmp_path):
    path = tmp_path / "lines.jsonl"
    path.write_text('{"name": "a"}\n{"name": "b"')
    lines = run_missing(path, [{"name": "a"}, {"name": "b"}], lambda name: {"name": name})
    assert [line["name"] for line in lines] == ["a", "b"]
    assert len(path.read_text().splitlines()) == 2


@pytest.mark.parametrize("module", [contrastive, encoders, readable])
def test_a_file_of_somebody_else_gets_no_lines(module, tmp_path, capsys):
    mine = tmp_path / "mine.jsonl"
    mine.write_text('{"name": "a"}\n')
    words = ["--data-dir", str(tmp_path / "absent"), "--out", str(mine)]
    assert module.main(words) == 2
    assert "mine.jsonl: this file exists, and minBERT may not have" in capsys.readouterr().err
    assert mine.read_text() == '{"name": "a"}\n'


@pytest.mark.parametrize("module", [contrastive, encoders, readable, scaling])
def test_a_folder_without_the_files_is_refused_at_once(module, tmp_path, monkeypatch, capsys):
    flags = ["--data-dir", tmp_path]
    if module is not scaling:
        flags += ["--out", tmp_path / "lines.jsonl"]
    with pytest.raises(SystemExit):
        run_command(module, monkeypatch, *flags)
    message = f": {tmp_path / 'ids-sst-train.csv'}: there is no such file."
    assert message in capsys.readouterr().err
    assert not any(tmp_path.iterdir())


# --- contrastive ----------------------------------------------------------------------------------


def test_a_stage_of_the_contrastive_table_is_a_method_or_a_comparison(tiny_model, sample_data):
    line = contrastive.train_in_process(
        stage="bsc-rows-only",
        model=str(tiny_model),
        seed=0,
        data_dir=str(sample_data),
        train_rows="sst=32,para=64,sts=32",
    )
    assert line["stage"] == "bsc-rows-only"
    assert line.keys() >= {"before", "after", "seconds", "peak_memory"}
    assert contrastive.format_table([line]).splitlines()[-1].endswith("n=1")


def test_a_text_goes_to_the_stages_that_read_it(
    tiny_model, sample_data, tmp_path, monkeypatch, capsys
):
    """The table shows the text that this command asks for. Other lines stay in the file."""

    def pretend(**settings):
        scores = {
            "before": dict.fromkeys(contrastive.SHOWN_SCORES, 0.1),
            "after": dict.fromkeys(contrastive.SHOWN_SCORES, 0.2),
        }
        return {**settings, **scores, "seconds": 1.0, "peak_memory": 1e9}

    monkeypatch.setattr(contrastive, "train_in_process", pretend)
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("The hotel is small.\n", encoding="utf-8")
    out = tmp_path / "lines.jsonl"
    files = ["--data-dir", sample_data, "--out", out]
    stages = ["--stages", "pretrain-ct", "simcse", "--seeds", 0]
    run_command(contrastive, monkeypatch, *files, *stages)
    run_command(contrastive, monkeypatch, *files, *stages, "--ct-corpus", corpus)

    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(line["stage"], line.get("ct_corpus")) for line in lines] == [
        ("pretrain-ct", "none"),
        ("simcse", None),
        ("pretrain-ct", str(corpus)),
    ]
    table = capsys.readouterr().out.split("zero-shot STS dev")[-1]
    assert table.count("n=1") == 2
    assert "n=2" not in table


def test_a_stage_on_triplets_asks_for_their_file(monkeypatch, capsys):
    flags = ["--data-dir", "d", "--out", "o", "--stages", "pretrain-simcse-nli"]
    with pytest.raises(SystemExit):
        run_command(contrastive, monkeypatch, *flags)
    message = "pretrain-simcse-nli trains on triplets of sentences; name their file with --nli"
    assert message in capsys.readouterr().err


# --- encoders -------------------------------------------------------------------------------------


def test_fine_tunes_of_encoders_to_their_table(
    tiny_model, sample_data, tmp_path, monkeypatch, capsys
):
    out = tmp_path / "lines.jsonl"
    files = ["--data-dir", sample_data, "--out", out, "--encoders", tiny_model]
    sizes = ["--tasks", "sst", "para", "--seeds", 0, "--epochs", 1, "--para-prior", 0.4]
    run_command(encoders, monkeypatch, *files, *sizes)

    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line["task"] for line in lines] == ["sst", "para"]
    assert [line["para_prior"] for line in lines] == ["none", 0.4]
    keys = {"encoder", "seed", "data_dir", "dropout", "lr", "hidden_dropout_prob", "epochs"}
    assert lines[0].keys() >= keys | {"score", "by_epoch", "peak_rate", "seconds"}
    assert capsys.readouterr().out.splitlines()[-1].count("(n=1)") == 2


# --- readable -------------------------------------------------------------------------------------


def test_the_readable_path_uses_no_fast_twin(tiny_model, sample_data, monkeypatch):
    """Both paths train. The readable one goes through AdamW.update and takes no fast branch."""
    calls = []

    def note_calls(owner, name):
        original = getattr(owner, name)

        def noted(*arguments, **settings):
            calls.append(name)
            return original(*arguments, **settings)

        monkeypatch.setattr(owner, name, noted)

    note_calls(AdamW, "update")
    note_calls(fast, "adamw_update")
    note_calls(fast, "dropout_mask")

    settings = {
        "model": str(tiny_model),
        "seed": 0,
        "data_dir": str(sample_data),
        "epochs": 1,
        "train_rows": "sst=16,para=16,sts=16",
    }
    called = {}
    for path in readable.PATHS:
        calls.clear()
        line = readable.fine_tune(path, **settings)
        called[path] = set(calls)
        assert line["path"] == path
        assert line.keys() >= {"path", "seed", *readable.SCORES}
    assert called["readable"] == {"update"}
    assert called["fast"] == {"adamw_update", "dropout_mask"}


# --- scaling --------------------------------------------------------------------------------------


def test_an_exponent_is_the_slope_in_logarithms():
    assert scaling.exponent([1, 2, 4, 8], [3, 12, 48, 192]) == pytest.approx(2)
    assert scaling.exponent([1, 2, 4, 8], [5, 5, 5, 5]) == pytest.approx(0)


def test_the_distance_from_a_line():
    line = scaling.fit_line([1, 2, 4, 8], [3, 5, 9, 17])
    assert line == pytest.approx((1, 2, 0), abs=1e-9)
    # The control: a square is no line.
    assert scaling.fit_line([1, 2, 4, 8], [1, 4, 16, 64]).distance > 0.3


def test_the_distance_from_the_middle():
    assert scaling.off_the_middle([5, 5, 5]) == 0
    assert scaling.off_the_middle([9, 11, 10]) == pytest.approx(0.1)


@pytest.mark.parametrize("names", scaling.TASKS)
def test_a_joint_step_has_one_batch_of_each_task(sample_data, tmp_path, monkeypatch, names):
    def tasks_of(job, update):
        return [part.task for part in update]

    monkeypatch.setattr(scaling, "TASKS", (names,))
    monkeypatch.setattr(scaling.cost_estimate, "rehearse", tasks_of)
    (run_part,) = scaling.task_steps(str(sample_data), "fp32", tmp_path).values()
    assert sorted(run_part(0)) == sorted(names.split(","))


# --- profiles -------------------------------------------------------------------------------------


def test_a_profile_counts_the_products_of_a_step_and_their_flops():
    layer = torch.nn.Linear(3, 5)
    rows = torch.ones(7, 3, requires_grad=True)

    def run_part(part):
        layer(rows).exp().sum().backward()

    profile = profiles.profile(profiles.ProfiledSide(run_part, 4), {3, 5})
    # Three products in each of four parts: forward, and the gradients of weight and rows.
    assert profile["flops"] == 4 * 3 * (2 * 7 * 3 * 5)
    shapes = {shape.rpartition(" ")[0] for shape in profile["shapes"].split(", ")}
    assert shapes == {"`T x 3 x 5`", "`T x 5 x 3`", "`5 x T x 3`"}, "7 is no size of the layer"
    seconds = profile["seconds"]
    assert seconds.keys() >= {"addmm", "mm", "exp"}
    assert profile["products"] == pytest.approx(seconds["addmm"] + seconds["mm"])
    assert profile["total"] == pytest.approx(sum(seconds.values()) + profile["between"])


def test_a_row_of_the_records_names_the_ideal_time_and_the_rest():
    """Half of the time is products at half of the limit, so a quarter of the time is ideal."""
    seconds = {"gelu": 0.2, "mm": 0.5, "dropout": 0.1}
    profile = {"seconds": seconds, "total": 1.0, "flops": 50, "products": 0.5, "between": 0.2}
    profile["shapes"] = "`T x 3 x 5` 50.0%"
    row = profiles.row_of("a step", profile, limit=200, num_batches=10)
    assert row["milliseconds"] == 100 and row["ideal"] == 25
    assert (row["products"], row["share_of_limit"], row["between"]) == (50, 50, 20)
    assert row["others"] == "`gelu` 20.0%, `dropout` 10.0%"


@pytest.mark.parametrize("name", profiles.SIDES)
def test_a_profile_is_of_the_sides_of_its_benchmark(tmp_path, sample_data, tiny_model, name):
    settings = Settings(
        data_dir=str(sample_data),
        threads=1,
        batch_size=4,
        is_quick=True,
        num_rounds=None,
        folder=tmp_path,
    )
    write_model(str(tiny_model), settings.model)
    hidden = BertConfig.from_pretrained(tiny_model).hidden_size
    for side in profiles.SIDES[name](settings, 2).values():
        profile = profiles.profile(side, {hidden})
        assert profile["flops"] > 0
        assert f"`T x {hidden} x " in profile["shapes"]


# --- memory of batches ----------------------------------------------------------------------------


def test_memory_of_a_batch_in_pieces_to_its_closing_line(
    tiny_model, sample_data, tmp_path, monkeypatch, capsys
):
    """The sides are trained here. Peaks of their own processes would be those of this one."""
    peaks = iter((1e8, 3e8, 2.5e8))

    def measure_here(arguments, size):
        result = memory_of_batches.measure(arguments, size, tmp_path)
        return {**result, "peak": next(peaks)}

    monkeypatch.setattr(memory_of_batches, "measure_in_process", measure_here)
    inputs = ["--data-dir", sample_data, "--model", tiny_model]
    sizes = ["--small", 4, "--large", 16, "--chunk", 4]
    run_command(memory_of_batches, monkeypatch, *inputs, *sizes)
    line = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert line["name"] == "memory_of_batches"
    assert line["chunk"] == 4
    assert line["ratio"] == 0.75
    assert line["is_met"]
