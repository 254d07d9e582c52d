"""minbert/training/stage.py: a chain of stages, which of them are reused, and damaged folders.

test_code_version.py shows that an edit of the code keeps a stage from being reused.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import pytest
import torch

from minbert import AdamW, BertModel, BertTokenizer
from minbert.training.job import Job, TaskBatch
from minbert.training.stage import (
    STAGE_FILE,
    ChainStep,
    Stage,
    encoder_fingerprint,
    plan_chain,
    run_chain,
    stage_fingerprint,
)
from minbert.training.step_log import LOG_FILE, StepLog, read_log


@dataclass
class Ids:
    """A batch of the toy stages, which read nothing of it."""

    input_ids: torch.Tensor
    ids: tuple[str, ...]


@pytest.fixture
def make_chain(tiny_model, tmp_path):
    """A function that builds stages on one encoder. Each pulls the [CLS] vector towards a number.

    targets: the number of each stage, by its name. By default the score that selects is how near
    the vector came.
    """

    def make(run: str, targets: dict[str, float], score: str = "closeness") -> list[Stage]:
        encoder = BertModel.from_pretrained(
            tiny_model, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
        )
        tokenizer = BertTokenizer.from_pretrained(tiny_model)
        start = encoder_fingerprint(encoder, tokenizer)
        stages: list[Stage] = []
        for name, target in targets.items():
            is_last = len(stages) == len(targets) - 1
            pull = Pull(encoder, target)
            job = Job(
                name=name,
                folder=tmp_path / run / "checkpoint" / name,
                model=encoder,
                optimizer=AdamW(encoder.parameters(), lr=0.01),
                plan=lambda *_: [[TaskBatch("x", [0])]] * 3,
                load=lambda *_: Ids(torch.zeros(1, 3), ("0",)),
                loss=pull.loss,
                evaluate=pull.quality,
                score=score,
                epochs=1,
                device=torch.device("cpu"),
                precision="fp32",
                seed=0,
            )
            start = stage_fingerprint(start, {"target": target}, [])
            folder = tmp_path / run / ("encoder" if is_last else f"encoder-{name}")
            stage = Stage(job, encoder, tokenizer, "mean", pull.quality, "value", folder, start)
            stages.append(stage)
        return stages

    return make


@dataclass
class Pull:
    """The loss and the scores of a toy stage."""

    encoder: BertModel
    target: float

    def value(self) -> torch.Tensor:
        """The first unit of the [CLS] vector."""
        return self.encoder(torch.tensor([[2, 9, 3]])).last_hidden_state[0, 0, 0]

    def loss(self, task, batch) -> torch.Tensor:
        return (self.value() - self.target).square()

    def quality(self) -> dict[str, float]:
        with torch.no_grad():
            value = float(self.value())
        return {"value": value, "closeness": -abs(value - self.target)}


def folders_of(tmp_path):
    """The folders of all encoders."""
    return sorted(tmp_path.glob("*/encoder*"))


def bytes_of(encoder: BertModel) -> dict[str, bytes]:
    """The weights of an encoder, to the bit."""
    return {name: tensor.numpy().tobytes() for name, tensor in encoder.state_dict().items()}


def weights_of(stage: Stage) -> dict[str, bytes]:
    """The weights of a stage's encoder as it is now, to the bit."""
    return bytes_of(stage.encoder)


def test_a_chain_runs_in_order_on_one_encoder(make_chain, tmp_path):
    stages = make_chain("one", {"up": 3.0, "down": -3.0})
    qualities, seconds = run_chain(plan_chain(stages, []), is_resumed=False)
    assert list(qualities) == ["up", "down"] and seconds > 0
    values = []
    for name in ("up", "down"):
        values += [qualities[name]["before"]["value"], qualities[name]["after"]["value"]]
    assert values[0] < values[1] == values[2] > values[3]  # the second starts where the first ends
    assert all(quality["is_kept"] for quality in qualities.values())
    assert [path.name for path in folders_of(tmp_path)] == ["encoder", "encoder-up"]
    stored = BertModel.from_pretrained(tmp_path / "one" / "encoder")
    assert weights_of(stages[1]) == bytes_of(stored)


