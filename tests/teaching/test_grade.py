"""teaching/grade.py: nobody gets points without the formula, and everybody who has it gets all."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from teaching import running
from teaching.calls import warm_up
from teaching.checks import CHECKS
from teaching.exercises import EXERCISES, released_body, without_answers
from teaching.grade import main
from teaching.grading import find_file
from teaching.grafting import ALLOWED, module_of
from teaching.running import FunctionResult, grade_function
from tests.teaching.answers import (
    BEFORE_HOSTILE,
    BEFORE_STYLES,
    FILE_OF,
    HOSTILE,
    ROOT,
    STYLES,
    released,
    student_file,
)


@pytest.fixture(scope="module", autouse=True)
def _warm():
    warm_up()


def grade(name: str, text: str) -> FunctionResult:
    clean = (ROOT / FILE_OF[name]).read_text(encoding="utf-8")
    return grade_function(name, clean, text, module_of(FILE_OF[name]))


def test_each_function_has_its_lists():
    assert ALLOWED.keys() == CHECKS.keys() == FILE_OF.keys()


# --- right and missing answers --------------------------------------------------------------------


@pytest.mark.parametrize("name", FILE_OF)
def test_the_released_answer_gets_all_points(name):
    result = grade(name, student_file(name, released(name)))
    assert result.checks == dict.fromkeys((check.name for check in CHECKS[name]), "")


@pytest.mark.parametrize(("name", "body"), STYLES)
def test_a_right_answer_in_another_style_gets_all_points(name, body):
    result = grade(name, student_file(name, body.strip(), BEFORE_STYLES))
    assert result.faults == []


def test_a_function_may_call_another_one_of_its_exercise():
    """The student's own: with a wrong `linear`, the `cosine` that calls it is wrong as well."""
    cosine = """
if step < num_warmup_steps:
    return warmup(step, num_warmup_steps)
return math.sin(math.pi / 2 * linear(step, num_steps, num_warmup_steps)) ** 2
"""
    text = student_file("cosine", cosine.strip())
    assert grade("cosine", text).share == 1
    wrong = without_answers(text, {"linear": "return 0.5"})
    assert grade("cosine", wrong).share == 0


def test_a_constant_and_a_static_method_of_the_student_are_read():
    body = released("AdamW.update")
    text = student_file("AdamW.update", f"self.nothing(ZERO)\n{body}", "ZERO = 0\n")
    method = "    @staticmethod\n    def nothing(number):\n        return number + 1\n\n"
    place = text.index("    def update(")
    assert grade("AdamW.update", text[:place] + method + text[place:]).share == 1
    # What a body could not compute is not run at the top, either.
    wrong = text.replace("ZERO = 0\n", "ZERO = int(0).__class__(0)\n")
    assert grade("AdamW.update", wrong[:place] + method + wrong[place:]).share == 0


def test_what_a_file_imports_is_what_a_body_may_look_up():
    """In each form of an import. What is not allowed is left out, so its name is not there."""
    imports = (
        "import math as m, numpy as np\n"
        "import torch.nn.functional as G\nimport torch.nn.functional\n"
        "from torch import nn as layers, no_such_name, save\nfrom math import *\nfrom . import x\n"
    )
    body = "return G.relu(hidden_states) + m.pi + layers.Identity()(hidden_states)"
    text = student_file("FeedForward.forward", body, imports)
    assert "NameError" not in str(grade("FeedForward.forward", text).checks)
    for word in ("np", "save", "no_such_name", "x", "floor"):
        text = student_file("FeedForward.forward", f"return {word}", imports)
        assert f"NameError: name '{word}'" in str(grade("FeedForward.forward", text).checks)


def test_a_decorator_is_a_part_of_the_function():
    """One that takes the gradients costs all points, and so does one that is not allowed."""
    text = student_file("attention", released("attention"))
    head = "def attention("
    checks = grade("attention", text.replace(head, f"@torch.no_grad()\n{head}")).checks
    assert all(checks.values()) and "does not require grad" in checks["values"]
    assert grade("attention", text.replace(head, f"@torch.compile\n{head}")).share == 0


