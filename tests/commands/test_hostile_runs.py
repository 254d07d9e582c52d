"""Folders of runs that come from a stranger: nothing runs, nothing is written outside, one line.

Each case changes one thing in a finished run, as someone would who wants to harm its reader. The
folder has no checksums, because whoever edits it can write them anew.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import run_multitask
from course import predict as course_predict
from multitask import predict
from multitask.ensemble import __main__ as ensemble
from multitask.errors import __main__ as errors
from multitask.export import __main__ as export

LONGEST = 2_000  # letters of a message


class Attack(NamedTuple):
    """A change of a run's folder, the command that meets it, and a part of the message.

    change: gets the run's folder, and the stranger's aim outside of it.
    """

    command: str
    change: Callable[[Path, Path], None]
    words: str


def edited(**values: Any) -> Callable[[Path, Path], None]:
    """A change of options in run.json and options.json. AIM in a value is the path outside."""

    def change(run: Path, aim: Path) -> None:
        for name in ("run.json", "options.json"):
            if not (run / name).is_file():
                continue
            content = json.loads((run / name).read_text())
            for key, value in values.items():
                text = json.dumps(value).replace("AIM", str(aim))
                content["options"][key] = json.loads(text)
            write(run / name, content)

    return change


def write(path: Path, content: dict) -> None:
    """Write JSON without a checksum."""
    content.pop("checksum", None)
    path.write_text(json.dumps(content))


def with_plugin(digest: str | None) -> Callable[[Path, Path], None]:
    """A plugin that leaves a trace. digest: of options.json, None for the true one."""

    def change(run: Path, aim: Path) -> None:
        code = run / "plugin.py"
        code.write_text(f"open({str(aim / 'trace')!r}, 'w').close()\n")
        for name in ("run.json", "options.json"):
            if (run / name).is_file():
                content = json.loads((run / name).read_text())
                content["options"] |= {"plugin": [str(code)], "head": "theirs"}
                true_digest = hashlib.sha256(code.read_bytes()).hexdigest()
                content["files"][str(code)] = true_digest if digest is None else digest
                write(run / name, content)

    return change


def linked(name: str, is_folder: bool = False) -> Callable[[Path, Path], None]:
    """A part of the run that is a link to the aim."""

    def change(run: Path, aim: Path) -> None:
        target = aim / "folder" if is_folder else aim / "file.txt"
        place = run / name
        if place.is_dir():
            shutil.rmtree(place)
        place.unlink(missing_ok=True)
        place.parent.mkdir(exist_ok=True)
        place.symlink_to(target)

    return change


def top(name: str, **values: Any) -> Callable[[Path, Path], None]:
    """A change of top-level entries of a JSON file of the run."""

    def change(run: Path, aim: Path) -> None:
        content = json.loads((run / name).read_text())
        write(run / name, content | values)

    return change


def text(name: str, content: str) -> Callable[[Path, Path], None]:
    """A file of the run with another content."""
    return lambda run, aim: (run / name).write_text(content) and None


PLUGIN = "whose code runs only if you name it"
LINK = "a link that leads out of the run's folder"
ATTACKS = {
    # Plugins, with digests of all kinds.
    "plugin, resume": Attack("resume", with_plugin(None), PLUGIN),
    "plugin, predict": Attack("predict", with_plugin(None), PLUGIN),
    "plugin, errors": Attack("errors", with_plugin(None), PLUGIN),
    "plugin, ensemble": Attack("ensemble", with_plugin(None), PLUGIN),
    "plugin, export": Attack("export", with_plugin(None), PLUGIN),
    "plugin, course": Attack("course", with_plugin(None), PLUGIN),
    "plugin without a digest": Attack("resume", with_plugin(""), PLUGIN),
    "plugin with a wrong digest": Attack("predict", with_plugin("0" * 64), PLUGIN),
    "plugin that is a text": Attack("resume", edited(plugin="AIM/x.py"), "plugins is damaged"),
    "plugin that is a number": Attack("predict", edited(plugin=[7], head="x"), "is damaged"),
    # Options that write elsewhere.
    "predictions elsewhere": Attack("resume", edited(sst_dev_out="AIM/new.csv"), "--sst_dev_out"),
    "predictions over a file": Attack(
        "resume", edited(sts_test_out="AIM/file.txt", overwrite=True), "not in its folder"
    ),
    "predictions beside the run": Attack("resume", edited(para_dev_out="../x.csv"), "not in its"),
    "no such option": Attack("resume", edited(run_this="AIM/x"), "not the options of this version"),
    "an option of another type": Attack("resume", edited(epochs="AIM"), "not the options"),
    "a number out of bounds": Attack("resume", edited(batch_size=-1), "not the options"),
    "an endless data file": Attack("resume", edited(sst_train="/dev/zero"), "/dev/zero"),
    "an endless dev file": Attack("errors", edited(sst_dev="/dev/zero"), "sst_dev"),
    # Links that lead out.
    "linked log": Attack("resume", linked("log.csv"), LINK),
    "linked checkpoints": Attack("resume", linked("checkpoint", True), LINK),
    "linked model": Attack("resume", linked("model", True), LINK),
    "linked predictions": Attack("resume", linked("predictions", True), LINK),
    "linked lock": Attack("resume", linked(".lock"), LINK),
    "linked checksums": Attack("resume", linked("checkpoint/log-checksums.txt"), LINK),
    "linked report": Attack("errors", linked("errors.md"), LINK),
    "linked encoder of another run": Attack(
        "resume", lambda run, aim: (run / "encoder").symlink_to("../second"), LINK
    ),
    # Names, digests and sizes.
    "a task that leads out": Attack("predict", top("run.json", tasks={"../../x": {}}), "run.json"),
    "digests that are no table": Attack("resume", top("options.json", files=[1, 2]), "no table"),
    "a record that is a list": Attack("errors", text("run.json", "[]"), "no finished run"),
    "deep nesting": Attack("resume", text("options.json", "[" * 100_000), "not the options"),
    "a number of many digits": Attack(
        "resume", text("options.json", '{"options": ' + "9" * 10_000 + "}"), "not the options"
    ),
    "a long message": Attack("resume", edited(head="x" * 1_000_000), "head"),
}


@pytest.fixture
def aim(tmp_path) -> Path:
    """What the stranger would like to change."""
    folder = tmp_path / "home"
    (folder / "folder").mkdir(parents=True)
    (folder / "file.txt").write_text("")
    (folder / "folder" / "mine.txt").write_text("mine")
    return folder


def content_of(folder: Path) -> dict[str, bytes]:
    """All files in a folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def act(command: str, run: Path, out: Path) -> int:
    """The exit code of a command on a run."""
    commands: dict[str, tuple[Any, list]] = {
        "resume": (run_multitask.main, ["--resume", run]),
        "predict": (predict.main, [run, "--task", "sst", "--input", out / "rows.txt", "--lines"]),
        "errors": (errors.main, [run]),
        "ensemble": (ensemble.main, [run, run.with_name("second"), "--out", out / "new"]),
        "export": (export.main, [run, "--task", "sst", "--out", out / "new"]),
        "course": (course_predict.main, [run, "--out", out / "new"]),
    }
    main, words = commands[command]
    try:
        return main([str(word) for word in words])
    except SystemExit as error:
        assert isinstance(error.code, int)
        return error.code


@pytest.mark.parametrize("name", ATTACKS)
def test_a_stranger_s_run_is_refused_in_one_line(two_runs, tmp_path, aim, capsys, name):
    attack = ATTACKS[name]
    out = tmp_path / "out"
    out.mkdir()
    (out / "rows.txt").write_text("a fine film\n")
    run = Path(shutil.copytree(two_runs[0], tmp_path / "runs" / "theirs"))
    shutil.copytree(two_runs[1], tmp_path / "runs" / "second")
    if attack.command == "resume":
        (run / "run.json").unlink()
    attack.change(run, aim)
    before = content_of(aim)
    names_before = sorted(os.listdir(tmp_path))

    code = act(attack.command, run, out)
    message = capsys.readouterr().err.strip()
    last = message.splitlines()[-1]
    assert code == 2, message
    assert attack.words in last
    assert len(last) < LONGEST and "Traceback" not in message
    assert content_of(aim) == before
    assert sorted(os.listdir(tmp_path)) == names_before
    assert not (out / "new").exists()
