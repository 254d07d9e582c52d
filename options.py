"""The one frozen dataclass of options, the command line derived from it, and what "auto" becomes.

Imports no torch, so that `--help` and a typo answer at once. Next: run_multitask.py.
"""

from __future__ import annotations

import argparse
import difflib
import json
import math
import os
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from data.readers import COURSE_FILES

AUTO = "auto"
STAGES = ("mlm", "simcse")  # what --pretrain may name
SMALL = 256  # hidden size; what holds below it was measured with 192 units and little pretraining (docs/results.md)


def choice(default, help: str, choices: tuple = (), low: float | None = None, high: float | None = None,
           group: str = ""):
    """A dataclass field with what the command line needs; `low` and `high` are inclusive."""
    return field(default=default, metadata={"help": help, "choices": choices, "low": low, "high": high, "group": group})


@dataclass(frozen=True)
class Options:
    """Every choice of a run. "auto" is resolved before the work starts and printed with its reason."""

    option: str = choice("finetune", "the course's word for which weights learn: 'pretrain' freezes the encoder and "
                         "trains the shared layer and heads only; 'finetune' trains everything",
                         ("finetune", "pretrain"))
    pretrain: str = choice("none", "stages before the tasks, in order and separated by commas, as in mlm,simcse: mlm "
                           "(masked-language modelling on the tasks' own training rows), simcse (unsupervised SimCSE, "
                           "Gao et al. 2021); or none")
    model: str = choice("minbert-mini", "encoder to start from: minbert-mini (embedded), minilm (setup.sh --minilm), a "
                        "folder in Hugging Face layout, or a hub name such as bert-base-uncased")
    data_dir: str = choice("data/sample", "folder with the nine course files")
    drop_bad_rows: bool = choice(False, "skip and count malformed rows of labelled files instead of stopping")
    name: str = choice(AUTO, "name of the run's folder; auto: made of the options above and the seed")
    output_dir: str = choice("runs", "folder of all runs")
    seed: int = choice(11711, "seed of everything random", low=0, high=2**32 - 1)
    device: str = choice(AUTO, "where to compute", (AUTO, "cpu", "cuda", "mps"))
    use_gpu: bool = choice(False, "the course's flag: the same as --device cuda")
    precision: str = choice(AUTO, "matrix products in bfloat16 or float32; weights and losses stay float32",
                            (AUTO, "bf16", "fp32"))
    attention: str = choice(AUTO, "written out (eager) or torch's fused kernel; the same function",
                            (AUTO, "eager", "fused"))
    save_every: int = choice(200, "steps between checkpoints", low=1)

    epochs: int = choice(4, "passes of the multitask stage", low=1)
    batch_size: int = choice(32, "examples a batch, of one task", low=1)
    lr: float | str = choice(AUTO, "peak learning rate; auto: 1e-3 for 'pretrain', else 5e-5 x 384 / hidden size, or "
                             "5e-4 for encoders under 256 units",
                             low=1e-9)
    hidden_dropout_prob: float = choice(0.1, "dropout before each head, as in the course", low=0, high=0.9)
    pair_encoding: str = choice(AUTO, "pairs as one row '[CLS] a [SEP] b [SEP]' (cross), or each sentence alone (bi); "
                                "auto: cross, but bi for encoders under 256 units", (AUTO, "cross", "bi"))
    pooling: str = choice("mean", "the sentence vector", ("mean", "cls", "pooler"))
    max_length: int = choice(128, "tokens a row at most; longer ones are cut", low=4)
    sampling: str = choice("mt-dnn", "which batches make a step: mt-dnn shuffles all tasks' batches, one a step (Liu "
                           "et al. 2019); joint puts one batch of every task in each step", ("mt-dnn", "joint"))
    joint_limit: str = choice("largest", "with --sampling joint: an epoch is one pass over the largest task (the "
                              "smaller ones cycle) or the smallest (larger ones are cut)", ("largest", "smallest"))
    schedule: str = choice("linear", "learning rate after warm-up", ("linear", "cosine", "constant"))
    warmup: float = choice(0.1, "share of the steps in which the learning rate rises", low=0, high=1)
    weight_decay: float = choice(0.01, "decoupled weight decay of matrices; none on biases and norms", low=0)
    max_grad_norm: float = choice(1.0, "clip the gradient to this norm; 0: never", low=0)
    accumulation: int = choice(1, "steps of the plan that make one update", low=1)

    mlm_epochs: int = choice(1, "passes of --pretrain mlm", low=1)
    mlm_batch_size: int = choice(32, "rows a batch", low=1)
    mlm_lr: float | str = choice(AUTO, "its peak learning rate; auto: 5e-5 x 768 / hidden size", low=1e-9)
    mlm_whole_word: bool = choice(False, "mask whole words instead of single tokens")

    simcse_epochs: int = choice(1, "passes of --pretrain simcse", low=1)
    simcse_batch_size: int = choice(64, "sentences a batch", low=2)
    simcse_lr: float | str = choice(AUTO, "its peak learning rate; auto: 3e-5 x 768 / hidden size", low=1e-9)
    simcse_temperature: float = choice(0.05, "softmax temperature", low=1e-3)
    simcse_max_length: int = choice(32, "tokens a sentence at most", low=4)

    sst_train: str = choice(AUTO, "a file of your own; auto: DATA_DIR/ids-sst-train.csv", group="files")
    sst_dev: str = choice(AUTO, "as above", group="files")
    sst_test: str = choice(AUTO, "as above", group="files")
    para_train: str = choice(AUTO, "auto: DATA_DIR/quora-train.csv", group="files")
    para_dev: str = choice(AUTO, "as above", group="files")
    para_test: str = choice(AUTO, "as above", group="files")
    sts_train: str = choice(AUTO, "auto: DATA_DIR/sts-train.csv", group="files")
    sts_dev: str = choice(AUTO, "as above", group="files")
    sts_test: str = choice(AUTO, "as above", group="files")
    sst_dev_out: str = choice(AUTO, "auto: RUN/predictions/sst-dev-output.csv", group="files")
    sst_test_out: str = choice(AUTO, "as above", group="files")
    para_dev_out: str = choice(AUTO, "as above", group="files")
    para_test_out: str = choice(AUTO, "as above", group="files")
    sts_dev_out: str = choice(AUTO, "as above", group="files")
    sts_test_out: str = choice(AUTO, "as above", group="files")

    def __post_init__(self) -> None:
        """Refuse values out of range and combinations of which one part would be ignored."""
        for item in fields(self):
            value, low, high = getattr(self, item.name), item.metadata["low"], item.metadata["high"]
            is_bounded = low is not None and value != AUTO
            if is_bounded and not (math.isfinite(value) and low <= value <= (value if high is None else high)):
                limit = f"a finite number, at least {low:g}" if high is None else f"{low:g} to {high:g}"
                raise ValueError(f"--{item.name} is {value}; it must be {limit}.")
        if self.use_gpu and self.device not in (AUTO, "cuda"):
            raise ValueError(f"--use_gpu asks for cuda and --device for {self.device}; pass only one of them.")
        if self.sampling != "joint" and self.joint_limit != "largest":
            raise ValueError(f"--joint_limit has no effect with --sampling {self.sampling}; add --sampling joint or "
                             "drop it.")
        unknown = [name for name in self.stages if name not in STAGES]
        if unknown or len(set(self.stages)) < len(self.stages):
            raise ValueError(f"--pretrain is '{self.pretrain}'; it is none, or some of these, separated by commas: "
                             f"{', '.join(STAGES)}.")
        for stage in STAGES:
            unused = [name for name in self.changed() if name.startswith(f"{stage}_") and stage not in self.stages]
            if unused:
                raise ValueError(f"--{unused[0]} has no effect without --pretrain {stage}; add that or drop it.")
        owner = {os.path.realpath(path): "an input" for path in self.input_files()}
        for name, path in self.changed().items():
            if name.endswith("_out") and owner.setdefault(os.path.realpath(path), f"--{name}") != f"--{name}":
                raise ValueError(f"--{name} {path}: it is {owner[os.path.realpath(path)]} already; give another file.")

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages that --pretrain names, in order."""
        return () if self.pretrain == "none" else tuple(self.pretrain.split(","))

    def changed(self) -> dict:
        """The options that differ from their defaults."""
        values = {item: getattr(self, item.name) for item in fields(self)}
        return {item.name: value for item, value in values.items() if value != item.default}

    def for_encoder(self, hidden_size: int) -> tuple[Options, dict[str, str]]:
        """Replace what is "auto" and depends on the encoder's width; also returns for each the reason, for printing."""
        is_small = hidden_size < SMALL
        found = {"pair_encoding": ("bi", f"an encoder under {SMALL} units does not learn to compare within a row")
                 if is_small else ("cross", "the two sentences see each other")}
        if self.option == "pretrain":
            found["lr"] = (1e-3, "the encoder is frozen")
        elif is_small:
            found["lr"] = (5e-4, f"hidden size {hidden_size} is under {SMALL}")
        else:
            found["lr"] = (5e-5 * 384 / hidden_size, f"5e-5 x 384 / hidden size {hidden_size}")
        if "mlm" in self.stages:
            found["mlm_lr"] = (5e-5 * 768 / hidden_size, f"5e-5 x 768 / hidden size {hidden_size}")
        if "simcse" in self.stages:
            found["simcse_lr"] = (3e-5 * 768 / hidden_size, f"3e-5 x 768 / hidden size {hidden_size}")
        found = {name: pair for name, pair in found.items() if getattr(self, name) == AUTO}
        reasons = {name: reason for name, (_, reason) in found.items()}
        return replace(self, **{name: value for name, (value, _) in found.items()}), reasons

    def of_stage(self, prefix: str, *more: str) -> dict:
        """The options that decide what a pretraining stage does: its own, `more`, and those that all stages share."""
        shared = {"pooling", "precision", "weight_decay", "schedule", "warmup", "max_grad_norm", "seed", *more}
        values = vars(self).items()
        return {name: value for name, value in values if name in shared or name.startswith(f"{prefix}_")}

    def with_files(self) -> Options:
        """Input files that were not given are the course's names in data_dir."""
        files = {f"{task}_{split}": str(Path(self.data_dir) / name)
                 for task, splits in COURSE_FILES.items() for split, name in splits.items()}
        return replace(self, **{name: path for name, path in files.items() if getattr(self, name) == AUTO})

    def input_files(self) -> list[str]:
        return [getattr(self, f"{task}_{split}") for task, splits in COURSE_FILES.items() for split in splits]


