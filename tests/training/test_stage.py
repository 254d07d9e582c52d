"""minbert/training/stage.py: a chain of stages, what of it is reused, and what a damaged folder does."""

import json
from dataclasses import dataclass, replace

import pytest
import torch

from minbert import AdamW, BertModel, BertTokenizer
from minbert.training.job import Job
from minbert.training.stage import (
    STAGE_FILE,
    Stage,
    encoder_fingerprint,
    plan_chain,
    run_chain,
    stage_fingerprint,
)


@dataclass
class Ids:
    input_ids: torch.Tensor
    ids: tuple[str, ...]


@pytest.fixture
def make_chain(tiny_model, tmp_path):
    """A function that builds the stages named on one encoder: each pulls the [CLS] vector towards a number.

    By default a stage is judged by how near it came.
    """

    def make(run: str, targets: dict[str, float], score: str = "closeness") -> list[Stage]:
        encoder = BertModel.from_pretrained(
            tiny_model, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
        )
        tokenizer = BertTokenizer.from_pretrained(tiny_model)
        start, stages = encoder_fingerprint(encoder, tokenizer), []
        for number, (name, target) in enumerate(targets.items()):

            def value() -> torch.Tensor:
                return encoder(torch.tensor([[2, 9, 3]])).last_hidden_state[0, 0, 0]

            def loss(task, batch, target=target, value=value) -> torch.Tensor:
                return (value() - target).square()

            def quality(target=target, value=value) -> dict[str, float]:
                with torch.no_grad():
                    return {"value": float(value()), "closeness": -abs(float(value()) - target)}

            job = Job(
                name=name,
                folder=tmp_path / run / "checkpoint" / name,
                model=encoder,
                optimizer=AdamW(encoder.parameters(), lr=0.01),
                plan=lambda *_: [[("x", [0])]] * 3,
                load=lambda *_: Ids(torch.zeros(1, 3), ("0",)),
                loss=loss,
                evaluate=quality,
                score=score,
                epochs=1,
                device=torch.device("cpu"),
                precision="fp32",
                seed=0,
            )
            start = stage_fingerprint(start, {"target": target}, [])
            folder = "encoder" if number == len(targets) - 1 else f"encoder-{name}"
            stages.append(
                Stage(
                    job,
                    encoder,
                    tokenizer,
                    "mean",
                    quality,
                    "value",
                    tmp_path / run / folder,
                    start,
                )
            )
        return stages

    return make


def folders_of(tmp_path):
    return sorted(tmp_path.glob("*/encoder*"))


def weights_of(stage: Stage) -> dict[str, bytes]:
    return {name: tensor.numpy().tobytes() for name, tensor in stage.encoder.state_dict().items()}


def test_a_chain_runs_in_order_on_one_encoder(make_chain, tmp_path):
    stages = make_chain("one", {"up": 3.0, "down": -3.0})
    qualities, seconds = run_chain(plan_chain(stages, []), is_resumed=False)
    assert list(qualities) == ["up", "down"] and seconds > 0
    values = [
        qualities[name][when]["value"] for name in ("up", "down") for when in ("before", "after")
    ]
    assert values[0] < values[1] == values[2] > values[3]  # the second starts where the first ends
    assert all(quality["is_kept"] for quality in qualities.values())
    assert [path.name for path in folders_of(tmp_path)] == ["encoder", "encoder-up"]
    assert weights_of(stages[1]) == {
        name: tensor.numpy().tobytes()
        for name, tensor in BertModel.from_pretrained(tmp_path / "one" / "encoder")
        .state_dict()
        .items()
    }