@pytest.mark.parametrize("name", FILE_OF)
def test_a_blank_gets_no_point(name):
    blank = student_file(name, 'raise NotImplementedError("not written yet")')
    assert grade(name, blank).share == 0


def test_a_copy_of_a_loop_of_the_visible_tests_gets_no_point():
    """It has the right values, and no gradients. With tensors it would be another right answer."""
    source = (ROOT / "tests" / "lessons" / "test_attention.py").read_text(encoding="utf-8")
    body = released_body(source, "attention_by_loops").replace("bias[b, 0, 0, j].item()", "0")
    checks = grade("attention", student_file("attention", body)).checks
    assert all(checks.values())
    assert [text for text in checks.values() if "counts only where 'values' passes" in text]


# --- hostile answers ------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "body"), HOSTILE)
def test_a_hostile_answer_gets_no_point(name, body, monkeypatch):
    monkeypatch.setattr(running, "SECONDS", 1)
    assert grade(name, student_file(name, body, BEFORE_HOSTILE)).share == 0
    assert grade(name, student_file(name, body)).share == 0


def test_a_new_method_gives_no_access_to_what_has_its_name():
    """It may be called, and torch's function of the same name stays closed."""
    name = "MultiHeadAttention.forward"
    body = """
query, key, value = map(self.split_heads, self.project(hidden_states))
dropout = self.dropout_probability if self.training else 0.0
heads = OWNER.scaled_dot_product_attention(query, key, value, mask_bias, dropout)
return self.output(heads.transpose(1, 2).flatten(2))
""".strip()
    method = """    def scaled_dot_product_attention(self, query, key, value, mask_bias, dropout):
        return attention(query, key, value, mask_bias, dropout, True)

"""
    shares = []
    for owner in ("self", "F"):
        text = student_file(name, body.replace("OWNER", owner))
        place = text.index("    def forward(")
        shares.append(grade(name, text[:place] + method + text[place:]).share)
    assert shares == [1, 0]


@pytest.mark.parametrize(
    "text",
    ["", "def attention(:", "\0", "(" * 5000, "def attention(query): return query", "x = 1\n" * 9],
)
def test_a_file_that_is_no_answer(text):
    assert grade("attention", text).share == 0


def test_what_ran_before_a_crash_still_counts(monkeypatch):
    monkeypatch.setattr(running, "SECONDS", 2)
    body = "if mask_bias is not None:\n    while True:\n        pass\n" + released("attention")
    messages = grade("attention", student_file("attention", body)).checks
    assert messages["values"] == "" and "stopped after" in messages["mask"]


# --- the command ----------------------------------------------------------------------------------


def hand_in(folder: Path, *exercises: str) -> Path:
    """A folder with the files of some exercises as released."""
    for exercise in exercises:
        file = folder / EXERCISES[exercise].file
        file.parent.mkdir(parents=True, exist_ok=True)
        name = EXERCISES[exercise].to_write[0]
        file.write_text(student_file(name, released(name)), encoding="utf-8")
    return folder


def test_a_table_and_files(tmp_path, capsys):
    """The second student hands in nothing, and has none of the first one's points."""
    ann = hand_in(tmp_path / "ann", "schedules", "surgery")
    bob = tmp_path / "bob"
    bob.mkdir()
    chosen = ["--exercises", "schedules", "surgery"]
    table = tmp_path / "all.json"
    assert main([str(ann), str(bob), *chosen, "--json", str(table)]) == 0
    printed = capsys.readouterr().out
    assert "5/5" in printed and "15/15" in printed and "surgery.py is missing" in printed
    assert "no single file has its name" in printed
    stored = json.loads(table.read_text())
    assert stored[str(ann)]["score"] == 20 and stored[str(bob)]["score"] == 0

    results = tmp_path / "results.json"
    (ann / "multitask" / "surgery.py").write_text("no python")
    assert main([str(ann), *chosen, "--gradescope", str(results)]) == 0
    stored = json.loads(results.read_text())
    assert stored["score"] == 5
    assert sum(test["max_score"] for test in stored["tests"]) == 20
    assert "no Python" in stored["tests"][-1]["output"]


