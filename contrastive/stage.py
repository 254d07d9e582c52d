"""The contrastive stages: an encoder goes in, a better encoder comes out.

`build_stage` joins a method (methods.py), its rows (inputs.py) and its settings (presets.py) into a
Stage. minbert/training/stage.py trains it in the one loop, or uses a finished one. zero_shot.py
scores the encoder before, during and after.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from contrastive.batch_order import Schedule, end_after
from contrastive.inputs import EncodedRows, Inputs, Source, collect
from contrastive.methods import Method, SimCSE, build_method
from contrastive.options import (
    RANDOM_WORDS,
    ContrastiveOptions,
    CopyOptions,
    NliOptions,
    TensionOptions,
)
from contrastive.presets import RMSPROP, own_values, settings_of
from contrastive.registry import METHODS, Settings
from contrastive.sentences import EncodedGroups
from contrastive.zero_shot import dev_labels, embed, spearman_by_width, sts_quality
from data.batching import Batch, EncodedExamples
from data.examples import Example
from minbert import AdamW, BertModel
from minbert.commands.options import NONE
from minbert.commands.plugins import digest_of_plugin
from minbert.optimizer import parameter_groups
from minbert.training import processes
from minbert.training.job import Job
from minbert.training.options import TrainingOptions
from minbert.training.stage import (
    Place,
    Stage,
    code_of,
    no_copies,
    shared_identity,
    stage_fingerprint,
)
from minbert.training.starting_model import StartingModel

EVALUATIONS = 4  # per epoch where a preset does not say


@dataclass(frozen=True)
class StageText:
    """The text of a stage: training examples by task, and the STS dev pairs that measure it.

    Without dev pairs nothing is scored, and the encoder of the last step is kept.
    """

    train: dict[str, Sequence[Example]]
    sts_dev: Sequence[Example]
    sts_max_length: int  # tokens, of the dev pairs
    triplets: Sequence[tuple[str, ...]] = ()  # in place of the file of --nli
    is_new: bool = False  # whether nobody has looked for words that the model does not know


# --- model and optimizer --------------------------------------------------------------------------


def build_companion(
    options: ContrastiveOptions, training: TrainingOptions, pooling: str, encoder: BertModel
) -> SimCSE:
    """The loss that follows every batch in fusion training."""
    hidden_size = encoder.config.hidden_size
    settings = settings_of("simcse", options, hidden_size, training.device)
    model = build_model("simcse", options, settings, pooling, encoder, training)
    assert isinstance(model, SimCSE)
    return model


def build_model(
    method: str,
    options: ContrastiveOptions,
    settings: Settings,
    pooling: str,
    encoder: BertModel,
    training: TrainingOptions,
) -> Method:
    """The method's module on `encoder`.

    Weights that it adds are drawn from the run's seed, whatever was drawn before.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(training.seed)
        model = build_method(method, options.of_method, settings, pooling, encoder)
        return model.to(training.device)


def build_optimizer(
    model: Method, settings: Settings, weight_decay: float
) -> torch.optim.Optimizer:
    """The preset's optimizer. RMSprop has no weight decay, as in [CT].

    1 / temperature has a learning rate of its own, where it is trained.
    """

    def learning_rate(name: str) -> float:
        return model.scale_lr if name == "scale" else settings.lr

    if settings.optimizer == "rmsprop":
        groups = parameter_groups(model, 0.0, learning_rate)
        alpha = RMSPROP["alpha"]
        return torch.optim.RMSprop(groups, lr=settings.lr, alpha=alpha, eps=RMSPROP["eps"])
    groups = parameter_groups(model, weight_decay, learning_rate)
    return AdamW(groups, lr=settings.lr, betas=settings.betas, fused=True)


# --- the stage ------------------------------------------------------------------------------------


