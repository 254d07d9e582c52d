"""A stage of training whose result is an encoder on disk: trained once, found again, put into chains.

`--pretrain mlm,simcse` is a list of Stages on one encoder, each a Job with a table before and after, built by
contrastive/stage.py and minbert/pretraining/stage.py. Next: loop.py, in which its job runs.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from torch import nn

from minbert import weights
from minbert.bert import BertModel
from minbert.commands.files import write_json, write_tensors
from minbert.pooling import save_pooling
from minbert.reporting.tables import score_table
from minbert.tokenizer import BertTokenizer
from minbert.training import processes
from minbert.training.code_version import digest_of
from minbert.training.job import Job
from minbert.training.loop import fit
from minbert.training.options import TrainingOptions

STAGE_FILE = "stage.json"


@dataclass(frozen=True)
class Stage:
    """A job that trains `encoder` in place, what judges it, and the folder that keeps the outcome.

    `quality()` gives named scores of the encoder as it is now, `heading` names their data. A finished encoder with the
    same `fingerprint` (of start, options and text) is reused; one of another run only if `code` (code_of: the sources
    that trained it) is equal too.

    All stages of a chain are built before the first one trains the encoder in place. What copies the encoder does so in
    `begin()`, called when the stage starts; where copies were trained beside it, `close()`, called after the job, puts
    what shall go on into it. What `close` returns is recorded and shown: scores of the copies, scalars that learned.
    `settings` are recorded with it; a `projection` that was trained along is stored beside the encoder, as
    projection.safetensors, which nothing here reads again.
    """

    job: Job
    encoder: BertModel
    tokenizer: BertTokenizer
    pooling: str | None
    quality: Callable[[], dict[str, float]]
    heading: str
    folder: Path
    fingerprint: str
    begin: Callable[[], None] = lambda: None
    close: Callable[[], dict[str, float]] = dict
    settings: dict = field(default_factory=dict)
    projection: nn.Module = field(default_factory=nn.Sequential)
    keeps_better: bool = True
    code: str = ""
    notes: tuple[
        str, ...
    ] = ()  # printed before it trains: what was read, and what of it was left out or cut

    def train(self, is_resumed: bool) -> tuple[dict, float]:
        """Run the job and write the encoder's folder; returns its quality, and the seconds it took.

        Quality is {"before": scores, "after": scores, "is_kept": whether the trained encoder is handed on, "found":
        what `close` returned, "settings": those of the stage}.

        With `keeps_better` the start counts as a candidate: where the job's score is worse after it, the encoder goes
        back to where it began. Without (--hand_on trained, or after the tasks), what was trained goes on. stage.json is
        written last, so a folder that has one is complete.
        """
        print(*self.notes, sep="\n", end="\n" if self.notes else "")
        start = {name: tensor.clone() for name, tensor in self.encoder.state_dict().items()}
        self.begin()  # on resume too: the encoder is where the stage began until fit puts its checkpoint back
        before = self.quality()
        progress = fit(self.job, is_resumed)
        found = self.close()
        after = self.quality()
        is_kept = not self.keeps_better or self.job.judge(after) >= self.job.judge(before)
        quality = {
            "before": before,
            "after": after,
            "is_kept": is_kept,
            "found": found,
            "settings": self.settings,
        }
        if not is_kept:
            self.encoder.load_state_dict(start)
        processes.from_first(
            lambda: self.write(
                {"seconds": progress.seconds, "history": progress.history, **quality}
            )
        )
        return quality, progress.seconds

    def write(self, outcome: dict) -> None:
        """The encoder's folder with all that opens it; the job's checkpoints are not needed any more."""
        self.encoder.save_pretrained(self.folder, self.pooling)
        self.tokenizer.save_pretrained(self.folder)
        if self.pooling:
            save_pooling(self.folder, self.pooling)
        if outcome["is_kept"] and (projection := self.projection.state_dict()):
            write_tensors(self.folder / "projection.safetensors", projection)
        write_json(
            self.folder / STAGE_FILE,
            {"fingerprint": self.fingerprint, "code": self.code, **outcome},
        )
        shutil.rmtree(self.job.folder)

    def reusable(self, candidates: Iterable[Path]) -> Path | None:
        """The first finished encoder among `candidates` that this stage would make; a damaged one is none.

        Its own folder, of a run that goes on, may have been written before the code was changed.
        """
        for folder in candidates:
            try:
                stage = json.loads((folder / STAGE_FILE).read_text(encoding="utf-8"))
                if stage["fingerprint"] == self.fingerprint and (
                    folder == self.folder or stage["code"] == self.code
                ):
                    weights.read_tensors(folder)
                    return folder
            except (OSError, ValueError, KeyError, TypeError):
                continue
        return None

    def reuse(self, found: Path) -> tuple[dict, float]:
        """Load the encoder in `found` and copy its folder to this run's; returns as `train` does."""
        stage = json.loads((found / STAGE_FILE).read_text(encoding="utf-8"))

        def copy() -> None:
            shutil.copytree(
                found, self.folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns(STAGE_FILE)
            )
            write_json(
                self.folder / STAGE_FILE, stage
            )  # last, as in `train`: a copy cut short does not count

        if found != self.folder:
            processes.from_first(copy)
        weights.load(self.encoder, self.folder)
        seconds = stage["seconds"] if found == self.folder else 0.0
        return {
            name: stage[name] for name in ("before", "after", "is_kept", "found", "settings")
        }, seconds

    def table(self, quality: dict) -> str:
        """The scores before and after training, a row each, and a sentence where the start is kept."""
        rows = {when: quality[when] for when in ("before", "after")}
        lines = [score_table(self.heading, {name: name for name in quality["before"]}, rows)]
        lines += [f"{name}: {value:.4f}" for name, value in quality["found"].items()]
        if not quality["is_kept"]:
            lines.append(
                f"its {self.job.score.lstrip('-')} is worse, so the next stage begins where this one began"
            )
        return "\n".join(lines)