def test_a_file_is_found_by_its_name_and_a_link_is_not_followed(tmp_path):
    flat = hand_in(tmp_path / "flat", "losses")
    shutil.move(flat / "multitask" / "losses.py", flat / "losses.py")
    results = tmp_path / "results.json"
    flags = ["--exercises", "losses", "--gradescope", str(results)]
    assert main([str(flat), *flags]) == 0
    assert json.loads(results.read_text())["score"] == 10
    assert main([str(flat / "losses.py"), *flags]) == 0
    assert json.loads(results.read_text())["score"] == 10

    (flat / "losses.py").unlink()
    (flat / "losses.py").symlink_to(ROOT / "multitask" / "losses.py")
    assert main([str(flat), *flags]) == 0
    assert json.loads(results.read_text())["score"] == 0


def test_arguments_that_are_refused(tmp_path, capsys):
    assert main([str(tmp_path / "nobody")]) == 2
    assert "is not there" in capsys.readouterr().err
    assert main([str(tmp_path), str(tmp_path), "--gradescope", "x.json"]) == 2
    assert "exactly one STUDENT" in capsys.readouterr().err


def test_the_zip_grades_alone(tmp_path):
    """Unpacked in a folder of its own, it grades a student."""
    archive = tmp_path / "grader.zip"
    assert main(["--zip", str(archive), "--exercises", "schedules", "surgery"]) == 0
    source = tmp_path / "source"
    shutil.unpack_archive(archive, source)
    assert "--exercises schedules surgery" in (source / "run_autograder").read_text()
    # An old pip refuses a flag that it does not know, and skips such a variable.
    assert "pip install --" not in (source / "setup.sh").read_text()
    student = hand_in(tmp_path / "ann", "schedules", "surgery")
    command = [sys.executable, "-m", "teaching.grade", str(student), "--exercises", "surgery"]
    environment = {**os.environ, "PYTHONPATH": str(source)}
    command += ["--gradescope", "results.json"]
    subprocess.run(command, cwd=source, env=environment, check=True)
    assert json.loads((source / "results.json").read_text())["score"] == 15


def test_an_edited_formula_is_not_graded_by(tmp_path):
    """Until it is restored, as the message asks."""
    archive = tmp_path / "grader.zip"
    assert main(["--zip", str(archive), "--exercises", "schedules"]) == 0
    source = tmp_path / "source"
    shutil.unpack_archive(archive, source)
    student = hand_in(tmp_path / "ann", "schedules")
    command = [sys.executable, "-m", "teaching.grade", str(student), "--exercises", "schedules"]
    formula = source / "minbert" / "schedule.py"
    released_text = formula.read_text()
    results = []
    for text in (released_text.replace("math.cos(", "math.sin("), released_text):
        formula.write_text(text)
        environment = {**os.environ, "PYTHONPATH": str(source)}
        result = subprocess.run(
            command, cwd=source, env=environment, capture_output=True, text=True
        )
        results.append(result)
    refused, graded = results
    assert refused.returncode == 2 and "git restore minbert/schedule.py" in refused.stderr
    assert graded.returncode == 0 and "5/5" in graded.stdout


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (["minbert/optimizer.py", "old/minbert/optimizer.py"], "minbert/optimizer.py"),
        (["work/minbert/optimizer.py", ".venv/torch/optimizer.py"], "work/minbert/optimizer.py"),
        (["optimizer.py", "attention.py"], "optimizer.py"),
        (["a/minbert/optimizer.py", "b/minbert/optimizer.py"], None),
        (["a/optimizer.py", "b/optimizer.py"], None),
        (["attention.py"], None),
    ],
)
def test_the_file_of_a_student_is_taken_where_it_is_clear_which(
    tmp_path: Path, paths: list[str], expected: str | None
) -> None:
    for path in paths:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("")

    file = find_file(tmp_path, "minbert/optimizer.py")

    assert file == (None if expected is None else tmp_path / expected)