def test_a_stage_counts_once_all_of_it_is_written(make_chain, tmp_path, monkeypatch):
    """Killed while the encoder is written, or while what opens it is."""

    def stop(*_):
        raise KeyboardInterrupt

    for number, writer in enumerate((BertModel, BertTokenizer)):
        (stage,) = make_chain(str(number), {"up": 3.0})
        with monkeypatch.context() as patch:
            patch.setattr(writer, "save_pretrained", stop)
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
    # By its value, "down" is a loss.
    stages = make_chain("one", {"down": -3.0, "up": 3.0}, score="value")
    start = weights_of(stages[0])
    qualities, _ = run_chain(plan_chain(stages[:1], []), is_resumed=False)
    assert qualities["down"]["after"]["value"] < qualities["down"]["before"]["value"]
    assert not qualities["down"]["is_kept"] and weights_of(stages[0]) == start
    message = "its value is worse, so the next stage begins where this one began"
    assert message in capsys.readouterr().out
    assert bytes_of(BertModel.from_pretrained(tmp_path / "one" / "encoder-down")) == start
    again = make_chain("two", {"down": -3.0, "up": 3.0}, score="value")
    reused, _ = run_chain(plan_chain(again[:1], folders_of(tmp_path)), is_resumed=False)
    assert reused == qualities and weights_of(again[0]) == start
    qualities, _ = run_chain(plan_chain(stages[1:], []), is_resumed=False)
    assert qualities["up"]["is_kept"] and weights_of(stages[1]) != start


def test_less_can_be_better_and_worse_can_be_asked_for(make_chain, capsys):
    (stage,) = make_chain("one", {"down": -3.0}, score="-value")
    quality = run_chain([ChainStep(stage, None)], is_resumed=False).qualities["down"]
    assert quality["is_kept"] and quality["after"]["value"] < quality["before"]["value"]

    (up,) = make_chain("two", {"up": 3.0}, score="-value")
    start = weights_of(up)
    quality = run_chain([ChainStep(up, None)], is_resumed=False).qualities["up"]
    assert not quality["is_kept"] and weights_of(up) == start
    assert "its value is worse" in capsys.readouterr().out

    (kept,) = make_chain("three", {"up": 3.0}, score="-value")
    chain = [ChainStep(replace(kept, keeps_better=False), None)]
    assert run_chain(chain, is_resumed=False).qualities["up"]["is_kept"]
    assert weights_of(kept) != start and "is worse" not in capsys.readouterr().out


def test_an_encoder_that_is_as_good_as_its_start_is_handed_on(make_chain):
    (stage,) = make_chain("one", {"up": 3.0})
    start = weights_of(stage)
    level = lambda: {"closeness": 0.5}  # noqa: E731
    changed = replace(stage, quality=level, job=replace(stage.job, evaluate=level))
    assert changed.train(is_resumed=False).quality["is_kept"] and weights_of(stage) != start


def test_the_longest_finished_part_of_a_chain_is_reused(make_chain, tmp_path, capsys):
    first = make_chain("one", {"up": 3.0, "down": -3.0})
    qualities, _ = run_chain(plan_chain(first, []), is_resumed=False)
    one = tmp_path / "one"
    chain = plan_chain(make_chain("two", {"up": 3.0, "down": -3.0}), folders_of(tmp_path))
    assert [step.reused for step in chain] == [one / "encoder-up", one / "encoder"]
    capsys.readouterr()
    assert run_chain(chain, is_resumed=False) == (qualities, 0.0)
    assert weights_of(chain[1].stage) == weights_of(first[1])
    assert f"down: encoder reused from {one / 'encoder'}" in capsys.readouterr().out

    other = plan_chain(make_chain("three", {"up": 3.0, "down": -2.0}), folders_of(tmp_path))
    assert [step.stage.job.name for step in other] == ["up", "down"]
    assert [step.reused is not None for step in other] == [True, False]

    # The same stages from other starts.
    turned = plan_chain(make_chain("four", {"down": -3.0, "up": 3.0}), folders_of(tmp_path))
    assert [step.reused for step in turned] == [None, None]


def test_what_comes_before_a_finished_stage_is_not_trained(make_chain, tmp_path):
    run_chain(plan_chain(make_chain("one", {"up": 3.0, "down": -3.0}), []), is_resumed=False)
    (tmp_path / "one" / "encoder-up" / STAGE_FILE).unlink()
    chain = plan_chain(make_chain("two", {"up": 3.0, "down": -3.0}), folders_of(tmp_path))
    assert [step.stage.job.name for step in chain] == ["down"] and chain[0].reused