class Parser(argparse.ArgumentParser):
    """argparse that suggests the flag that a typo may have meant."""

    def parse_args(self, args=None, namespace=None):
        namespace, unknown = self.parse_known_args(args, namespace)
        if unknown:
            close = difflib.get_close_matches(unknown[0].split("=")[0], self._option_string_actions, n=1)
            hint = f"; did you mean {close[0]}?" if close else "; --help lists all flags."
            self.error(f"unknown flag {unknown[0]}{hint}")
        return namespace


def number_or_auto(text: str) -> float | str:
    """What a learning rate's flag takes."""
    return AUTO if text == AUTO else float(text)


def parse(argv: list[str] | None = None) -> tuple[Options, Path | None]:
    """The options of a command line, and the folder of --resume. Wrong flags exit with code 2 and a message."""
    parser = Parser(prog="run_multitask.py", allow_abbrev=False, formatter_class=argparse.ArgumentDefaultsHelpFormatter,
                    description="Contrastive pretraining, multitask training and the six leaderboard files, in one go.",
                    argument_default=argparse.SUPPRESS)
    parser.add_argument("--resume", metavar="RUN", help="continue the run in this folder, with its own options")
    groups = {"": parser, "files": parser.add_argument_group("files, by the course's flags")}
    kinds = {"int": int, "float": float, "float | str": number_or_auto, "str": str}
    for item in fields(Options):
        flags = dict.fromkeys([f"--{item.name}", f"--{item.name.replace('_', '-')}"])
        settings = {"help": f"{item.metadata['help']} (default: {item.default})", "dest": item.name}
        if item.type == "bool":
            settings["action"] = "store_true"
        else:
            settings |= {"type": kinds[item.type], "metavar": None if item.metadata["choices"] else item.name.upper()}
            settings |= {"choices": item.metadata["choices"]} if item.metadata["choices"] else {}
        groups[item.metadata["group"]].add_argument(*flags, **settings)
    given = vars(parser.parse_args(argv))
    run = given.pop("resume", None)
    try:
        if run is None:
            return Options(**given).with_files(), None
        if given:
            raise ValueError(f"--resume continues a run with its own options; drop --{next(iter(given))}, or start a "
                             "new run without --resume.")
        return load(Path(run)), Path(run)
    except ValueError as error:
        parser.exit(2, f"run_multitask.py: {error}\n")


