"""Tiny data with CFIMDB, and the four runs of part 1 on it."""

from __future__ import annotations

import shutil

import pytest


@pytest.fixture(scope="session")
def course_data(sample_data, tmp_path_factory):
    """The nine files of sample_data, and CFIMDB: rows of SST with the labels 0 and 1."""
    folder = tmp_path_factory.mktemp("with-cfimdb") / "course"
    shutil.copytree(sample_data, folder)
    for ending in ("train", "dev", "test-student"):
        header, *rows = (folder / f"ids-sst-{ending}.csv").read_text("utf-8").splitlines()
        has_label = ending != "test-student"
        kept = []
        for row in rows:
            cells = row.split("\t")
            if has_label:
                cells[-1] = str(int(int(cells[-1]) > 2))
            kept.append("\t".join(cells).replace(cells[1], f"c{cells[1][1:]}", 1))
        text = "\n".join([header, *kept]) + "\n"
        (folder / f"ids-cfimdb-{ending}.csv").write_text(text, "utf-8")
    return folder


@pytest.fixture(scope="session")
def part1(course_data, tiny_model, tmp_path_factory):
    """The folder of a finished part 1, and the flags that it was started with."""
    import run_multitask
    from course.part1 import main

    def run_here(command, log):
        return run_multitask.main(command[2:])

    out = tmp_path_factory.mktemp("part1") / "out"
    flags = ["--data-dir", str(course_data), "--out", str(out), "--model", str(tiny_model)]
    flags += ["--epochs", "1", "--batch_size", "32", "--precision", "fp32"]
    flags += ["--score-train", "9"]
    with pytest.MonkeyPatch.context() as patch:
        # In this process: four new ones would import torch.
        patch.setattr("course.four_runs.run_process", run_here)
        assert main(flags) == 0
    return out, flags


# Scripts of students. The tests run them; pytest must not import them.
collect_ignore_glob = ["scripts/*"]
