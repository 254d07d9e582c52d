"""What a course hands out: this clone without its history and without the answers. `python -m teaching.handout DIR`.

Of each exercise the bodies of some functions are taken out, their signatures and docstrings stay; where another
function is the answer by another name, it calls what the student writes. docs/teaching.md says how to use it.
"""

from __future__ import annotations

import argparse
import ast
import shutil
import subprocess
import sys
from pathlib import Path

from minbert.commands.ending import exit_code
from minbert.commands.paths import check_writable, is_free

ROOT = Path(__file__).resolve().parent.parent
YOURS = 'raise NotImplementedError("{name} is not written yet")  # yours to write'
CALLS = "return attention(query, key, value, mask_bias, dropout_probability, training)"
LOOPS = "for parameter in parameters:\n    self.update(parameter, group)"
EXERCISES: dict[str, tuple[str, dict[str, str], str]] = {  # file, new bodies by function, the tests
    "attention": (
        "minbert/attention.py",
        {
            "attention": YOURS,
            "fused_attention": CALLS,
            "mask_to_bias": YOURS,
            "MultiHeadAttention.forward": YOURS,
        },
        "tests/lessons/test_attention.py",
    ),
    "optimizer": (
        "minbert/optimizer.py",
        {"AdamW.update": YOURS, "AdamW.update_fused": LOOPS},
        "tests/lessons/test_optimizer.py",
    ),
    "layers": (
        "minbert/bert.py",
        {"BertEmbeddings.forward": YOURS, "FeedForward.forward": YOURS, "BertLayer.forward": YOURS},
        "tests/lessons/test_layers.py",
    ),
    "schedules": (
        "minbert/schedule.py",
        {"linear": YOURS, "cosine": YOURS},
        "tests/lessons/test_schedules.py",
    ),
    "masking": (
        "minbert/pretraining/mlm.py",
        {"mask_tokens": YOURS},
        "tests/lessons/test_masking.py",
    ),
    "losses": (
        "multitask/losses.py",
        {"sentiment_loss": YOURS, "paraphrase_loss": YOURS, "similarity_loss": YOURS},
        "tests/lessons/test_task_losses.py",
    ),
    "contrastive": (
        "contrastive/losses.py",
        {"info_nce": YOURS},
        "tests/lessons/test_contrastive_losses.py",
    ),
    "samplers": (
        "multitask/sampling.py",
        {"joint": YOURS, "mt_dnn": YOURS},
        "tests/lessons/test_samplers.py",
    ),
    "surgery": (
        "multitask/surgery.py",
        {"pcgrad": YOURS, "pcgrad_weights": YOURS},
        "tests/lessons/test_surgery.py",
    ),
}
LEFT_OUT = (
    "tests/teaching/test_student_mistakes.py",
    "tests/teaching/test_student_losses.py",
    "teaching/handout.py",
    "tests/teaching/test_handout.py",
)  # the first two hold whole answers


def functions(tree: ast.AST, prefix: str = "") -> dict[str, ast.FunctionDef]:
    """The functions of a module and the methods of its classes, by name, as "AdamW.update"."""
    found = {}
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            found[prefix + node.name] = node
        elif isinstance(node, ast.ClassDef):
            found |= functions(node, f"{node.name}.")
    return found


def without_answers(source: str, bodies: dict[str, str]) -> str:
    """The source with new bodies for these functions, behind their docstrings; KeyError for a name not in it."""
    found, lines = functions(ast.parse(source)), source.splitlines()
    for name in sorted(
        bodies, key=lambda name: found[name].lineno, reverse=True
    ):  # from the end: places stay right
        node = found[name]
        rest = node.body[1:] if ast.get_docstring(node) is not None else node.body
        lines[rest[0].lineno - 1 : node.end_lineno] = [
            " " * rest[0].col_offset + line for line in bodies[name].format(name=name).splitlines()
        ]
    return "\n".join(lines) + "\n"


def tracked() -> list[str]:
    """The files of the clone by git's list; ValueError where there is none."""
    if not (ROOT / ".git").exists():  # else git would look for a clone further up
        raise ValueError(
            f"{ROOT} is no clone: what belongs to it is what git tracks. Clone the repository."
        )
    result = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if result.returncode:
        raise ValueError(f"git cannot list the files of {ROOT}: {result.stderr.strip()}")
    return list(filter(None, result.stdout.split("\0")))


def hand_out(folder: Path, exercises: list[str]) -> None:
    """Write what git tracks into a new folder, the answers of the exercises taken out."""
    for name in tracked():
        if name not in LEFT_OUT:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    for exercise in exercises:
        name, bodies, _ = EXERCISES[exercise]
        source = (folder / name).read_text(encoding="utf-8")
        (folder / name).write_text(without_answers(source, bodies), encoding="utf-8")


@exit_code("python -m teaching.handout")
def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m teaching.handout",
        allow_abbrev=False,
        description="The clone without its history and without the answers.",
    )
    parser.add_argument("folder", type=Path, metavar="DIR", help="a new folder")
    parser.add_argument(
        "--exercises",
        nargs="+",
        choices=tuple(EXERCISES),
        default=list(EXERCISES)[:3],
        metavar="NAME",
        help=f"some of {', '.join(EXERCISES)}; default: the first three",
    )
    given = parser.parse_args(arguments)
    if not is_free(given.folder):
        raise ValueError(
            f"{given.folder} is there already, and holds something. Give a new folder."
        )
    check_writable(given.folder)
    hand_out(given.folder, given.exercises)
    for exercise in given.exercises:
        name, bodies, test = EXERCISES[exercise]
        own = ", ".join(function for function, body in bodies.items() if body == YOURS)
        print(f"{exercise}: {own} in {name}; .venv/bin/python -m pytest -x {test}")


if __name__ == "__main__":
    sys.exit(main())
