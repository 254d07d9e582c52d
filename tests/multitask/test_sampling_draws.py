"""Which rows and places a sampler draws where it does not take all of them: each equally often, by chi-square."""

from collections import Counter

import pytest
from scipy.stats import chisquare

from multitask.sampling import joint, mt_dnn
from tests.lessons.test_samplers import (
    MAKE_BATCHES,
    NUM_BATCHES,
    NUM_ROWS,
    batches_of,
    rows_in,
    seeded,
)

NUM_EPOCHS = 2000
SAMPLERS = {
    "joint-smallest": lambda generator: joint(MAKE_BATCHES, generator, limit="smallest"),
    "mt-dnn, half": lambda generator: mt_dnn(MAKE_BATCHES, generator, {"para": 0.5}),
    "mt-dnn, one and a half": lambda generator: mt_dnn(MAKE_BATCHES, generator, {"para": 1.5}),
}


def chance_of_rows(sample) -> float:
    """That PARA's rows come so unevenly over many epochs, if each is drawn equally often.

    Rows within an epoch are drawn without replacement, which only makes counts more even than the law allows for.
    """
    generator, drawn = seeded(), Counter()
    for _ in range(NUM_EPOCHS):
        drawn.update(rows_in(batches_of("para", sample(generator))))
    assert set(drawn) == set(range(NUM_ROWS["para"]))
    return chisquare(list(drawn.values())).pvalue


@pytest.mark.parametrize("sample", SAMPLERS.values(), ids=SAMPLERS)
def test_every_row_is_drawn_equally_often(sample):
    assert chance_of_rows(sample) > 1e-4


def test_the_first_rows_of_a_file_would_be_noticed():
    def leaning(generator):
        steps = joint(MAKE_BATCHES, generator, limit="smallest")
        return [*steps, [("para", [0])]]

    assert chance_of_rows(leaning) < 1e-4, "the negative control: row 0 once more in each epoch"


def test_mt_dnn_puts_a_task_at_every_place_equally_often():
    """At each of an epoch's 14 places PARA stands in 9 of 14 epochs."""
    generator, places = seeded(), Counter()
    for _ in range(NUM_EPOCHS):
        places.update(
            place
            for place, ((name, _),) in enumerate(mt_dnn(MAKE_BATCHES, generator))
            if name == "para"
        )
    assert chisquare([places[place] for place in range(sum(NUM_BATCHES.values()))]).pvalue > 1e-4
