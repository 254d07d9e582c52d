"""Does a killed run, resumed, end in the same bits? `python -m benchmarks.kill_resume [--pretrain ct,bsc]`.

A tiny model runs once undisturbed over a cut of the sample data, then K times with SIGKILL at a random step and
`--resume`. Weights must agree in every bit, leaderboard files in every byte, and the scores of each epoch exactly.
tests/system/test_resume.py asks the same of one run, and borrows the functions.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import load_file

from benchmarks.comparison import versions
from data.readers import COURSE_FILES
from minbert import BertConfig, BertModel
from minbert.pretraining.packing import train_tokenizer

ROOT = Path(__file__).resolve().parent.parent
ROWS = {"train": 64, "dev": 24, "test": 12}
TENSOR_FILES = ("encoder/model.safetensors", "model/model.safetensors", "model/heads.safetensors")
SAVE_EVERY = 3  # steps


def cut_data(source: Path, folder: Path, rows: dict[str, int] = ROWS) -> Path:
    """Copy the header and the first `rows[split]` rows of each of the nine course files; returns `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for splits in COURSE_FILES.values():
        for split, name in splits.items():
            lines = (source / name).read_text(encoding="utf-8").splitlines(keepends=True)
            (folder / name).write_text("".join(lines[: rows[split] + 1]), encoding="utf-8")
    return folder


def write_tiny_model(folder: Path, data: Path) -> Path:
    """An encoder of random weights, 32 units and 2 layers, and a vocabulary of `data`'s words; returns `folder`."""
    texts = (
        line
        for path in sorted(data.glob("*.csv"))
        for line in path.read_text(encoding="utf-8").splitlines()
    )
    tokenizer = train_tokenizer(texts, vocab_size=400)
    config = BertConfig(
        vocab_size=len(tokenizer.vocabulary),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = BertModel(config)
    tokenizer.save_pretrained(folder)
    model.save_pretrained(folder)
    return folder


def start(*flags: str | Path) -> subprocess.Popen:
    """run_multitask.py with `flags`, as a process of its own with its output in pipes.

    One thread: matrices this small gain nothing from a second, and beside other work it costs three times the seconds.
    """
    command = [sys.executable, "run_multitask.py", *map(str, flags)]
    environment = {"OMP_NUM_THREADS": "1", **os.environ}
    return subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def settings(model: Path, data: Path, output_dir: Path, chain: str = "simcse") -> list[str]:
    """The flags of the run: the stages of --pretrain and the tasks, small, a checkpoint every SAVE_EVERY steps."""
    return [
        "--option",
        "finetune",
        "--pretrain",
        chain,
        "--model",
        str(model),
        "--data_dir",
        str(data),
        "--max_length",
        "48",
        "--save_every",
        str(SAVE_EVERY),
        "--epochs",
        "2",
        "--batch_size",
        "8",
        "--contrastive_batch_size",
        "16",
        "--output_dir",
        str(output_dir),
        "--name",
        "run",
    ]


def finish(process: subprocess.Popen) -> str:
    """Wait for a run that must succeed; returns what it printed."""
    printed, complaints = process.communicate(timeout=300)
    if process.returncode != 0:
        raise RuntimeError(
            f"exit code {process.returncode}:\n{printed[-2000:]}\n{complaints[-2000:]}"
        )
    return printed


def saved_step(folder: Path, stage: str) -> int:
    """The step of the stage's checkpoint, -1 where there is none."""
    path = folder / "checkpoint" / stage / "state.json"
    try:
        return json.loads(path.read_text(encoding="utf-8"))["step"]
    except FileNotFoundError:
        return -1


def stop_when(
    process: subprocess.Popen, is_time: Callable[[], bool], number: int = signal.SIGKILL
) -> bool:
    """Send the signal as soon as `is_time()`; False if the run ended before."""
    while process.poll() is None:
        if is_time():
            process.send_signal(number)
            return True
        time.sleep(0.001)
    return False


def differences(run: Path, other: Path) -> list[str]:
    """What differs between two finished runs: tensors by bits, leaderboard files by bytes, the scores of the epochs."""
    found = []
    for name in TENSOR_FILES:
        tensors, others = load_file(run / name), load_file(other / name)
        if tensors.keys() != others.keys():
            found.append(f"{name}: other tensors")
            continue
        found += [
            f"{name}: {key}"
            for key, tensor in tensors.items()
            if tensor.numpy().tobytes() != others[key].numpy().tobytes()
        ]
    files = sorted(path.name for path in (run / "predictions").iterdir())
    assert len(files) == 6, files
    found += [
        name
        for name in files
        if (run / "predictions" / name).read_bytes() != (other / "predictions" / name).read_bytes()
    ]
    records = [
        json.loads((folder / "run.json").read_text(encoding="utf-8")) for folder in (run, other)
    ]
    return found + [
        f"run.json: {key}"
        for key in ("epochs", "best_step", "stages", "scores")
        if records[0][key] != records[1][key]
    ]


def kill_once(
    stage: str, target: int, delay: float, flags: list[str], folder: Path
) -> tuple[bool, int]:
    """Start, kill `delay` seconds after the stage has saved step `target`, resume; (was killed, step resumed at)."""
    process = start(*flags)
    if is_killed := stop_when(process, lambda: saved_step(folder, stage) >= target, number=0):
        time.sleep(delay)
        is_killed = process.poll() is None
        process.kill()
    process.communicate()
    step = saved_step(folder, stage)
    finish(start("--resume", folder))
    return is_killed, step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--kills", type=int, default=5, help="runs that are killed (default %(default)s)"
    )
    parser.add_argument(
        "--pretrain", default="simcse", help="stages before the tasks (default %(default)s)"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="of the moments of the kills (default %(default)s)"
    )
    arguments = parser.parse_args()
    chance = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        data = cut_data(ROOT / "data" / "sample", place / "data")
        model = write_tiny_model(place / "model", data)
        finish(start(*settings(model, data, place / "undisturbed", arguments.pretrain)))
        undisturbed = place / "undisturbed" / "run"
        record = json.loads((undisturbed / "run.json").read_text(encoding="utf-8"))
        num_steps = {item["name"]: item["num_steps"] for item in record["predicted"]}
        seconds_between_saves = SAVE_EVERY * record["actual"]["seconds"] / sum(num_steps.values())
        print(f"undisturbed: {num_steps} steps")
        stages, num_killed, num_equal = list(num_steps), 0, 0
        for number in range(arguments.kills):
            stage = stages[number % len(stages)]
            target = chance.randrange(SAVE_EVERY, num_steps[stage])
            delay = chance.uniform(
                0, seconds_between_saves
            )  # so that the kill may also fall between two checkpoints
            folder = place / str(number) / "run"
            flags = settings(model, data, folder.parent, arguments.pretrain)
            is_killed, step = kill_once(stage, target, delay, flags, folder)
            found = differences(undisturbed, folder)
            num_killed, num_equal = num_killed + is_killed, num_equal + (not found)
            print(
                f"kill {number + 1}: {stage}, {delay * 1000:.0f} ms after the checkpoint at or past step {target} of "
                f"{num_steps[stage]}; resumed at step {step}, {'DIFFERENT: ' + str(found) if found else 'same bits'}"
            )
        print(
            json.dumps(
                {
                    "name": "kill_resume",
                    "n": arguments.kills,
                    "killed": num_killed,
                    "identical": num_equal,
                    "seed": arguments.seed,
                    "versions": versions(),
                }
            )
        )
    sys.exit(0 if num_killed == num_equal == arguments.kills else 1)


if __name__ == "__main__":
    main()
