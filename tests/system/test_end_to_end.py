"""`python run_multitask.py --option finetune --pretrain simcse`, whole, on a cut of the sample.

A tiny random model shows what is written and printed. The bundled encoder shows that it learns.
"""

from __future__ import annotations

import contextlib
import io
import json
import shlex
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from huggingface_hub import ModelCard
from safetensors.torch import load_file, save_file

import run_multitask
from command_line.options import Options
from command_line.parser import parse
from data.examples import COURSE_FILES
from data.options import DataOptions
from multitask import check, results
from multitask import prediction_files as predictions
from multitask.rows import read_tables
from multitask.run_data import RunData
from multitask.tasks import TASKS
from tests.report_reader import Page

HAS_TENSORBOARD = find_spec("tensorboard") is not None
# The main job, on the tiny model.
SIMCSE = ("--pretrain", "simcse")
TASK_NAMES = ("sst", "para", "sts")
SCORE_NAMES = [*TASK_NAMES, "overall_2023", "overall_2024"]
SCORES = set(SCORE_NAMES)
FILES = {}
for task_name in TASK_NAMES:
    for split_name in ("dev", "test"):
        FILES[task_name, split_name] = f"{task_name}-{split_name}-output.csv"


@dataclass(frozen=True)
class Run:
    """A finished run: its folder and what it printed."""

    folder: Path
    output: str
    complaints: str

    @property
    def record(self) -> dict:
        return json.loads((self.folder / "run.json").read_text(encoding="utf-8"))

    @property
    def lines(self) -> list[str]:
        return self.output.splitlines()

    def results(self) -> dict[str, bytes]:
        """The files that must not depend on anything but options, data and seed."""
        files = {}
        for path in self.folder.rglob("*"):
            # log.csv holds the seconds of each step.
            if path.suffix in (".csv", ".safetensors") and path.name != "log.csv":
                files[path.relative_to(self.folder).as_posix()] = path.read_bytes()
        return files


def run(folder: Path, *flags: object) -> Run:
    """One run in `folder`, which names it; AssertionError with its message where it fails."""
    output = io.StringIO()
    complaints = io.StringIO()
    argv = ["--output-dir", folder.parent, "--name", folder.name, *flags]
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(complaints):
        code = run_multitask.main(list(map(str, argv)))
    assert code == 0, complaints.getvalue()
    return Run(folder, output.getvalue(), complaints.getvalue())


@pytest.fixture(scope="module")
def flags(tiny_model, sample_data):
    return ["--model", tiny_model, "--data-dir", sample_data, "--seed", 7, "--epochs", 2]


@pytest.fixture(scope="module")
def finished(tmp_path_factory, flags, reports) -> Run:
    """The main job: both stages, finetune, with a log for TensorBoard where it is installed."""
    folder = tmp_path_factory.mktemp("runs") / "first"
    board = ["--tensorboard"] if HAS_TENSORBOARD else []
    return run(folder, *flags, "--option", "finetune", *SIMCSE, *board)


def ids_in(path: Path) -> list[str]:
    header, *rows = path.read_text(encoding="utf-8").splitlines()
    column = header.split("\t").index("id")
    return [row.split("\t")[column] for row in rows]


def trained_folders(run: Run) -> set[str]:
    """Where the trained encoders are of the stages that gave back the one of their start."""
    stages = run.record["stages"]
    folders = set()
    for name, stage in stages.items():
        folder = "encoder" if name == list(stages)[-1] else f"encoder-{name}"
        if not stage["is_kept"]:
            folders.add(f"{folder}-trained")
    return folders


