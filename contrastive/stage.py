"""Encoder in, encoder checkpoint out, through minbert.training.loop: the contrastive stages.

quality.py makes the table before and after. Next: minbert/training/stage.py, which trains a stage or reuses a finished one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch

from contrastive import inputs as text
from contrastive.batch_order import Shuffle, tension_plan
from contrastive.methods import Method, SimCSE, build_method
from contrastive.presets import OWN, RMSPROP, Settings, settings_of
from contrastive.zero_shot import dev_labels, embed, sts_quality
from data.batching import WINDOW, EncodedExamples, length_grouped_batches
from data.readers import Example
from minbert import AdamW, BertModel, BertTokenizer
from minbert.optimizer import parameter_groups
from minbert.training import processes
from minbert.training.job import Job, Step
from minbert.training.stage import Stage, code_of, stage_fingerprint

SCALE_LR = 1e-3  # of the scale that ct-in-batch learns, as [BSC] section 3 has for its own


@dataclass(frozen=True)
class Material:
    """What a stage reads: rows by the task that a step names, and an epoch's steps. For BSC's knn and cluster also the
    `shuffle` that reorders its pairs, and `shuffled`, their first sentences, by which it does so.
    """

    rows: dict[str, EncodedExamples | text.EncodedTriplets]
    plan: Callable[[int, torch.Generator], list[Step]]
    shuffle: Shuffle | None = None
    shuffled: EncodedExamples | None = None

    @property
    def examples(self) -> list[Example]:
        return [example for rows in self.rows.values() for example in rows.examples]


def build_companion(options, encoder: BertModel, device: torch.device) -> SimCSE:
    """The loss that goes with every batch in fusion training; its projection is drawn from the run's seed."""
    return build_model(
        "simcse",
        options,
        settings_of("simcse", options, encoder.config.hidden_size),
        encoder,
        device,
    )


def build_model(
    method: str, options, settings: Settings, encoder: BertModel, device: torch.device
) -> Method:
    """The method's module on `encoder`; what it adds is drawn from the run's seed, whatever was drawn before."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(options.seed)
        return build_method(method, options, settings, encoder).to(device)


def collect(
    method: str,
    options,
    settings: Settings,
    train: dict[str, Sequence[Example]],
    tokenizer: BertTokenizer,
) -> Material:
    """What `method` reads of the training examples by task, or of the files that options name."""
    length = settings.max_length

    def of_sentences(*tasks: str) -> EncodedExamples:
        examples = [example for task in tasks for example in train[task]]
        return EncodedExamples(
            text.unique_sentences(examples, tokenizer, length), tokenizer, length
        )

    def of_pairs(sts: Sequence[Example], keeps_negatives: bool) -> EncodedExamples:
        pairs = text.labelled_pairs(train["para"], sts, keeps_negatives)
        return EncodedExamples(pairs, tokenizer, length, pair_encoding="bi")

    match method:
        case "simcse-nli":
            return in_turn(
                {method: text.EncodedTriplets(text.read_triplets(options.nli), tokenizer, length)},
                settings,
            )
        case (
            "simcse-supervised"
        ):  # [GEN]: each epoch ends with the sentences that have no such labels
            pairs = of_pairs((), options.labelled_negatives == "yes")
            without = [task for task in train if task in options.unsupervised_too.split(",")]
            return in_turn(
                {method: pairs, **{task: of_sentences(task) for task in without}}, settings
            )
        case "mnr":
            return in_turn({method: of_pairs(train["sts"], keeps_negatives=False)}, settings)
        case "bsc":
            rows = of_pairs(train["sts"], options.bsc_labelled_negatives == "yes")
            if options.bsc_shuffle in ("random", "any-length"):
                return in_turn(
                    {method: rows},
                    settings,
                    window=WINDOW if options.bsc_shuffle == "random" else 1,
                )
            shuffle = Shuffle(options.bsc_shuffle, len(rows), settings.batch_size, options.seed)
            first = [Example(each.id, each.sentence_1, None, None) for each in rows.examples]
            return replace(
                in_turn({method: rows}, settings, shuffle),
                shuffled=EncodedExamples(first, tokenizer, length),
            )
        case "ct" | "ct-in-batch":
            every = [example for examples in train.values() for example in examples]
            sentences = text.tension_sentences(
                options.ct_corpus, every, tokenizer, length, options.seed
            )
            rows = EncodedExamples(sentences, tokenizer, length)
            if method == "ct-in-batch":
                return in_turn({method: rows}, settings)
            return Material(
                {method: rows},
                lambda epoch, generator: tension_plan(
                    len(rows), settings.batch_size, options.ct_negatives == "code", generator
                ),
            )
        case "simcse" | "sg" | "sg-opt":
            return in_turn({method: of_sentences(*train)}, settings)
    raise AssertionError(f"nothing says what {method} reads")


def in_turn(
    rows: dict, settings: Settings, shuffle: Shuffle | None = None, window: int = WINDOW
) -> Material:
    """An epoch passes once over each task's rows, task after task: in batches of similar length within windows of
    `window` batches (1: of any length), or in the shuffle's order."""

    def plan(epoch: int, generator: torch.Generator) -> list[Step]:
        ordered = shuffle.batches(epoch) if shuffle else []
        return [
            [(task, batch)]
            for task, each in rows.items()
            for batch in ordered
            or length_grouped_batches(each.lengths, settings.batch_size, generator, window)
        ]

    return Material(rows, plan, shuffle)