def test_a_stage_counts_once_all_of_it_is_written(make_chain, tmp_path, monkeypatch):
    """Killed while the encoder is written, or while what opens it is."""
    for number, (place, name) in enumerate(
        ((BertModel, "save_pretrained"), (BertTokenizer, "save_pretrained"))
    ):
        (stage,) = make_chain(str(number), {"up": 3.0})
        with monkeypatch.context() as patch:
            patch.setattr(place, name, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                stage.train(is_resumed=False)
        assert not (stage.folder / STAGE_FILE).exists() and stage.reusable([stage.folder]) is None


def test_the_projection_of_a_start_that_is_kept_is_not_stored(make_chain):
    for number, is_kept in enumerate((True, False)):
        (stage,) = make_chain(str(number), {"up": 3.0})
        stage = replace(stage, projection=torch.nn.Linear(2, 2))
        stage.job.folder.mkdir(parents=True)
        stage.write({"is_kept": is_kept})
        assert (stage.folder / "projection.safetensors").exists() == is_kept


def test_an_encoder_that_got_worse_is_not_handed_on(make_chain, tmp_path, capsys):
    stages = make_chain(
        "one", {"down": -3.0, "up": 3.0}, score="value"
    )  # judged by its value, "down" is a loss
    start = weights_of(stages[0])
    qualities, _ = run_chain(plan_chain(stages[:1], []), is_resumed=False)
    assert qualities["down"]["after"]["value"] < qualities["down"]["before"]["value"]
    assert not qualities["down"]["is_kept"] and weights_of(stages[0]) == start
    assert (
        "its value is worse, so the next stage begins where this one began"
        in capsys.readouterr().out
    )
    stored = BertModel.from_pretrained(tmp_path / "one" / "encoder-down").state_dict()
    assert {name: tensor.numpy().tobytes() for name, tensor in stored.items()} == start
    again = make_chain("two", {"down": -3.0, "up": 3.0}, score="value")
    reused, _ = run_chain(plan_chain(again[:1], folders_of(tmp_path)), is_resumed=False)
    assert reused == qualities and weights_of(again[0]) == start
    qualities, _ = run_chain(plan_chain(stages[1:], []), is_resumed=False)
    assert qualities["up"]["is_kept"] and weights_of(stages[1]) != start


def test_less_can_be_better_and_worse_can_be_asked_for(make_chain, capsys):
    (stage,) = make_chain("one", {"down": -3.0}, score="-value").copy()
    qualities, _ = run_chain([(stage, None)], is_resumed=False)
    assert (
        qualities["down"]["is_kept"]
        and qualities["down"]["after"]["value"] < qualities["down"]["before"]["value"]
    )
    (up,) = make_chain("two", {"up": 3.0}, score="-value")
    start = weights_of(up)
    assert (
        not run_chain([(up, None)], is_resumed=False)[0]["up"]["is_kept"]
        and weights_of(up) == start
    )
    assert "its value is worse" in capsys.readouterr().out
    (kept,) = make_chain("three", {"up": 3.0}, score="-value")
    assert run_chain([(replace(kept, keeps_better=False), None)], is_resumed=False)[0]["up"][
        "is_kept"
    ]
    assert weights_of(kept) != start and "is worse" not in capsys.readouterr().out


def test_an_encoder_that_is_as_good_as_its_start_is_handed_on(make_chain):
    (stage,) = make_chain("one", {"up": 3.0})
    start, level = weights_of(stage), lambda: {"closeness": 0.5}
    found, _ = replace(stage, quality=level, job=replace(stage.job, evaluate=level)).train(
        is_resumed=False
    )
    assert found["is_kept"] and weights_of(stage) != start


def test_the_longest_finished_part_of_a_chain_is_reused(make_chain, tmp_path, capsys):
    first = make_chain("one", {"up": 3.0, "down": -3.0})
    qualities, _ = run_chain(plan_chain(first, []), is_resumed=False)
    whole = plan_chain(make_chain("two", {"up": 3.0, "down": -3.0}), folders_of(tmp_path))
    assert [found for _, found in whole] == [
        tmp_path / "one" / "encoder-up",
        tmp_path / "one" / "encoder",
    ]
    capsys.readouterr()
    assert run_chain(whole, is_resumed=False) == (qualities, 0.0) and weights_of(
        whole[1][0]
    ) == weights_of(first[1])
    assert f"down: encoder reused from {tmp_path / 'one' / 'encoder'}" in capsys.readouterr().out
    other = plan_chain(make_chain("three", {"up": 3.0, "down": -2.0}), folders_of(tmp_path))
    assert [(stage.job.name, bool(found)) for stage, found in other] == [
        ("up", True),
        ("down", False),
    ]
    turned = plan_chain(make_chain("four", {"down": -3.0, "up": 3.0}), folders_of(tmp_path))
    assert [found for _, found in turned] == [None, None]  # the same stages from other starts


def test_what_comes_before_a_finished_stage_is_not_trained(make_chain, tmp_path):
    run_chain(plan_chain(make_chain("one", {"up": 3.0, "down": -3.0}), []), is_resumed=False)
    (tmp_path / "one" / "encoder-up" / STAGE_FILE).unlink()
    chain = plan_chain(make_chain("two", {"up": 3.0, "down": -3.0}), folders_of(tmp_path))
    assert [stage.job.name for stage, _ in chain] == ["down"] and chain[0][1]


def test_what_other_code_trained_is_trained_anew_but_for_the_runs_own(make_chain, tmp_path):
    """A loss that was edited gives another encoder; a run that was begun before the edit goes on with what it has."""
    run_chain(
        plan_chain([replace(stage, code="old") for stage in make_chain("one", {"up": 3.0})], []),
        False,
    )
    (other,) = make_chain("two", {"up": 3.0})
    assert replace(other, code="old").reusable(folders_of(tmp_path)) == tmp_path / "one" / "encoder"
    assert replace(other, code="new").reusable(folders_of(tmp_path)) is None
    (own,) = make_chain("one", {"up": 3.0})
    assert replace(own, code="new").reusable([own.folder]) == own.folder


def test_another_number_of_processes_makes_another_encoder(monkeypatch):
    """Each draws dropout masks of its own."""
    one = stage_fingerprint("start", {"lr": 1}, ("row",))
    monkeypatch.setattr("minbert.training.stage.processes.count", lambda: 2)
    assert stage_fingerprint("start", {"lr": 1}, ("row",)) != one


@pytest.mark.parametrize("content", ["", "{", "[]", "null", json.dumps({"seconds": 1})])
def test_a_damaged_folder_is_no_candidate(make_chain, tmp_path, content):
    stages = make_chain("one", {"up": 3.0})
    run_chain(plan_chain(stages, []), is_resumed=False)
    (tmp_path / "one" / "encoder" / STAGE_FILE).write_text(content, encoding="utf-8")
    assert stages[0].reusable([tmp_path / "absent", tmp_path / "one" / "encoder"]) is None


def test_a_stage_begins_and_closes_around_its_job(make_chain):
    """Copies are made before anything is measured; what `close` leaves in the encoder is what counts and is kept."""
    (stage,) = make_chain("one", {"up": 3.0})
    order, start = [], weights_of(stage)

    def begin():
        assert weights_of(stage) == start
        order.append("begin")

    def close():
        order.append("close")
        with torch.no_grad():
            stage.encoder.layers[-1].feed_forward_norm.bias[0] = 9.0
        return {"score of the copy": 0.5}

    def quality():
        order.append("quality")
        return stage.quality()

    changed = replace(stage, begin=begin, close=close, quality=quality, settings={"lr": 0.25})
    found, _ = changed.train(is_resumed=False)
    assert order == ["begin", "quality", "close", "quality"]
    assert found["found"] == {"score of the copy": 0.5} and found["settings"] == {"lr": 0.25}
    assert found["after"]["value"] > 5 and "score of the copy: 0.5000" in changed.table(found)
    again = replace(stage, settings={"lr": 0.25})
    assert again.reuse(stage.folder)[0] == found