def weights_of(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


# --- what it leaves behind ------------------------------------------------------------------------


def test_six_leaderboard_files_hold_every_id(finished, sample_data):
    folder = finished.folder / "predictions"
    assert sorted(path.name for path in folder.iterdir()) == sorted(FILES.values())
    for (task, split), name in FILES.items():
        ids = ids_in(sample_data / COURSE_FILES[task][split])
        assert list(predictions.verify_predictions(folder / name, TASKS[task], ids)) == ids


def test_the_files_score_what_the_run_says(finished, sample_data, capsys):
    files = [str(finished.folder / "predictions" / name) for name in FILES.values()]
    assert check.main([*files, "--data-dir", str(sample_data)]) == 0
    checked = capsys.readouterr().out
    scores = finished.record["scores"]
    metrics = {"sst": "SST dev, 24 rows, accuracy", "para": "PARA dev, 24 rows, accuracy"}
    metrics["sts"] = "STS dev, 24 rows, Pearson"
    for task, title in metrics.items():
        assert f"{title} {scores[task]:.4f} [" in checked
    for year in ("2023", "2024"):
        assert f"overall {year}: {scores[f'overall_{year}']:.4f} [" in checked


def test_run_json_holds_the_options_in_use(finished):
    record = finished.record
    options = record["options"]
    assert (options["seed"], options["epochs"], options["pretrain"]) == (7, 2, "simcse")
    unresolved = set()
    for name, value in options.items():
        if value == "auto" and not name.endswith("_out") and not name.startswith("contrastive_"):
            unresolved.add(name)
    names = {"mlm_lr", "single_task_lr", "para_head", "token_cache"}
    names |= {"encoder_dropout", "attention_dropout"}
    assert unresolved == names, "they mean another value, or a folder of the user's"
    # A contrastive stage has its own learning rate.
    learning_rate = record["stages"]["simcse"]["settings"]["lr"]
    assert learning_rate == pytest.approx(3e-5 * 768 / 32)


def test_run_json_names_versions_machine_and_files(finished, sample_data):
    record = finished.record
    assert record["versions"].keys() >= {"python", "torch", "numpy", "tokenizers"}
    assert record["machine"]["device"] == record["options"]["device"]
    assert record["machine"]["processor"] and record["machine"]["cores"] >= 1
    assert len(record["files"]) == 9
    assert all(len(digest) == 64 for digest in record["files"].values())
    assert str(sample_data / "sts-dev.csv") in record["files"]


def test_run_json_holds_the_scores_of_every_epoch(finished):
    record = finished.record
    assert record["scores"].keys() == SCORES
    assert record["baselines"].keys() == {"majority", "TF-IDF"}
    assert all(scores.keys() == SCORES for scores in record["baselines"].values())
    assert [entry["epoch"] for entry in record["epochs"]] == [1, 2]
    assert all(entry.keys() >= SCORES | {"step", "loss"} for entry in record["epochs"])

    best = max(record["epochs"], key=lambda entry: entry["overall_2023"])
    assert best["step"] == record["best_step"]
    assert {name: best[name] for name in SCORES} == pytest.approx(record["scores"], abs=1e-6)

    stage = record["stages"]["simcse"]
    assert stage["before"].keys() == {"spearman", "pearson", "alignment", "uniformity"}
    assert stage["after"] != stage["before"]


def test_run_json_compares_the_estimated_cost_with_the_actual_one(finished):
    record = finished.record
    assert [cost["name"] for cost in record["predicted"]] == ["simcse", "multitask"]
    # 2 epochs x 3 tasks x (64 rows / 32 in a batch)
    assert record["predicted"][1]["num_steps"] == 12
    for cost in (*record["predicted"], record["actual"]):
        assert cost["seconds"] > 0 and cost["peak_memory"] > 1e7


CHOSEN = ("device", "precision", "formulas", "pair_encoding", "lr", "attention", "score", "simcse")
EXPLAINED = ("token_cache", "para_head", "encoder_dropout", "attention_dropout")


@pytest.mark.parametrize("name", [*CHOSEN, *EXPLAINED])
def test_each_value_that_is_chosen_is_printed_with_its_reason(finished, name):
    lines = [line for line in finished.lines if line.startswith(f"{name}: ")]
    assert any(line.endswith(")") for line in lines), f"no reason for {name}"


def test_what_was_read_is_printed(finished, sample_data):
    lines = finished.lines
    assert f"{sample_data / 'sts-train.csv'}: 64 rows read, 0 dropped" in lines
    assert any(line.endswith(": 39 tensors loaded, 0 missing, 0 ignored") for line in lines)
    cut = " rows are longer than --max_length 128 and were cut to it"
    assert any(line.endswith(cut) for line in lines)


def test_the_cost_the_stages_and_the_files_are_printed(finished):
    """In this order: cost, table of the first stage, last epoch, closing table, actual cost."""
    starts = (
        "multitask         12 ",
        "zero-shot STS dev ",
        "multitask: step 12/12 ",
        "dev  ",
        "predicted ",
    )
    found = []
    for line in finished.lines:
        found += [start for start in starts if line.startswith(start)]
    assert found == list(starts)
    assert any(" minutes and " in line and ", took " in line for line in finished.lines)
    for name in FILES.values():
        assert str(finished.folder / "predictions" / name) in finished.output


def test_token_ids_are_kept_for_the_next_run(finished):
    assert list(Options().data.token_folder.glob("*.npz"))


def test_the_closing_table(finished):
    lines = finished.lines
    header = ["dev", "minBERT", "95", "%", "interval", "majority", "TF-IDF"]
    start = [line.split() for line in lines].index(header)
    record = finished.record
    baselines = [record["baselines"]["majority"], record["baselines"]["TF-IDF"]]
    titles = ["SST accuracy", "PARA accuracy", "STS Pearson", "overall 2023", "overall 2024"]
    for line, name, title in zip(lines[start + 1 :], SCORE_NAMES, titles, strict=False):
        assert line.startswith(title)
        low, high = record["intervals"][name]
        assert low <= record["scores"][name] <= high
        expected = [f"{record['scores'][name]:.4f}", f"{low:.3f}", "to", f"{high:.3f}"]
        assert line[len(title) :].split() == expected + [
            f"{column[name]:.4f}" for column in baselines
        ]


def test_quiet_where_the_output_is_no_terminal(finished):
    assert finished.complaints == ""
    for progress in ("\r", "%|", "\x1b"):
        assert progress not in finished.output
    assert len(finished.lines) < 100


def test_nothing_but_results_is_left(finished):
    names = {path.name for path in finished.folder.iterdir()}
    records = {"options.json", "cost_estimate.json", "run.json", "log.csv"}
    pages = {"report.html", "README.md"}
    folders = {"predictions", "encoder", "model"} | trained_folders(finished)
    assert names - {"tensorboard"} == records | pages | folders


@pytest.mark.skipif(not HAS_TENSORBOARD, reason="it is optional; run setup.sh --plots")
def test_every_stage_has_a_log_for_tensorboard(finished):
    """Other tests compare the files of this run with those of a run without the log."""
    folders = sorted((finished.folder / "tensorboard").iterdir())
    assert [folder.name for folder in folders] == ["multitask", "simcse"]
    assert all(any(folder.glob("events.*")) for folder in folders)
    assert f"TensorBoard log: {finished.folder / 'tensorboard'}" in finished.lines


# --- the report and the model card ----------------------------------------------------------------


def test_the_report_shows_the_run(finished):
    page = Page((finished.folder / "report.html").read_text(encoding="utf-8"))
    assert not page.faults
    assert page.texts["h1"] == ["Run first"]
    scores = finished.record["scores"]
    assert [row[:2] for row in page.tables[0][1:3]] == [
        ["SST accuracy", f"{scores['sst']:.4f}"],
        ["PARA accuracy", f"{scores['para']:.4f}"],
    ]
    assert "simcse: loss and learning rate" in page.texts["h3"]
    assert "multitask: loss and learning rate" in page.texts["h3"]
    assert f"report: {finished.folder / 'report.html'}" in finished.output


def test_the_command_of_the_report_gives_the_same_options(finished):
    page = Page((finished.folder / "report.html").read_text(encoding="utf-8"))
    (command,) = page.texts["code"]
    words = shlex.split(command.replace("\\\n", " "))
    assert words[:2] == ["python", "run_multitask.py"]
    options, _ = parse(words[2:])
    place = {"name": "first", "output_dir": str(finished.folder.parent)}
    values = {**options.flat(), **place}
    assert json.loads(json.dumps(values)) == finished.record["options"]


def test_the_hub_reads_the_model_card(finished):
    card = ModelCard((finished.folder / "README.md").read_text(encoding="utf-8"))
    values = {result.dataset_name: result.metric_value for result in card.data.eval_results}
    scores = finished.record["scores"]
    assert values == {"SST": scores["sst"], "PARA": scores["para"], "STS": scores["sts"]}


def test_an_error_while_drawing_is_one_line_of_warning(
    finished, sample_data, monkeypatch, capsys, tmp_path
):
    """The run goes on to its end."""

    def fail(*_):
        raise RuntimeError("no ink\n\nanywhere")

    monkeypatch.setattr("minbert.reporting.images._draw", fail)
    tables = read_tables(DataOptions(data_dir=str(sample_data)).with_files())
    outputs = {}
    for name, task in TASKS.items():
        outputs[name] = np.zeros((24, task.num_outputs)).squeeze(axis=-1 if name != "sst" else ())
    data = RunData(DataOptions(), [], TASKS, tables, {}, {})
    run = SimpleNamespace(folder=tmp_path, command="", data=data, surgery=None)
    lines = results.write_report(run, finished.record, outputs)
    assert lines == [f"model card: {tmp_path / 'README.md'}"]
    assert capsys.readouterr().out.splitlines() == [
        "warning: the report was not written (RuntimeError: no ink anywhere). All results are "
        "complete.",
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["README.md"]


# --- the same and not the same --------------------------------------------------------------------


def test_the_same_seed_gives_the_same_files_and_another_does_not(finished, flags, tmp_path):
    again = run(tmp_path / "again", *flags, *SIMCSE)
    assert again.results() == finished.results()
    assert len(again.results()) == 9 + len(trained_folders(again))
    assert again.record["scores"] == finished.record["scores"]

    other = run(tmp_path / "elsewhere" / "other", *flags, *SIMCSE, "--seed", "8")
    assert other.record["stages"]["simcse"]["after"] != again.record["stages"]["simcse"]["after"]
    # The encoder of simcse may be its start in both runs.
    for name in ("model/model.safetensors", "model/heads.safetensors"):
        assert other.results()[name] != finished.results()[name]


def test_what_a_model_lacks_is_drawn_from_the_seed(flags, model_copy, tmp_path):
    """Its pooler, which masked language modelling does not train."""
    path = model_copy / "model.safetensors"
    tensors = {name: tensor for name, tensor in load_file(path).items() if "pooler" not in name}
    save_file(tensors, path)
    flags = [*flags, "--model", model_copy, "--pooling", "pooler", "--epochs", 1]
    one = run(tmp_path / "one", *flags)
    assert one.results() == run(tmp_path / "other", *flags).results()


def test_the_contrastive_encoder_is_reused_with_other_multitask_options(finished, flags, tmp_path):
    others = ["--batch_size", "16", "--lr", "1e-3", "--sampling", "joint", "--epochs", "1"]
    reused = run(finished.folder.parent / "second", *flags, *SIMCSE, *others)
    message = f"simcse: encoder reused from {finished.folder / 'encoder'} (same options and data)"
    assert message in reused.output and "simcse: step" not in reused.output
    assert [cost["name"] for cost in reused.record["predicted"]] == ["multitask"]

    anew = run(tmp_path / "second", *flags, *SIMCSE, *others)
    assert "reused" not in anew.output and "simcse: step" in anew.output
    trained = {name for name in anew.results() if name.startswith("encoder-trained/")}
    assert reused.results().keys() == anew.results().keys() - trained
    assert all(anew.results()[name] == content for name, content in reused.results().items())
    stage = finished.record["stages"]["simcse"]
    assert reused.record["stages"]["simcse"] == anew.record["stages"]["simcse"] == stage


def test_the_contrastive_encoder_is_not_reused_where_its_own_options_differ(finished, flags):
    folder = finished.folder.parent / "third"
    other = run(folder, *flags, *SIMCSE, "--contrastive_temperature", "0.1")
    assert "reused" not in other.output
    assert other.record["stages"]["simcse"]["after"] != finished.record["stages"]["simcse"]["after"]


def test_a_chain_of_stages_and_the_reuse_of_its_beginning(flags, tmp_path):
    chain = run(tmp_path / "chain", *flags, "--pretrain", "mlm,simcse", "--epochs", "1")
    stages = chain.record["stages"]
    assert list(stages) == ["mlm", "simcse"]
    costs = [cost["name"] for cost in chain.record["predicted"]]
    assert costs == ["mlm", "simcse", "multitask"]
    assert stages["mlm"]["before"].keys() == {"held_out_loss", "masked_accuracy"}
    starts = ("masked dev tokens", "zero-shot STS dev")
    tables = [line.split()[0] for line in chain.lines if line.startswith(starts)]
    assert tables == ["masked", "zero-shot"]
    folders = {path.name for path in chain.folder.glob("encoder*")}
    assert folders == {"encoder", "encoder-mlm"} | trained_folders(chain)

    alone = run(tmp_path / "alone", *flags, "--pretrain", "mlm", "--epochs", "1")
    folder = chain.folder / "encoder-mlm"
    assert f"mlm: encoder reused from {folder} (same options and data)" in alone.output
    assert weights_of(alone.folder / "encoder") == weights_of(folder)


def test_a_chain_of_contrastive_methods(flags, tmp_path):
    changes = "--contrastive-epochs 1 --bsc-align 0.5 --epochs 1 --train-rows sst=16,para=16,sts=16"
    chain = run(tmp_path / "chain", *flags, "--pretrain", "ct,bsc", *changes.split())
    stages = chain.record["stages"]
    assert list(stages) == ["ct", "bsc"]
    names = {"Spearman of the first copy", "Spearman of the second copy"}
    assert set(stages["ct"]["found"]) == names
    assert stages["ct"]["settings"]["optimizer"] == "rmsprop"
    assert stages["bsc"]["settings"]["batch_size"] == 30

    # The settings of both are printed before any work.
    lines = chain.lines
    of_ct = next(line for line in lines if line.startswith("ct: epochs 1, batch_size 16,"))
    of_bsc = next(line for line in lines if line.startswith("bsc: epochs 1, batch_size 30,"))
    first_table = next(line for line in lines if " rows read" in line)
    assert lines.index(of_bsc) == lines.index(of_ct) + 1 < lines.index(first_table)
    assert of_bsc.endswith("(Chernyavskiy et al. 2022; set: epochs)")
    assert any(line.startswith("Spearman of the second copy: ") for line in lines)
    folders = {path.name for path in chain.folder.glob("encoder*")}
    assert folders == {"encoder", "encoder-ct"} | trained_folders(chain)


# --- options with a meaning -----------------------------------------------------------------------


def equal(first: Path, second: Path) -> list[bool]:
    """For each tensor of two encoders, whether it is the same in both.

    The tensors of the pooler are left out, since --pooling mean does not use them.
    """
    tensors = load_file(first / "model.safetensors")
    others = load_file(second / "model.safetensors")
    assert tensors.keys() == others.keys()
    names = [name for name in tensors if not name.startswith("pooler")]
    return [torch.equal(tensors[name], others[name]) for name in names]


def test_option_pretrain_trains_the_heads_only(flags, finished, tiny_model, tmp_path):
    frozen = run(tmp_path / "frozen", *flags, "--option", "pretrain")
    assert all(equal(frozen.folder / "model", tiny_model))

    # Only the first stage changes the encoder.
    both = run(tmp_path / "both", *flags, "--option", "pretrain", *SIMCSE)
    assert all(equal(both.folder / "model", both.folder / "encoder"))
    assert all(equal(both.folder / "encoder", finished.folder / "encoder"))

    # Negative control: with finetune every tensor changes.
    assert not any(equal(finished.folder / "model", finished.folder / "encoder"))


@pytest.mark.parametrize(
    "line",
    [
        "--sampling joint --joint_limit smallest --pair_encoding bi --pooling cls",
        "--pooling pooler --attention fused --schedule cosine --accumulation 2",
        "--batch_size 7 --max_length 9 --schedule constant --warmup 0 --max_grad_norm 0",
    ],
)
def test_other_ways_run_to_the_end(flags, tmp_path, line):
    done = run(tmp_path / "run", *flags, *line.split(), "--epochs", "1")
    assert done.record["scores"].keys() == SCORES
    assert len(list((done.folder / "predictions").iterdir())) == 6


def test_the_course_s_flags_say_where_the_files_go(flags, tmp_path, sample_data):
    paths = {}
    file_flags = []
    for (task, split), name in FILES.items():
        paths[task, split] = tmp_path / "mine" / name
        file_flags += [f"--{task}_{split}_out", paths[task, split]]
    done = run(tmp_path / "run", *flags, *file_flags, "--epochs", "1")
    for (task, split), path in paths.items():
        ids = ids_in(sample_data / COURSE_FILES[task][split])
        predictions.verify_predictions(path, TASKS[task], ids)
    assert not (done.folder / "predictions").exists()


def test_a_finished_model_is_the_start_of_another_run(finished, flags, tmp_path):
    model = finished.folder / "model"
    run(tmp_path / "run", *flags, "--model", model, "--epochs", "1")
    argv = ["--model", str(model), "--pooling", "cls", "--output-dir", str(tmp_path / "other")]
    with contextlib.redirect_stderr(io.StringIO()) as complaints:
        code = run_multitask.main(argv)
    assert code == 2 and "trained with --pooling mean; asked for is cls" in complaints.getvalue()


# --- it learns ------------------------------------------------------------------------------------


def test_a_part_of_the_default_job_beats_both_baselines_on_all_tasks(tmp_path, cut_sample):
    """All its epochs, on 2,900 rows of the sample."""
    data = cut_sample(tmp_path / "data", 300, 2400)
    changes = ["--train-rows", "sst=400,para=1500,sts=1000", "--contrastive-sentences", "64"]
    done = run(tmp_path / "run", "--data-dir", data, *SIMCSE, *changes)
    record = done.record
    for task in TASKS:
        score = record["scores"][task]
        best = max(baseline[task] for baseline in record["baselines"].values())
        assert score > best, f"{task}: {score:.4f}, the better baseline {best:.4f}\n{done.output}"