def build_stage(
    method: str,
    options: ContrastiveOptions,
    training: TrainingOptions,
    pooling: str,
    start: StartingModel,
    text: StageText,
    place: Place,
    keeps_copies: bool = False,
) -> Stage:
    """The stage that `method` names in --pretrain. It trains the encoder of `start` in place.

    Zero-shot STS dev selects the best weights. keeps_copies: where a method trains two copies of
    the encoder, each gets a folder beside that of the result. ValueError where a file that the
    options name cannot be used, or where the dev pairs cannot measure the stage.
    """
    encoder = start.encoder
    source = source_of(method, options, training, start, text)
    settings = source.settings
    inputs = collect(source)
    dev_pairs = encode_dev_pairs(text, start)

    # The model, and how the loop trains and scores it.
    model = build_model(method, options, settings, pooling, encoder, training)
    if inputs.renewal is not None:
        # As a submodule, so that a checkpoint holds its results. Older checkpoints have this name.
        model.shuffle = inputs.renewal.to(torch.device(training.device))
    contrastive = ContrastiveTraining(
        method, options, settings, training, pooling, model, inputs, dev_pairs
    )
    contrastive.check_renewal()

    # What decides the result: a finished encoder with the same fingerprint is used again.
    identity = contrastive.identity() | {"max_length": text.sts_max_length}
    examples = (*inputs.examples, *(dev_pairs.examples if dev_pairs else ()))
    return Stage(
        job=contrastive.job(place.checkpoints),
        encoder=encoder,
        tokenizer=start.tokenizer,
        pooling=pooling,
        quality=contrastive.quality,
        heading="zero-shot STS dev",
        folder=place.folder,
        fingerprint=stage_fingerprint(place.start, identity, examples),
        begin=contrastive.begin,
        close=contrastive.keep_copy,
        projection=model.trained_projection(),
        settings=asdict(settings) | {"betas": list(settings.betas)},  # as JSON gives them back
        notes=notes_on(inputs, source, text),
        keeps_better=training.hand_on == "better" and not options.is_last,
        copies=contrastive.copies if keeps_copies else no_copies,
        code=code_of("data", "contrastive"),
    )


def source_of(
    method: str,
    options: ContrastiveOptions,
    training: TrainingOptions,
    start: StartingModel,
    text: StageText,
) -> Source:
    """What the rows of a stage are collected from."""
    hidden_size = start.encoder.config.hidden_size
    return Source(
        method,
        options.of_method,
        settings_of(method, options, hidden_size, training.device),
        text.train,
        start.tokenizer,
        training,
        hidden_size,
        text.triplets,
    )


def encode_dev_pairs(text: StageText, start: StartingModel) -> EncodedExamples | None:
    """The pairs that measure a stage; None where there are none.

    ValueError for unusable pairs, before anything is trained.
    """
    if not text.sts_dev:
        return None
    dev_pairs = EncodedExamples(
        list(text.sts_dev), start.tokenizer, text.sts_max_length, pair_encoding="bi"
    )
    dev_labels(dev_pairs)
    return dev_pairs


def notes_on(inputs: Inputs, source: Source, text: StageText) -> tuple[str, ...]:
    """Lines on the rows of a stage, and warnings of files that the tasks do not read."""
    notes = []
    corpus = source.method_options[TensionOptions].ct_corpus
    for name, rows in inputs.rows.items():
        notes.append(describe(source.method, name, rows, source.settings))
        warning = None
        if text.is_new:
            encoded = rows.rows if isinstance(rows, EncodedGroups) else rows
            warning = encoded.warn_of_unknown("the text")
        elif isinstance(rows, EncodedGroups):
            warning = rows.rows.warn_of_unknown(source.method_options[NliOptions].nli)
        elif source.method in METHODS.readers("ct_corpus") and corpus not in (NONE, RANDOM_WORDS):
            warning = rows.warn_of_unknown(corpus)
        notes += [warning] if warning else []
    if inputs.text:
        notes.append(f"{source.method}: {inputs.text}")
    return tuple(notes)


