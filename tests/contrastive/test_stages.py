"""contrastive/stage.py, every method as a stage: it runs, and it resumes to the same bits."""

import copy
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

from contrastive.presets import METHODS
from minbert.pooling import check_pooling
from minbert.training.loop import fit
from minbert.training.stage import plan_chain, run_chain
from tests.multitask.test_stage import differ
from tests.toy_job import Kill, killed_at
from tests.toy_stages import FAST


def bits(encoder) -> dict[str, bytes]:
    return {name: tensor.numpy().tobytes() for name, tensor in encoder.state_dict().items()}


# --- from start to end ----------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_a_stage_moves_the_encoder_and_keeps_it(make_stages, method, tmp_path):
    (stage,) = make_stages(method, pooling="cls" if method.startswith("sg") else "mean")
    start = copy.deepcopy(stage.encoder.state_dict())
    quality, seconds = replace(stage, keeps_better=False).train(
        is_resumed=False
    )  # what was trained, even if worse
    assert (
        seconds > 0 and quality["settings"]["batch_size"] == 8 and "alignment" in quality["after"]
    )
    check_pooling(tmp_path / "run" / "encoder", stage.pooling)
    moved = {
        name.split(".")[0]
        for name, tensor in stage.encoder.state_dict().items()
        if not torch.equal(tensor, start[name])
    }
    assert "layers" in moved and ("embeddings" in moved) == (not method.startswith("sg"))
    names = load_file(tmp_path / "run" / "encoder" / "model.safetensors")
    assert len(names) == len(start), "no projection, second copy, scale or order is handed on"
    found = {"ct": {"Spearman of the first copy", "Spearman of the second copy"}}
    found["ct-in-batch"] = {*found["ct"], "scale that learned"}
    assert set(quality["found"]) == found.get(method, set())


@pytest.mark.parametrize("method", ["sg", "sg-opt"])
def test_the_guide_stays_where_the_stage_began(make_stages, method):
    (stage,) = make_stages(method, pooling="cls")
    model, start = stage.job.model, bits(stage.encoder)
    stage.begin()
    seen = []
    model.guides[0].register_forward_pre_hook(lambda module, inputs: seen.append(module.training))
    fit(
        replace(stage.job, evaluate=lambda: {"spearman": float(len(seen))})
    )  # the last step is the best
    assert seen and not any(seen), "F is never in training mode"
    assert bits(model.guides[0]) == start
    frozen = {name for name in start if bits(stage.encoder)[name] == start[name]}
    assert frozen == {
        name for name in start if name.startswith(("embeddings.", "pooler."))
    }  # [CLS] has no pooler


def test_the_better_copy_goes_on(make_stages, monkeypatch):
    """The second copy is made the better one by what judges them."""
    (stage,) = make_stages("ct")
    model = stage.job.model
    stage.begin()
    fit(stage.job)
    copies = {name: bits(each) for name, each in model.copies().items()}
    assert copies["first"] != copies["second"], "they are independent"
    found = stage.close()
    best = max(("first", "second"), key=lambda name: found[f"Spearman of the {name} copy"])
    assert bits(stage.encoder) == copies[best]
    assert found[f"Spearman of the {best} copy"] == stage.quality()["spearman"]
    for winner, better in {"first": model.encoder, "second": model.second}.items():
        stage.encoder.load_state_dict(
            {name: value + 1 for name, value in model.second.state_dict().items()}
        )
        expected = bits(better)
        with monkeypatch.context() as patch:
            patch.setattr(
                "contrastive.stage.sts_quality",
                lambda judged, *_, best=better: {"spearman": float(judged is best)},
            )
            stage.close()
        assert bits(stage.encoder) == expected, f"the {winner} copy is the better one"


def test_contrastive_tension_judges_both_copies(make_stages):
    (stage,) = make_stages("ct", contrastive_evaluate_every=4)
    entry = fit(stage.job).history[-1]
    assert entry["spearman"] == max(entry["spearman_first"], entry["spearman_second"])