def build_optimizer(
    model: Method, settings: Settings, decay: float, scale_lr: float | str
) -> torch.optim.Optimizer:
    """The preset's optimizer. A scale that learns has its own rate, "none" where there is none; RMSprop decays nothing,
    as in [CT]."""

    def rate_of(name: str) -> float:
        return scale_lr if name == "scale" else settings.lr

    if settings.optimizer == "rmsprop":
        return torch.optim.RMSprop(parameter_groups(model, 0.0, rate_of), lr=settings.lr, **RMSPROP)
    return AdamW(
        parameter_groups(model, decay, rate_of), lr=settings.lr, betas=settings.betas, fused=True
    )


def build_stage(
    options,
    method: str,
    encoder: BertModel,
    tokenizer: BertTokenizer,
    train: dict[str, Sequence[Example]],
    sts_dev: Iterable[Example],
    run: Path,
    name: str,
    start: str,
    device: torch.device,
) -> Stage:
    """The stage that `method` names in --pretrain, judged by the STS dev pairs.

    `options` is the run's Options, `train` the training examples by task, `run` the run's folder, `name` that of the
    encoder's folder in it; `start` is the fingerprint of what the stage starts from; `encoder` is trained in place.
    Raises ValueError where a file that options name cannot be used.
    """
    settings = settings_of(method, options, encoder.config.hidden_size)
    material = collect(method, options, settings, train, tokenizer)
    dev_pairs = EncodedExamples(list(sts_dev), tokenizer, options.max_length, pair_encoding="bi")
    dev_labels(dev_pairs)  # what cannot judge the stage is said before anything is trained
    model = build_model(method, options, settings, encoder, device)
    model.shuffle = material.shuffle and material.shuffle.to(
        device
    )  # its order belongs to a checkpoint

    def quality(judged: BertModel = encoder) -> dict[str, float]:
        return processes.from_first(
            lambda: sts_quality(judged, dev_pairs, options.pooling, options.precision)
        )

    def before_epoch(epoch: int) -> None:
        if (
            material.shuffle and epoch > 0
        ):  # a model that has learned nothing yet knows no neighbours
            material.shuffle.renew(
                epoch,
                processes.from_first(
                    lambda: material.shuffle.order_of(
                        epoch, embed(encoder, material.shuffled, options.pooling, options.precision)
                    )
                ),
            )

    num_steps = len(material.plan(0, torch.Generator().manual_seed(options.seed)))
    evaluations = math.ceil(num_steps / settings.evaluate_every) if settings.evaluate_every else 4
    num_encoded = (
        int(material.shuffled.sizes.sum()) * (settings.epochs - 1) if material.shuffle else 0
    )
    job = Job(
        name=method,
        folder=run / "checkpoint" / method,
        model=model,
        optimizer=build_optimizer(
            model,
            settings,
            options.weight_decay,
            options.bsc_temperature_lr if method == "bsc" else SCALE_LR,
        ),
        plan=material.plan,
        load=lambda task, indices: material.rows[task].batch(indices).to(device),
        loss=lambda task, batch: (
            model(batch, task) / processes.count()
        ),  # each process computes the whole loss
        evaluate=lambda: scores_of_better(model, quality),
        score="spearman",
        epochs=settings.epochs,
        device=device,
        precision=options.precision,
        seed=options.seed,
        schedule=settings.schedule,
        warmup=settings.warmup,
        max_grad_norm=options.max_grad_norm,
        patience=settings.patience,
        save_every=options.save_every,
        evaluations_per_epoch=evaluations,
        closing_tokens=num_encoded,
        frozen=model.frozen(),
        before_epoch=before_epoch,
        evaluation_tokens=int(dev_pairs.sizes.sum()) * len(model.copies()),
    )
    notes = tuple(
        f"{method}: {len(each.examples):,} {'pairs' if each.examples[0].sentence_2 else 'sentences'}"
        f"{'' if name == method else f' of {name}'}, "
        f"{each.num_truncated:,} rows cut to {settings.max_length} tokens"
        for name, each in material.rows.items()
    )
    identity = {
        "method": method,
        "device": str(device),
        "torch": torch.__version__,
        "settings": asdict(settings),
        **options.of_stage("max_length", *OWN[method]),
    }  # the dev pairs' length
    fingerprint = stage_fingerprint(start, identity, (*material.examples, *dev_pairs.examples))
    return Stage(
        job,
        encoder,
        tokenizer,
        options.pooling,
        quality,
        "zero-shot STS dev",
        run / name,
        fingerprint,
        begin=model.begin,
        close=lambda: keep_better(model, quality),
        projection=model.projection,
        settings=asdict(settings) | {"betas": list(settings.betas)},
        notes=notes,  # as JSON gives them back
        keeps_better=options.hand_on == "better" and options.contrastive_order != "last",
        code=code_of(Path(__file__).parent, Path(__file__).parent.parent / "data"),
    )


def scores_of_better(
    model: Method, quality: Callable[[BertModel], dict[str, float]]
) -> dict[str, float]:
    """The scores of the encoder, or of the better one of two copies and beside them the Spearman of each."""
    scores = {name: quality(each) for name, each in model.copies().items()}
    if len(scores) == 1:
        return scores["only"]
    beside = {f"spearman_{name}": each["spearman"] for name, each in scores.items()}
    return max(scores.values(), key=lambda each: each["spearman"]) | beside


def keep_better(
    model: Method, quality: Callable[[BertModel], dict[str, float]]
) -> dict[str, float]:
    """Put the better one of two copies into the encoder; returns the Spearman of each, and the scale that learned.

    [CT] reports the worse copy, so that the choice is no advantage; who uses the encoder takes the better.
    """
    copies = model.copies()
    found = (
        {}
        if len(copies) == 1
        else {name: quality(each)["spearman"] for name, each in copies.items()}
    )
    if found:
        model.encoder.load_state_dict(copies[max(found, key=found.get)].state_dict())
    learned = {} if model.scale is None else {"scale that learned": model.scale.item()}
    return {f"Spearman of the {name} copy": score for name, score in found.items()} | learned
