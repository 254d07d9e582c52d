"""Every way through the code on a simulated GPU, which refuses what a real one refuses.

If a test fails with "tensors on gpu and on cpu", a tensor was made without asking for the device.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest
from torch.utils import backend_registration

import run_multitask
from tests.killed_runs import differences, saved_step, stop_when
from tests.python_processes import Running, run_python, start_python
from tests.simulated_gpu import TITLE
from tests.toy_text import LINES

pytestmark = pytest.mark.skipif(
    not hasattr(backend_registration, "_setup_privateuseone_for_python_backend"),
    reason="this torch cannot simulate a device",
)
# Contrastive stages and tasks of one run after the other.
RUNS = [
    "--pretrain mlm,simcse,simcse-supervised,mnr,sg,sg-opt,ct,ct-in-batch "
    "--contrastive-batch-size 8 --contrastive-sentences 24 "
    "--sampling joint --surgery pcgrad --pooling cls --head dph",
    "--pretrain simcse-nli,bsc --nli NLI --contrastive-batch-size 8 --contrastive-projection mlp "
    "--contrastive-chunk 10 --bsc-align 0.5 --bsc-temperature-lr 1e-3 --bsc-shuffle knn "
    "--contrastive-epochs 2 --hard-negative-weight 0.5 "
    "--head mlp --sharing first --sts-range fitted --pair-encoding bi --para-prior 0.4",
    "--pretrain bsc --contrastive-batch-size 8 --bsc-normalise batch --bsc-shuffle cluster "
    "--contrastive-epochs 2 --contrastive-order last "
    "--head dpha --pooling pooler --vector-dropout-prob 0.1 --encoder-dropout 0.1 "
    "--attention-dropout 0.1",
    "--pretrain simcse --contrastive-order fusion --contrastive-projection tanh --attention fused",
    "--head ph --sampling joint --surgery gradvac --attention fused",
    "--head cosine --para-head features --heads-first 1 --freeze 1 --layer-decay 0.5",
    "--option pretrain --head vm --pair-encoding dual --sampling annealed --accumulation 2",
]
# Enough for a step of each task. The way through the code is what counts here.
FEW_ROWS = ["--train-rows", "sst=8,para=16,sts=8", "--dev-rows", "sst=8,para=8,sts=8"]
COMMANDS = [
    "multitask.predict RUN --task sst",
    "multitask.ensemble RUNS --out OUT/new",
    "multitask.errors RUN --out OUT",
    "contrastive.embed MODEL --nearest 2 --out OUT/vectors.npy",
    "contrastive.quality MODEL --sets PAIRS --transfer SENTENCES --layers --baselines --folds 2 "
    "--out OUT/new",
    "minbert.pretraining --corpus TEXT --out OUT/model --size tiny --tokens 640 --block-size 16 "
    "--batch-size 4",
]


def start(*arguments: str | Path, text: str = "") -> Running:
    """A command with its arguments, in a process of its own on the simulated GPU.

    text: on its standard input.
    """
    return start_python("-m", "tests.simulated_gpu", *arguments, input=text)


def finish(process: Running) -> str:
    """What it printed. Fails where it mixed devices, or computed nothing on the simulated one."""
    printed, complaints = process.communicate(timeout=600)
    assert process.returncode == 0, complaints
    return printed


def finish_all(commands: Sequence[Sequence[str | Path]], text: str = "") -> list[str]:
    """What each of the commands printed. One process runs them all."""
    words: list[str | Path] = []
    for command in commands:
        words += [*command, "+"]
    printed = finish(start(*words[:-1], text=text))
    for number in range(len(commands)):
        printed = printed.replace(TITLE.format(number), "+++")
    return printed.split("+++")[1:]


@pytest.fixture(scope="module")
def common(tiny_model, sample_data):
    """What every run here has in common."""
    flags = ["--model", str(tiny_model), "--data-dir", str(sample_data), "--batch-size", "16"]
    return [*flags, "--precision", "fp32"]


@pytest.fixture
def flags(common, tmp_path):
    """A function of the run's name: what every run of a test has in common."""
    return lambda name: [*common, "--output-dir", str(tmp_path), "--name", name]


