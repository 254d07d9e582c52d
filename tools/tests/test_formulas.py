"""tools/benchmarks/formulas.py and table_readers.py: a branch is off, and a reading is judged."""

from __future__ import annotations

import minbert.dropout
from minbert import fast
from minbert.options import FP32_ONEDNN
from tools.benchmarks.formulas import BRANCHES, measure, without
from tools.benchmarks.table_readers import outcome


def test_a_branch_is_off_in_its_file_alone():
    with fast.switched(is_fast=True):
        with without(BRANCHES["dropout"]):
            assert not minbert.dropout.fast.is_on()
            assert BRANCHES["AdamW"].place.fast.is_on()
        assert minbert.dropout.fast is fast


def test_every_branch_is_measured(tmp_path):
    lines = []
    for precision in ("bf16", FP32_ONEDNN):
        lines += measure("tiny", precision, num_rounds=1, num_steps=1, folder=tmp_path)
    assert {line["branch"] for line in lines} == set(BRANCHES)
    assert all(line["least"] <= line["saved"] <= line["most"] < 1 for line in lines)


def test_a_reading_is_right_refused_or_wrong_in_silence(tmp_path):
    rows = [("a1", "fine", "3")]

    def refuse(path):
        raise ValueError(path)

    assert outcome(lambda path: rows, tmp_path, rows) == "right"
    assert outcome(refuse, tmp_path, rows) == "refused"
    assert outcome(lambda path: [("a1", "fine", "4")], tmp_path, rows) == "wrong in silence"