def load(folder: Path) -> Options:
    """The options of the run in `folder`; ValueError where there is none."""
    path = folder / "options.json"
    if not path.is_file():
        raise ValueError(f"--resume {folder}: no run there (options.json is missing). Give a folder such as runs/NAME.")
    try:
        return Options(**json.loads(path.read_text(encoding="utf-8"))["options"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path}: not the options of this version ({error}). Start a new run instead.") from error


def choose_folder(options: Options) -> Path:
    """The folder of a new run, not created yet: OUTPUT_DIR/NAME; -2, -3, ... follow an automatic name in use."""
    parent = Path(options.output_dir)
    if options.name != AUTO:
        if options.name in ("", ".", "..") or Path(options.name).name != options.name:
            raise ValueError(f"--name is '{options.name}'; it must be the name of one folder. --output_dir says where.")
        if (parent / options.name).exists():
            raise ValueError(f"{parent / options.name} exists. Pass --resume {parent / options.name} to continue it, "
                             "or another --name.")
        return parent / options.name
    model, data = (Path(text).name for text in (options.model, options.data_dir))
    stem = f"{options.option}-{'-'.join(options.stages) or 'none'}-{model}-{data}-seed{options.seed}"
    names = [stem, *(f"{stem}-{number}" for number in range(2, 10_000))]
    return next(parent / name for name in names if not (parent / name).exists())


def check_writable(run: Path, files: list[Path]) -> None:
    """ValueError for the run's folder or a file that could not be created or written into; creates nothing."""
    for path in filter(Path.is_dir, files):
        raise ValueError(f"{path}: a folder stands where a file is to be written. Choose another path.")
    for folder in (run, *(path.parent for path in files)):
        existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
            raise ValueError(f"{folder}: cannot be written, because {existing} is "
                             f"{'not writable' if existing.is_dir() else 'a file'}. Choose another folder.")