@pytest.fixture(scope="module")
def nli(tmp_path_factory):
    """A file for the stage simcse-nli."""
    lines = ["premise\tentailment\tcontradiction"]
    for number in range(24):
        lines.append(f"A man {number}\tA person {number}\tNo one {number}")
    path = tmp_path_factory.mktemp("nli") / "nli.tsv"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_stages_and_tasks(common, tmp_path, nli):
    """Every stage and head, in one process."""
    few = [*common, "--output-dir", str(tmp_path), *FEW_ROWS, "--epochs", "1"]
    commands = []
    for number, flags in enumerate(RUNS):
        words = flags.replace("NLI", str(nli)).split()
        commands.append(["run_multitask", *few, "--name", str(number), *words])
    for printed in finish_all(commands):
        assert "device: gpu (simulated)" in printed and "leaderboard files:" in printed


def test_other_commands(two_runs, tiny_model, sample_data, tmp_path):
    (tmp_path / "text.txt").write_text("\n".join(LINES), encoding="utf-8")
    places = {
        "RUNS": two_runs,
        "RUN": two_runs[:1],
        "MODEL": [tiny_model],
        "TEXT": [tmp_path / "text.txt"],
        "PAIRS": [sample_data / "sts-dev.csv"],
        "SENTENCES": [sample_data / "ids-sst-dev.csv"],
    }
    commands = []
    for number, command in enumerate(COMMANDS):
        out = tmp_path / str(number)
        out.mkdir()
        words = []
        for word in command.split():
            words += places.get(word, [word.replace("OUT", str(out))])
        commands.append(words)
    assert all(finish_all(commands, "a good film\na bad film\na dog runs\n"))


def test_the_numbers_are_those_of_the_cpu(flags, tmp_path):
    same = ["--epochs", "2", "--hidden-dropout-prob", "0"]
    same += ["--sampling", "joint", "--surgery", "pcgrad"]
    assert run_multitask.main([*flags("cpu"), *same, "--device", "cpu"]) == 0
    finish(start("run_multitask", *flags("gpu"), *same))
    cpu, gpu = (
        json.loads((tmp_path / name / "run.json").read_text(encoding="utf-8"))
        for name in ("cpu", "gpu")
    )
    assert gpu["options"]["device"] == "gpu"
    assert gpu["epochs"] == cpu["epochs"] and gpu["scores"] == cpu["scores"]


def test_a_run_that_is_stopped_goes_on(flags, tmp_path):
    same = ["--pretrain", "simcse", "--contrastive-batch-size", "64"]
    same += ["--epochs", "3", "--save-every", "2"]
    whole, stopped = (start("run_multitask", *flags(name), *same) for name in ("whole", "stopped"))
    assert stop_when(
        stopped, lambda: saved_step(tmp_path / "stopped", "multitask") >= 6, signal.SIGINT
    )
    stopped.communicate()
    assert stopped.returncode == 130
    finish(start("run_multitask", "--resume", tmp_path / "stopped"))
    finish(whole)
    assert differences(tmp_path / "whole", tmp_path / "stopped") == []


# What is done on the device -> what a real one would say, or "" for what it allows.
MISTAKES = {
    "there + torch.ones(3)": "tensors on gpu and on cpu",
    "there.numpy()": "not supported",
    "F.embedding(torch.arange(2), weight)": "tensors on gpu and on cpu",
    "torch.arange(3)[there.long()]": "tensors on gpu and on cpu",
    "model(tokens.cpu(), tokens)": "tensors on gpu and on cpu",
    "model(tokens, tokens.cpu())": "tensors on gpu and on cpu",
    "weight[torch.arange(2)] + there.cpu().max() + 1": "",
    "there.to('cpu') + torch.ones(3)": "",
    "model(tokens)": "",
}
LOOK = """
import torch, torch.nn.functional as F
from minbert import BertConfig, BertModel
from tests.simulated_gpu import Simulation, install
install()
with Simulation():
    there, weight = torch.ones(3).to("gpu"), torch.rand(4, 3).to("gpu")
    config = BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=2)
    model = BertModel(config).to("gpu")
    tokens = torch.ones(2, 5, dtype=torch.long).to("gpu")
    for done in {mistakes}:
        try:
            print(eval(done) is None)
        except RuntimeError as error:
            print(str(error).splitlines()[0])
"""


def test_what_the_simulation_refuses():
    result = run_python("-c", LOOK.format(mistakes=list(MISTAKES)))
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    for (done, expected), said in zip(MISTAKES.items(), lines, strict=True):
        assert expected in said if expected else said == "False", f"{done}: {said}"