def test_what_the_papers_fix(make_stages):
    """Optimizer, rate, schedule, evaluation; the rates at 32 units are 24 times those at 768."""
    changes = dict.fromkeys(FAST, "auto")
    (tension,) = make_stages("ct", **changes)
    assert isinstance(tension.job.optimizer, torch.optim.RMSprop)
    group = tension.job.optimizer.param_groups[0]
    assert (group["alpha"], group["eps"], group["weight_decay"], group["lr"]) == (
        0.9,
        1e-7,
        0,
        pytest.approx(2.4e-4),
    )
    assert (tension.job.schedule, tension.job.warmup) == ("tension", 0.0)
    assert all(len(rows) == 32 for ((_, rows),) in tension.job.plan(0, torch.Generator())[:-1])
    (guided,) = make_stages("sg-opt", **changes)
    assert guided.job.optimizer.param_groups[0]["betas"] == (0.9, 0.9)
    assert (guided.job.patience, guided.job.warmup) == (10, 0.1)
    num_steps = len(guided.job.plan(0, torch.Generator()))
    assert guided.job.evaluations_per_epoch == -(-num_steps // 50)
    (softmax,) = make_stages("bsc", bsc_temperature_lr=1e-3, **changes)
    rates = {
        id(p): (group["lr"], group["weight_decay"])
        for group in softmax.job.optimizer.param_groups
        for p in group["params"]
    }
    assert rates[id(softmax.job.model.scale)] == (1e-3, 0.0)
    assert softmax.job.epochs == 5


def test_supervised_epochs_end_with_the_other_tasks(make_stages):
    (stage,) = make_stages("simcse-supervised")
    tasks = [task for ((task, _),) in stage.job.plan(0, torch.Generator().manual_seed(0))]
    assert (
        tasks == ["simcse-supervised"] * 2 + ["sst"] * 2 + ["sts"] * 4
    )  # 16 pairs, 16 and 32 sentences, 8 a batch
    (stage,) = make_stages("simcse-supervised", unsupervised_too="none")
    tasks = [task for ((task, _),) in stage.job.plan(0, torch.Generator().manual_seed(0))]
    assert tasks == ["simcse-supervised"] * 2


# --- resume ---------------------------------------------------------------------------------------

RESUMED = {  # how a method is run where it is stopped, and before which step: some in the middle of a later epoch
    "simcse": ({"contrastive_batch_size": 16}, 3),
    "simcse-supervised": ({"contrastive_epochs": 2}, 11),
    "simcse-nli": ({}, 4),
    "mnr": ({"contrastive_epochs": 3, "contrastive_chunk": 5}, 6),
    "ct": ({"contrastive_max_length": 12}, 9),
    "ct-in-batch": ({}, 4),
    "bsc": ({"contrastive_epochs": 3, "bsc_temperature_lr": 1e-3}, 7),
    "sg": ({}, 4),
    "sg-opt": ({}, 4),
}
SHUFFLED = {
    f"bsc {kind}": (
        {"contrastive_epochs": 3, "bsc_shuffle": kind, "contrastive_temperature": 0.1},
        step,
    )
    for kind, step in (("knn", 7), ("cluster", 11))
}


@pytest.mark.parametrize("case", {**RESUMED, **SHUFFLED})
def test_a_killed_stage_goes_on_to_the_same_bits(make_stages, case):
    changes, step = {**RESUMED, **SHUFFLED}[case]
    method = case.split()[0]
    (undisturbed,) = make_stages(method, "undisturbed", **changes)
    expected, _ = undisturbed.train(is_resumed=False)
    (stopped,) = make_stages(method, "stopped", **changes)
    with pytest.raises(Kill):
        replace(stopped, job=killed_at(stopped.job, step)).train(is_resumed=False)
    (again,) = make_stages(method, "stopped", **changes)
    torch.manual_seed(12345)  # another process has drawn other numbers by now
    found, _ = again.train(is_resumed=True)
    assert found == expected and bits(again.encoder) == bits(undisturbed.encoder)
    has_projection = method in ("simcse", "simcse-supervised", "simcse-nli", "sg", "sg-opt")
    assert bool(undisturbed.projection.state_dict()) == has_projection
    assert (undisturbed.folder / "projection.safetensors").exists() == (
        has_projection and expected["is_kept"]
    )
    others = [stage.job.model.state_dict() for stage in (again, undisturbed)]
    assert not differ(*others), "the second copy, the scale and the order too"


@pytest.mark.parametrize("chain", ["ct,sg-opt", "bsc,ct"])
def test_a_chain_killed_in_its_second_stage(make_stages, chain, tmp_path):
    """Copies are taken from what the first stage left, also where that one is read from disk."""
    undisturbed = make_stages(chain, "undisturbed", contrastive_epochs=1)
    expected, _ = run_chain(plan_chain(undisturbed, []), is_resumed=False)
    first, second = make_stages(chain, "stopped", contrastive_epochs=1)
    with pytest.raises(Kill):
        run_chain(
            [(first, None), (replace(second, job=killed_at(second.job, 5)), None)], is_resumed=False
        )
    again = make_stages(chain, "stopped", contrastive_epochs=1)
    planned = plan_chain(again, [])
    assert [bool(found) for _, found in planned] == [True, False]
    assert run_chain(planned, is_resumed=True)[0] == expected
    assert bits(again[1].encoder) == bits(undisturbed[1].encoder)
