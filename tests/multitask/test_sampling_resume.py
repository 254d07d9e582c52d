"""Every sampler in the real loop, killed in mid-epoch: the resumed job loads the batches that were left."""

from dataclasses import replace
from functools import partial

import pytest

from minbert.training.loop import fit
from tests.lessons.test_samplers import NAMES, sampler, seeded, shuffled_batches
from tests.toy_job import Kill, killed_at, make_job

SAMPLERS = {name: sampler(name) for name in NAMES} | {
    "joint-smallest": sampler("joint", joint_limit="smallest"),
    "sequential, two epochs": sampler("sequential", epochs=2),
    "batch-round-robin-smallest": sampler("batch-round-robin", joint_limit="smallest"),
    "mt-dnn, weighted": sampler("mt-dnn", sampling_weights="para=1.5,sst=0.4"),
}


@pytest.mark.parametrize("sample", SAMPLERS.values(), ids=SAMPLERS)
@pytest.mark.parametrize("step", [2, 4, 6])
def test_stopped_in_mid_epoch_it_goes_on_with_the_batches_that_were_left(
    sample, step, tmp_path, no_fsync
):
    """What a killed and resumed job loads is what an undisturbed one loads, batch for batch."""
    make_batches = {"sst": partial(shuffled_batches, 6), "para": partial(shuffled_batches, 20)}
    heads = {"sst": "a", "para": "b"}

    def plan(epoch, generator):
        return [
            [(heads[name], batch) for name, batch in each]
            for each in sample(make_batches, generator, epoch)
        ]

    def run(folder, is_resumed: bool, stop: int | None = None) -> list[tuple[str, list[int]]]:
        job, seen = make_job(folder, plan=plan), []
        watched = replace(
            job, load=lambda task, rows: seen.append((task, list(rows))) or job.load(task, rows)
        )
        if stop is None:
            fit(watched, resume=is_resumed)
            return seen
        with pytest.raises(Kill):
            fit(killed_at(watched, stop), resume=is_resumed)
        return seen[: stop - 1]  # the last one was loaded and not learned

    expected = run(tmp_path / "whole", is_resumed=False)
    tasks_a_step = len(plan(0, seeded())[0])
    before = run(tmp_path / "stopped", False, (step - 1) * tasks_a_step + 1)
    assert (
        before + run(tmp_path / "stopped", True) == expected
        and len(expected) >= step * tasks_a_step
    )