@dataclass(frozen=True)
class ContrastiveTraining:
    """The parts of a stage, and the functions that the loop calls on them."""

    method: str
    options: ContrastiveOptions
    settings: Settings
    training: TrainingOptions
    pooling: str
    model: Method
    inputs: Inputs
    dev_pairs: EncodedExamples | None
    start_by_width: dict[int, float] = field(default_factory=dict)  # filled by `begin`

    @cached_property
    def schedule(self) -> Schedule:
        """How many epochs the stage has, and the steps of each."""
        settings = self.settings
        if settings.steps:
            return end_after(self.inputs.plan, settings.steps)
        return Schedule(settings.epochs, self.inputs.plan)

    def check_renewal(self) -> None:
        """ValueError where the stage ends before the renewal of its rows begins."""
        renewal = self.inputs.renewal
        if renewal is None or self.schedule.epochs > 1:
            return
        steps = self.settings.steps
        length = f"--contrastive_steps {steps}" if steps else "--contrastive_epochs 1"
        raise ValueError(
            f"{renewal.title} begins with the second epoch, and {length} ends before it. Pass a "
            f"larger number, or drop {renewal.title}."
        )

    def job(self, folder: Path) -> Job:
        """The stage as the loop takes it. folder: of its checkpoints."""
        settings = self.settings
        training = self.training
        model = self.model
        optimizer = build_optimizer(model, settings, training.weight_decay)
        has_dev = self.dev_pairs is not None
        dev_tokens = int(self.dev_pairs.sizes.sum()) if self.dev_pairs is not None else 0
        return Job(
            name=self.method,
            folder=folder,
            model=model,
            optimizer=optimizer,
            plan=self.schedule.plan,
            load=self.load,
            loss=self.loss,
            evaluate=self.scores,
            score="spearman" if has_dev else "",
            epochs=self.schedule.epochs,
            device=torch.device(training.device),
            precision=training.precision,
            seed=training.seed,
            schedule=settings.schedule,
            warmup=settings.warmup,
            max_grad_norm=training.max_grad_norm,
            keeps_last=settings.keep == "last" or not has_dev,
            patience=settings.patience if has_dev else 0,
            save_every=training.save_every,
            evaluations_per_epoch=self.evaluations_per_epoch(),
            closing_tokens=self.tokens_of_renewals(),
            frozen=model.frozen(),
            before_epoch=self.before_epoch,
            evaluation_tokens=dev_tokens * len(model.copies()),
        )

    # --- called by the loop ---

    def load(self, name: str, indices: list[int]) -> Batch:
        """A batch on the device."""
        return self.inputs.rows[name].batch(indices).to(torch.device(self.training.device))

    def loss(self, name: str, batch: Batch) -> Tensor:
        """This process's share of the loss. Every process computes the loss of the full batch."""
        return self.model(batch, name) / processes.count()

    def scores(self) -> dict[str, float]:
        """The scores of the encoder.

        Of two copies, the scores of the better one, and the Spearman of both.
        """
        if self.dev_pairs is None:
            return {}
        scores = {name: self.quality(copy) for name, copy in self.model.copies().items()}
        if len(scores) == 1:
            return scores["only"]
        # The history of the stage holds the Spearman of both copies.
        best = max(scores.values(), key=lambda score: score["spearman"])
        return best | {f"spearman_{name}": score["spearman"] for name, score in scores.items()}

    def before_epoch(self, epoch: int) -> None:
        """Renew what the encoder's vectors decide, such as BSC's shuffle."""
        renewal = self.inputs.renewal
        rows = self.inputs.renewal_rows
        if renewal is None or rows is None or epoch == 0:
            return

        def compute() -> Any:
            vectors = embed(self.model.encoder, rows, self.pooling, self.training.precision)
            return renewal.compute(epoch, vectors)

        renewal.renew(epoch, processes.from_first(compute))

    # --- called by the stage ---

    def begin(self) -> None:
        """Called when the stage starts, with the encoder that it starts from."""
        self.model.begin()
        self.start_by_width.update(self.by_width())

    def quality(self, encoder: BertModel | None = None) -> dict[str, float]:
        """Zero-shot STS of an encoder, by default of the one that is trained.

        Without dev pairs there are no scores.
        """
        measured = self.model.encoder if encoder is None else encoder
        dev_pairs = self.dev_pairs
        if dev_pairs is None:
            return {}
        return processes.from_first(
            lambda: sts_quality(measured, dev_pairs, self.pooling, self.training.precision)
        )

    def copies(self) -> dict[str, BertModel]:
        """The copies that were trained beside each other, by name; none for a single encoder."""
        copies = self.model.copies()
        return copies if len(copies) > 1 else {}

    def keep_copy(self) -> dict[str, float]:
        """Put the copy of --ct_copy into the encoder.

        Returns the Spearman of each copy, and the scale that was trained. [CT] reports the worse
        copy, so that the choice is no advantage. A user of the encoder takes the better one.
        """
        model = self.model
        copies = self.copies()
        outcome: dict[str, float] = {}
        if copies:
            # The copies are now those of the best step, so they are scored again.
            spearman = {}
            if self.dev_pairs is not None:
                spearman = {name: self.quality(copy)["spearman"] for name, copy in copies.items()}
            chosen = self.options.of_method[CopyOptions].ct_copy
            model.encoder.load_state_dict(chosen_weights(chosen, copies, spearman))
            outcome = {f"Spearman of the {name} copy": value for name, value in spearman.items()}
        if model.scale is not None:
            outcome["scale that learned"] = model.scale.item()
        for width, after in self.by_width().items():
            name = f"Spearman of the first {width} units"
            outcome[f"{name} before"] = self.start_by_width[width]
            outcome[name] = after
        return outcome

    def by_width(self) -> dict[int, float]:
        """Zero-shot STS of the widths that the method trains; none without dev pairs."""
        widths, dev_pairs = self.model.widths, self.dev_pairs
        if not widths or dev_pairs is None:
            return {}
        return processes.from_first(
            lambda: spearman_by_width(
                self.model.encoder, dev_pairs, self.pooling, self.training.precision, widths
            )
        )

    # --- numbers of the job ---

    def evaluations_per_epoch(self) -> int:
        """How often an epoch is evaluated."""
        if self.settings.evaluate_every == 0:
            return EVALUATIONS
        generator = torch.Generator().manual_seed(self.training.seed)
        num_steps = len(self.schedule.plan(0, generator))
        return math.ceil(num_steps / self.settings.evaluate_every)

    def tokens_of_renewals(self) -> int:
        """Tokens that all renewals encode, for the cost estimate."""
        if self.inputs.renewal_rows is None:
            return 0
        return int(self.inputs.renewal_rows.sizes.sum()) * (self.schedule.epochs - 1)

    def identity(self) -> dict[str, Any]:
        """The values that decide what the stage does, for its fingerprint."""
        # A method of --plugin is known by its file.
        plugin = digest_of_plugin(METHODS, self.method)
        return {
            **({"plugin": plugin} if plugin else {}),
            **({"teacher_model": dict(self.inputs.teacher)} if self.inputs.teacher else {}),
            "method": self.method,
            "device": self.training.device,
            "torch": torch.__version__,
            "settings": asdict(self.settings),
            **shared_identity(self.training, self.pooling),
            **own_values(self.method, self.options),
        }


def chosen_weights(
    chosen: str, copies: Mapping[str, BertModel], spearman: Mapping[str, float]
) -> dict[str, Tensor]:
    """The weights of the copy that --ct_copy names, or the mean of all copies' weights.

    spearman: of each copy, for better and worse; empty where no pairs measure the stage.
    """
    states = {name: copy.state_dict() for name, copy in copies.items()}
    if chosen == "better":
        return states[max(spearman, key=spearman.__getitem__) if spearman else "first"]
    if chosen == "worse":
        return states[min(spearman, key=spearman.__getitem__)]
    if chosen != "mean":
        return states[chosen]
    means = {}
    for name in next(iter(states.values())):
        means[name] = torch.stack([state[name] for state in states.values()]).mean(dim=0)
    return means


def describe(method: str, name: str, rows: EncodedRows, settings: Settings) -> str:
    """One line for the user: how many rows a stage reads, and how many of them were cut."""
    kind = "pairs" if rows.examples[0].sentence_2 else "sentences"
    of_task = "" if name == method else f" of {name}"
    return (
        f"{method}: {len(rows.examples):,} {kind}{of_task}, {rows.num_truncated:,} rows cut to "
        f"{settings.max_length} tokens"
    )