class ChainStep(NamedTuple):
    """A stage, and the folder of the finished encoder that is used instead of training it, if any."""

    stage: Stage
    reused: Path | None


Chain = list[ChainStep]


def plan_chain(stages: list[Stage], candidates: list[Path]) -> Chain:
    """Which stages of a chain to go through, and where a finished encoder is used instead.

    candidates: folders of encoders of other runs. A stage before the last usable encoder need not be
    trained, so it is left out unless its own encoder is usable.
    """
    reusable = processes.from_first(
        lambda: [stage.reusable([stage.folder, *candidates]) for stage in stages]
    )
    last = -1
    for number, folder in enumerate(reusable):
        if folder is not None:
            last = number
    chain = []
    for number, (stage, folder) in enumerate(zip(stages, reusable, strict=True)):
        if folder is not None or number > last:
            chain.append(ChainStep(stage, folder))
    return chain


def run_chain(chain: Chain, is_resumed: bool) -> tuple[dict[str, dict], float]:
    """Train each stage in turn, or load its finished encoder, and print its table.

    Returns the qualities by the name of the stage, and the seconds spent.
    """
    qualities = {}
    seconds = 0.0
    for stage, reused in chain:
        name = stage.job.name
        if reused is None:
            quality, spent = stage.train(is_resumed)
        else:
            quality, spent = stage.reuse(reused)
            print(f"{name}: encoder reused from {reused} (same options and data)")
        print(stage.table(quality))
        qualities[name] = quality
        seconds += spent
    return qualities, seconds


def encoder_fingerprint(encoder: BertModel, tokenizer: BertTokenizer) -> str:
    """SHA-256 of shape, vocabulary and weights: where a chain starts."""
    identity = [encoder.config.__dict__, tokenizer.vocabulary, tokenizer.settings]
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode())
    for parameter in encoder.parameters():
        digest.update(parameter.detach().cpu().numpy().tobytes())
    return digest.hexdigest()


def stage_fingerprint(start: str, settings: dict, examples: Iterable[object]) -> str:
    """SHA-256 of what a stage starts from (the encoder's or the earlier stage's), its settings and its examples.

    Of the number of processes too: each draws its own dropout masks.
    """
    digest = hashlib.sha256(
        json.dumps([start, settings, processes.count()], sort_keys=True).encode()
    )
    for example in examples:
        digest.update(f"{example}\n".encode())
    return digest.hexdigest()


def shared_identity(training: TrainingOptions, pooling: str) -> dict[str, Any]:
    """The options that decide what every stage does, for its fingerprint."""
    return {
        "pooling": pooling,
        "precision": training.precision,
        "weight_decay": training.weight_decay,
        "max_grad_norm": training.max_grad_norm,
        "seed": training.seed,
        "hand_on": training.hand_on,
    }


def code_of(*places: Path) -> str:
    """SHA-256 of the Python files of minbert/ and of these places: a loss that was edited is trained anew."""
    return digest_of([Path(__file__).parents[1], *places])
