"""A stage of training whose result is an encoder on disk. It is trained once and reused later.

`--pretrain mlm,simcse` is a list of Stages on one encoder. Each is a Job with a table of scores
before and after. contrastive/stage.py and minbert/pretraining/stage.py build them.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from torch import nn

from minbert import weights
from minbert.bert import BertModel
from minbert.commands.digests import read_record, recording
from minbert.commands.files import check_digest, read_json, write_json, write_tensors
from minbert.pooling import save_pooling
from minbert.reporting import terminal
from minbert.reporting.tables import score_table
from minbert.tokenizer import BertTokenizer
from minbert.training import processes
from minbert.training.code_version import digest_of
from minbert.training.job import Job
from minbert.training.loop import fit
from minbert.training.options import TrainingOptions
from minbert.training.step_log import LOG_FILE, forget_stage

STAGE_FILE = "stage.json"
QUALITY_KEYS = ("before", "after", "is_kept", "found", "settings")

# What a stage was worth, as stage.json and run.json hold it: the scores "before" and "after" it;
# "is_kept", whether the next stage begins with the trained encoder; "found", what Stage.close
# returned; "settings", those of the stage.
Quality = dict[str, Any]


class StageResult(NamedTuple):
    """What a stage was worth, and the seconds that it took."""

    quality: Quality
    seconds: float


def return_nothing() -> dict[str, float]:
    """The default of Stage.close."""
    return {}


def do_nothing() -> None:
    """The default of Stage.begin."""


def no_copies() -> dict[str, BertModel]:
    """The default of Stage.copies."""
    return {}


@dataclass(frozen=True)
class Place:
    """Where a stage starts, and where it writes."""

    start: str  # fingerprint of the encoder that it starts from
    folder: Path  # of the trained encoder
    checkpoints: Path


@dataclass(frozen=True)
class Stage:
    """A job that trains `encoder` in place, its selection scores, and the folder of its result.

    A finished encoder with the same `fingerprint` (of start, options and text) is reused. One of
    another run is reused only if the `code` that trained it (see code_of) is the same, too, and the
    number of processes: each process draws its own dropout masks. A finished stage of this run
    stays finished, with whatever code and processes the run goes on.

    All stages of a chain are built before the first one trains the encoder in place. So a stage
    that needs copies of the encoder makes them in `begin`, which is called when the stage starts.
    Where copies were trained beside the encoder, `close` puts the better one into it after the job.
    """

    job: Job
    encoder: BertModel
    tokenizer: BertTokenizer
    pooling: str | None  # stored with the encoder; None: the stage trains no sentence vector
    quality: Callable[[], dict[str, float]]  # named scores of the encoder as it is now
    heading: str  # of the table of scores: their data
    folder: Path  # of the trained encoder
    fingerprint: str
    begin: Callable[[], None] = do_nothing
    # Returns what is recorded and shown: scores of the copies, scalars that were trained.
    close: Callable[[], dict[str, float]] = return_nothing
    settings: dict[str, Any] = field(default_factory=dict)  # recorded with the scores
    # A layer that was trained, too. It is stored beside the encoder as projection.safetensors,
    # which nothing here reads again.
    projection: nn.Module = field(default_factory=nn.Sequential)
    keeps_better: bool = True
    # Encoders that were trained beside each other, by name. Each gets a folder of its own.
    copies: Callable[[], Mapping[str, BertModel]] = no_copies
    code: str = ""
    # Lines to print before it trains: what was read, and what of it was left out or cut.
    notes: tuple[str, ...] = ()

    def train(self, is_resumed: bool) -> StageResult:
        """Run the job and write the encoder's folder.

        With `keeps_better` the start counts as a candidate: where the score that selects the best
        weights is worse after the job, the encoder goes back to its start. Without (--hand_on
        trained, or a stage after the tasks), the trained encoder goes on. stage.json is written
        last, so a folder that has one is complete.
        """
        terminal.say(*self.notes)
        terminal.doing("scores before the stage")
        start = {name: tensor.clone() for name, tensor in self.encoder.state_dict().items()}
        # On resume, too: the encoder is where the stage began until fit puts its checkpoint back.
        self.begin()
        before = self.quality()
        progress = fit(self.job, is_resumed)
        terminal.doing("scores after the stage")
        # Before `close`, which may put one copy into the other.
        for name, copy in self.copies().items():
            processes.from_first(partial(self.write_encoder, copy, self.beside(name)))
        outcome = self.close()
        after = self.quality()

        value_before = self.job.selection_value(before)
        value_after = self.job.selection_value(after)
        is_kept = not self.keeps_better or value_after >= value_before
        quality = {
            "before": before,
            "after": after,
            "is_kept": is_kept,
            "found": outcome,
            "settings": self.settings,
        }
        if not is_kept:
            # The trained one stays on the disk, under a name that says so.
            trained = self.beside("trained")
            processes.from_first(lambda: self.write_encoder(self.encoder, trained))
            terminal.say(f"{self.job.name}: the trained encoder is in {trained}")
            self.encoder.load_state_dict(start)
        record = {"seconds": progress.seconds, "history": progress.history, **quality}
        processes.from_first(lambda: self.write(record))
        return StageResult(quality, progress.seconds)

    def beside(self, name: str) -> Path:
        """The folder of a further encoder, such as encoder-trained beside encoder."""
        return self.folder.with_name(f"{self.folder.name}-{name}")

    def write_encoder(self, encoder: BertModel, folder: Path) -> None:
        """Write a folder with all that opens an encoder."""
        encoder.save_pretrained(folder, self.pooling)
        self.tokenizer.save_pretrained(folder)
        if self.pooling:
            save_pooling(folder, self.pooling)

    def write(self, record: dict[str, Any]) -> None:
        """Write the encoder's folder with all that opens it, and remove the job's checkpoints.

        record: written to stage.json.
        """
        self.write_encoder(self.encoder, self.folder)
        projection = self.projection.state_dict()
        if record["is_kept"] and projection:
            path = self.folder / "projection.safetensors"
            with recording(self.folder) as digests:
                digests[path.name] = write_tensors(path, projection)
        identity = {
            "fingerprint": self.fingerprint,
            "code": self.code,
            "processes": processes.count(),
        }
        # What another run copies, and this one reads again.
        content = {**identity, **record, "files": read_record(self.folder)}
        write_json(self.folder / STAGE_FILE, content, has_checksum=True)
        shutil.rmtree(self.job.folder)

    def reusable(self, candidates: Iterable[Path]) -> Path | None:
        """The first folder among `candidates` with a finished encoder that this stage would make.

        A damaged folder is no candidate, and its damage is printed. The stage's own folder, of a
        run that is resumed, may have been written before the code was changed.
        """
        for folder in candidates:
            try:
                stored = read_json(folder / STAGE_FILE)
                is_same = stored["fingerprint"] == self.fingerprint
                if is_same and (folder == self.folder or self.has_maker_of(stored)):
                    check_quality(stored)
                    check_files(folder, stored)
                    weights.read_tensors(folder)
                    return folder
            except ValueError as error:
                terminal.say(f"{self.job.name}: the encoder in {folder} is not reused ({error})")
            except (OSError, KeyError, TypeError, AttributeError):
                continue
        return None

    def has_maker_of(self, stored: Mapping[str, Any]) -> bool:
        """Whether this run would make a stage of another run with the same bits.

        stored: the content of its stage.json. Older versions counted the processes in the
        fingerprint.
        """
        return stored["code"] == self.code and stored.get("processes", 1) == processes.count()

    def reuse(self, source: Path) -> StageResult:
        """Load the finished encoder in `source`, and copy its folder to this run's.

        Returns the quality as `train` does. The seconds of another run do not count for this one.
        If this run had begun the stage, the rows of its steps go out of the log: a part of them
        would look like all. The other run's log has them.
        """
        stored = read_json(source / STAGE_FILE)
        is_own = source == self.folder
        if not is_own:
            processes.from_first(lambda: self.copy_from(source, stored))
            processes.from_first(lambda: forget_stage(self.folder.parent, self.job.name))
            log = source.parent / LOG_FILE
            if log.is_file():
                terminal.say(f"{self.job.name}: the losses of its steps are in {log}")
            trained = source.with_name(f"{source.name}-trained")
            if not stored["is_kept"] and trained.is_dir():
                terminal.say(f"{self.job.name}: the trained encoder is in {trained}")
        weights.load(self.encoder, self.folder)
        quality = {name: stored[name] for name in QUALITY_KEYS}
        return StageResult(quality, stored["seconds"] if is_own else 0.0)

    def copy_from(self, source: Path, stored: dict[str, Any]) -> None:
        """Copy an encoder's folder to this run's.

        stage.json is written last, as in `write`: a copy that was cut short does not count.
        """
        without = shutil.ignore_patterns(STAGE_FILE)
        shutil.copytree(source, self.folder, dirs_exist_ok=True, ignore=without)
        write_json(self.folder / STAGE_FILE, stored, has_checksum="files" in stored)

    def table(self, quality: Quality) -> str:
        """The scores before and after training, a row each.

        A sentence follows where the next stage begins with the start of this one.
        """
        columns = {name: name for name in quality["before"]}
        rows = {when: quality[when] for when in ("before", "after")}
        lines = (
            [score_table(self.heading, columns, rows)]
            if columns
            else ["no pairs measure this stage"]
        )
        for name, value in quality["found"].items():
            lines.append(f"{name}: {value:.4f}")
        if not quality["is_kept"]:
            score = self.job.score.removeprefix("-")
            lines.append(f"its {score} is worse, so the next stage begins where this one began")
        return "\n".join(lines)


def check_files(folder: Path, stored: Mapping[str, Any]) -> None:
    """Raise ValueError, with its name, for a file of a finished encoder that is not as written.

    stored: the content of its stage.json. One of an older version has no digests.
    """
    for name, digest in stored.get("files", {}).items():
        try:
            check_digest(folder / name, digest)
        except OSError as error:
            raise ValueError(f"{name} is missing or cannot be read") from error


def check_quality(stored: Mapping[str, Any]) -> None:
    """Raise ValueError where a stage.json does not hold what `Stage.table` shows."""
    scores = [stored[name] for name in ("before", "after", "found")]
    is_table = all(isinstance(table, dict) for table in [*scores, stored["settings"]])
    numbers = [stored["seconds"]]
    for table in scores if is_table else ():
        numbers += table.values()
    are_numbers = all(type(number) in (int, float) for number in numbers)
    if not is_table or not are_numbers or type(stored["is_kept"]) is not bool:
        raise ValueError(f"{STAGE_FILE} does not hold the scores of a stage")
    if stored["before"].keys() != stored["after"].keys():
        raise ValueError(f"{STAGE_FILE} has different scores before and after the stage")


class ChainStep(NamedTuple):
    """A stage, and the folder of the finished encoder that is used instead, if there is one."""

    stage: Stage
    reused: Path | None


Chain = list[ChainStep]


class ChainResult(NamedTuple):
    """What the stages of a chain were worth, by their names, and the seconds that they took."""

    qualities: dict[str, Quality]
    seconds: float


def build_stages(
    names: Sequence[str], start: str, folder: Path, build: Callable[[str, Place], Stage]
) -> list[Stage]:
    """The stages of a chain in order. Each starts from the encoder that the one before it leaves.

    start: fingerprint of the encoder before the first one. folder: of the run. build: makes the
    stage of a name at a place.
    """
    stages: list[Stage] = []
    for name in names:
        # The last encoder is the result of the chain.
        encoder = folder / ("encoder" if name == names[-1] else f"encoder-{name}")
        stage = build(name, Place(start, encoder, folder / "checkpoint" / name))
        stages.append(stage)
        start = stage.fingerprint
    return stages


def encoders_beside(folder: Path) -> list[Path]:
    """The encoders that stages of runs in the same place have left, by the names of the runs.

    folder: of a run. The link to the newest run is left out: it would name a run twice.
    """
    encoders = []
    for path in sorted(folder.parent.glob("*/encoder*")):
        if not path.parent.is_symlink():
            encoders.append(path)
    return encoders


def plan_chain(stages: list[Stage], candidates: list[Path]) -> Chain:
    """Which stages of a chain to go through, and where a finished encoder is used instead.

    candidates: folders of encoders of other runs. A stage before the last usable encoder need not
    be trained, so it is left out unless its own encoder is usable.
    """

    def find_reusable() -> list[Path | None]:
        return [stage.reusable([stage.folder, *candidates]) for stage in stages]

    reusable = processes.from_first(find_reusable)
    # Everything before the last finished encoder is in that encoder already.
    last = -1
    for number, folder in enumerate(reusable):
        if folder is not None:
            last = number
    chain = []
    for number, (stage, folder) in enumerate(zip(stages, reusable, strict=True)):
        if folder is not None or number > last:
            chain.append(ChainStep(stage, folder))
    return chain


def run_chain(chain: Chain, is_resumed: bool) -> ChainResult:
    """Train each stage in turn, or load its finished encoder, and print its table."""
    qualities = {}
    seconds = 0.0
    for stage, reused in chain:
        name = stage.job.name
        terminal.title(f"Stage {name}")
        if reused is None:
            result = stage.train(is_resumed)
        else:
            result = stage.reuse(reused)
            terminal.say(f"{name}: encoder reused from {reused} (same options and data)")
        terminal.table(stage.table(result.quality))
        qualities[name] = result.quality
        seconds += result.seconds
    return ChainResult(qualities, seconds)


def encoder_fingerprint(
    encoder: BertModel, tokenizer: BertTokenizer, has_pooler: bool = True
) -> str:
    """SHA-256 of shape, vocabulary and weights: where a chain starts.

    has_pooler: False leaves out the pooler. One that no file holds has other random weights in
    every process.
    """
    identity: list[Any] = [encoder.config.identity, tokenizer.vocabulary, tokenizer.settings]
    if tokenizer.definition is not None:
        identity.append(tokenizer.definition)
    if tokenizer.splits_special_tokens:
        identity.append("split_special_tokens")
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode())
    for name, parameter in encoder.named_parameters():
        if has_pooler or not name.startswith("pooler."):
            digest.update(parameter.detach().cpu().numpy().tobytes())
    return digest.hexdigest()


def stage_fingerprint(start: str, settings: Mapping[str, Any], examples: Iterable[object]) -> str:
    """SHA-256 of the start of a stage, its settings and its examples.

    start: the fingerprint of the encoder, or of the stage before this one.
    """
    # Earlier versions had the number of processes in the place of the 1.
    identity = [start, settings, 1]
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode())
    for example in examples:
        digest.update(f"{example}\n".encode())
    return digest.hexdigest()


def shared_identity(training: TrainingOptions, pooling: str) -> dict[str, Any]:
    """The options that decide what every stage does, for its fingerprint."""
    return {
        "pooling": pooling,
        "precision": training.precision,
        "formulas": training.formulas,
        "weight_decay": training.weight_decay,
        "max_grad_norm": training.max_grad_norm,
        "seed": training.seed,
        "hand_on": training.hand_on,
    }


def code_of(*packages: str) -> str:
    """SHA-256 of the code that trains a stage: of minbert and of these packages.

    packages: names at the top of the clone, such as "data". An edit in any file of a package, also
    in a nested one, gives another digest. A stage is then trained again instead of reused.
    """
    return digest_of("minbert", *packages)
