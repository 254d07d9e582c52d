"""What you read is what runs: each function of a lesson file is tested, and a run reaches it.

If the first test names a function, its formula can be wrong and no lesson test would tell. If the
second one names a function, a run takes another code than the one that a student reads.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from types import CodeType
from typing import Any

import pytest

import run_multitask
from minbert import fast
from tests.lesson_functions import (
    LESSON_FILES,
    ROOT,
    functions_of,
    recorded_calls,
)

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="each break has its own fork")


# --- broken ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def checked(tmp_path_factory) -> dict[str, Any]:
    """The results of tests/lesson_functions.py."""
    results = tmp_path_factory.mktemp("lessons") / "results.json"
    environment = {name: value for name, value in os.environ.items() if "PYTEST" not in name}
    command = [sys.executable, "-m", "tests.lesson_functions", "--json", str(results)]
    subprocess.run(command, cwd=ROOT, env=environment, check=True, timeout=500)
    return json.loads(results.read_text("utf-8"))


@pytest.mark.parametrize("file", LESSON_FILES)
def test_a_lesson_test_fails_for_each_broken_function(checked, file):
    """Each function returns zeros, one at a time."""
    assert checked["unnoticed"][file] == []


def test_negative_control_a_function_that_does_what_it_did_is_not_noticed(checked):
    """Otherwise the check would find every function tested, whatever the tests are."""
    assert not checked["control"]


# --- reached --------------------------------------------------------------------------------------

# The functions that no run below calls, and why.
ELSEWHERE = {
    # With a matrix (K, P) of gradients. The training loop has their K x K products instead.
    "multitask/surgery.py": {"gramian_of", "pcgrad", "gradvac", "cagrad", "upgrad"},
    # Of sentence-transformers' models, for contrastive.embed.
    "minbert/pooling.py": {"mean_sqrt_len", "weighted_mean", "last_token", "first_token"},
    # The picture of minbert.draw_attention. The course's scripts call `encode`.
    "minbert/attention.py": {"MultiHeadAttention.probabilities"},
    "minbert/bert.py": {"BertModel.encode"},
}

# Flags of tiny runs that together reach every other function.
RUNS = (
    # mlm and four contrastive methods, then PCGrad.
    "--pretrain mlm,simcse,bsc,sg-opt,ct --mlm-whole-word --bsc-normalise batch "
    "--bsc-align 0.5 --sampling joint --surgery pcgrad --encoder-dropout 0.1",
    "--pretrain ct-in-batch,mnr,cosent,matryoshka --sampling batch-round-robin --surgery weighted "
    "--loss-weights sst=2 --schedule constant --pooling cls --class-weights balanced",
    "--pretrain sg --sg-loss opt1 --sampling joint --surgery gradvac --schedule cosine",
    "--pretrain sg --sg-loss opt2 --sampling joint --surgery cagrad --layer-decay 0.9",
    "--sampling joint --surgery upgrad --para-prior 0.37 --pooling pooler",
    "--head cosine --pair-encoding bi --para-head features --sts-range fitted "
    "--sampling epoch-round-robin",
    "--sampling sequential --pretrain sg",
    "--sampling annealed --pretrain distill --teacher {model}",
    "--sampling power --pretrain simcse-supervised --labelled-negatives maximised",
    "--sampling random-task --tasks likeness --task {task} --head cosine --pair-encoding bi "
    "--sts-range fitted --train-rows none --dev-rows none",
)


@pytest.fixture(scope="module")
def called(tiny_model, sample_data, tmp_path_factory) -> set[CodeType]:
    """The functions that the runs call, with readable formulas."""
    folder = tmp_path_factory.mktemp("runs")
    small = ["--model", str(tiny_model), "--data-dir", str(sample_data), "--epochs", "1"]
    small += ["--train-rows", "sst=16,para=16,sts=16", "--dev-rows", "sst=8,para=8,sts=8"]
    small += ["--device", "cpu", "--formulas", "readable", "--output-dir", str(folder)]
    small += ["--skip", "estimate,baselines"]
    scores = folder / "scores.csv"
    rows = [f"a {number},b {number},{number % 11 / 2}" for number in range(40)]
    scores.write_text("\n".join(["first,second,score", *rows]), encoding="utf-8")
    task = f"name=likeness,train={scores},dev=0.2,kind=score,loss=mae"
    task += ",text=first,text_pair=second,label=score"
    calls: set[CodeType] = set()
    with fast.switched(is_fast=False), recorded_calls(calls):
        for number, flags in enumerate(RUNS):
            words = flags.format(model=tiny_model, task=task).split()
            assert run_multitask.main([*small, "--name", f"run-{number}", *words]) == 0, flags
    return calls


@pytest.mark.parametrize("file", LESSON_FILES)
def test_a_run_with_readable_formulas_reaches_each_function(called, file):
    functions = functions_of(file)
    missing = [name for name, function in functions.items() if function.__code__ not in called]
    assert set(missing) == ELSEWHERE.get(file, set())