def test_what_other_code_trained_is_trained_anew_but_for_the_runs_own(make_chain, tmp_path):
    """An edited loss gives another encoder. A run that began before goes on with its own."""
    (first,) = make_chain("one", {"up": 3.0})
    run_chain(plan_chain([replace(first, code="old")], []), is_resumed=False)
    (other,) = make_chain("two", {"up": 3.0})
    assert replace(other, code="old").reusable(folders_of(tmp_path)) == tmp_path / "one" / "encoder"
    assert replace(other, code="new").reusable(folders_of(tmp_path)) is None
    (own,) = make_chain("one", {"up": 3.0})
    assert replace(own, code="new").reusable([own.folder]) == own.folder


def test_another_number_of_processes_makes_another_encoder(make_chain, tmp_path, monkeypatch):
    """Each draws dropout masks of its own. A finished stage of the run itself stays finished."""
    run_chain(plan_chain(make_chain("one", {"up": 3.0}), []), is_resumed=False)
    (other,) = make_chain("two", {"up": 3.0})
    (own,) = make_chain("one", {"up": 3.0})
    assert other.reusable(folders_of(tmp_path)) == own.folder
    monkeypatch.setattr("minbert.training.stage.processes.count", lambda: 2)
    assert other.reusable(folders_of(tmp_path)) is None
    assert own.reusable(folders_of(tmp_path)) == own.folder


def test_a_stage_that_a_sibling_finished_leaves_no_part_of_its_log(make_chain, tmp_path, capsys):
    """A run was stopped in it. Two of three rows would look like the whole stage."""
    (sibling,) = make_chain("one", {"up": 3.0})
    sibling.job.on_step = StepLog(tmp_path / "one").write
    run_chain([ChainStep(sibling, None)], is_resumed=False)
    assert [record.step for record in read_log(tmp_path / "one" / LOG_FILE)] == [1, 2, 3]

    lines = (tmp_path / "one" / LOG_FILE).read_text().splitlines(keepends=True)
    earlier = lines[1].replace("up,", "before,", 1)
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / LOG_FILE).write_text("".join([lines[0], earlier, *lines[1:3]]))
    (stage,) = make_chain("two", {"up": 3.0})
    run_chain(plan_chain([stage], [sibling.folder]), is_resumed=True)
    assert (tmp_path / "two" / LOG_FILE).read_text() == lines[0] + earlier
    said = capsys.readouterr().out
    assert f"up: the losses of its steps are in {tmp_path / 'one' / LOG_FILE}" in said


@pytest.mark.parametrize("content", ["", "{", "[]", "null", json.dumps({"seconds": 1})])
def test_a_damaged_folder_is_no_candidate(make_chain, tmp_path, content):
    stages = make_chain("one", {"up": 3.0})
    run_chain(plan_chain(stages, []), is_resumed=False)
    (tmp_path / "one" / "encoder" / STAGE_FILE).write_text(content, encoding="utf-8")
    assert stages[0].reusable([tmp_path / "absent", tmp_path / "one" / "encoder"]) is None


@pytest.mark.parametrize("name", ["model.safetensors", "vocab.txt", STAGE_FILE])
def test_a_damaged_encoder_is_named_and_trained_again(make_chain, tmp_path, capsys, name):
    (stage,) = make_chain("one", {"up": 3.0})
    run_chain(plan_chain([stage], []), is_resumed=False)
    folder = tmp_path / "one" / "encoder"
    assert stage.reusable([folder]) == folder
    content = bytearray((folder / name).read_bytes())
    content[-30] ^= 1
    (folder / name).write_bytes(content)
    assert stage.reusable([folder]) is None
    said = capsys.readouterr().out
    assert f"up: the encoder in {folder} is not reused" in said
    assert name in said or name == STAGE_FILE


def test_a_stage_begins_and_closes_around_its_job(make_chain):
    """Copies are made before anything is measured. The encoder counts as `close` leaves it."""
    (stage,) = make_chain("one", {"up": 3.0})
    order = []
    start = weights_of(stage)

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
    result = changed.train(is_resumed=False)
    assert order == ["begin", "quality", "close", "quality"]
    assert result.quality["found"] == {"score of the copy": 0.5}
    assert result.quality["settings"] == {"lr": 0.25}
    assert result.quality["after"]["value"] > 5
    assert "score of the copy: 0.5000" in changed.table(result.quality)
    again = replace(stage, settings={"lr": 0.25})
    assert again.reuse(stage.folder).quality == result.quality
