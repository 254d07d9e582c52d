"""The rows that each contrastive method reads, and the steps of its epochs.

A function makes `Inputs` of a `Source`, and stage.py trains on them. Most methods have the function
of what they read. Some have one of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import NamedTuple

import torch

from contrastive import sentences
from contrastive.batch_order import (
    Groups,
    Renewal,
    Shuffle,
    draw_shares,
    tension_plan,
    text_plan,
    window_of,
)
from contrastive.embedder import open_embedder
from contrastive.options import (
    BscOptions,
    DistillOptions,
    NegativesOptions,
    NliOptions,
    SupervisedOptions,
    TensionOptions,
)
from contrastive.registry import METHODS, SHUFFLED, Reads, Settings
from data.batching import WINDOW, EncodedExamples, length_grouped_batches
from data.examples import Example, evenly_spaced
from data.options import numbers_by_task
from minbert import BertTokenizer
from minbert.commands.options import NONE, MethodOptions
from minbert.training.job import Step, TaskBatch
from minbert.training.options import TrainingOptions

EncodedRows = EncodedExamples | sentences.EncodedGroups


@dataclass(frozen=True)
class Inputs:
    """Rows by the name that a step gives them, and the steps of an epoch.

    A `renewal`, such as BSC's shuffle, is worked out before each epoch but the first, from the
    vectors of `renewal_rows`. For distill also the `teacher`: what decides its vectors, by name.
    """

    rows: Mapping[str, EncodedRows]
    plan: Callable[[int, torch.Generator], list[Step]]
    renewal: Renewal | None = None
    renewal_rows: EncodedExamples | None = None
    teacher: Mapping[str, str] = field(default_factory=dict)
    text: str = ""  # what an epoch reads of each task, where it does not read everything, shuffled

    @property
    def examples(self) -> list[Example]:
        """All rows as text, in order."""
        examples: list[Example] = []
        for rows in self.rows.values():
            examples += rows.examples
        return examples


class Source(NamedTuple):
    """Where a method's rows come from."""

    method: str
    method_options: MethodOptions  # ContrastiveOptions.of_method
    settings: Settings
    train: Mapping[str, Sequence[Example]]  # training examples by task
    tokenizer: BertTokenizer
    training: TrainingOptions  # seed, device and precision of the run
    hidden_size: int  # of the encoder that is trained
    triplets: Sequence[tuple[str, ...]] = ()  # in place of the file of --nli

    def encode(self, examples: Iterable[Example], pair_encoding: str = "cross") -> EncodedExamples:
        """Token ids of examples, cut to the method's maximum length."""
        max_length = self.settings.max_length
        return EncodedExamples(list(examples), self.tokenizer, max_length, pair_encoding)

    def sentences(self, tasks: Iterable[str], limit: int = 0) -> EncodedExamples:
        """The different sentences of these tasks. limit: at most so many, 0 for all."""
        max_length = self.settings.max_length
        examples = self.examples(tasks)
        unique = sentences.unique_sentences(examples, self.tokenizer, max_length)
        # Each task keeps its share.
        return self.encode(evenly_spaced(unique, limit) if limit else unique)

    def examples(self, tasks: Iterable[str]) -> list[Example]:
        """The training examples of these tasks, one task after the other."""
        examples: list[Example] = []
        for task in tasks:
            examples += self.train[task]
        return examples

    def rows_by_task(self, rows: EncodedExamples, tasks: Sequence[str]) -> dict[str, list[int]]:
        """The numbers of the rows whose sentences each of the tasks has brought.

        rows: made by `sentences` of the same tasks. A sentence of two tasks belongs to the first.
        """
        first_task: dict[str, str] = {}
        for task in tasks:
            for example in self.train[task]:
                for text in example.texts:
                    first_task.setdefault(text, task)

        rows_of: dict[str, list[int]] = {task: [] for task in tasks}
        for number, example in enumerate(rows.examples):
            rows_of[first_task[example.sentence_1]].append(number)
        return rows_of

    def pairs(self, sts: Sequence[Example], keeps_negatives: bool) -> EncodedExamples:
        """The labelled pairs of PARA and of `sts`, each sentence in a row of its own.

        Raises ValueError where none is left.
        """
        pairs = sentences.labelled_pairs(self.train.get("para", ()), sts, keeps_negatives)
        if not pairs:
            raise ValueError(
                f"--pretrain {self.method}: the training rows of the tasks hold no pair of "
                "sentences that belong together. Add para or sts to --tasks, or raise --train_rows."
            )
        return self.encode(pairs, "bi")


def collect(source: Source) -> Inputs:
    """The inputs of the source's method.

    ValueError where a file that its options name cannot be used.
    """
    entry = METHODS[source.method]
    collector = entry.collector or OF_METHODS.get(source.method) or OF_READS[entry.reads]
    return collector(source)


# --- the rows of each method ----------------------------------------------------------------------


def all_sentences(source: Source) -> Inputs:
    """simcse, sg, sg-opt: the different sentences of all tasks.

    They are shuffled, or task after task as --contrastive_text_order says. An epoch reads of each
    task what --contrastive_text_shares says.
    """
    settings = source.settings
    is_shuffled = settings.text_order == SHUFFLED
    tasks = list(source.train) if is_shuffled else settings.text_order.split(",")
    rows = source.sentences(tasks, settings.sentences)
    rows_of = source.rows_by_task(rows, tasks)
    shares = numbers_by_task(settings.text_shares)
    window = window_of(settings)

    def plan(epoch: int, generator: torch.Generator) -> list[Step]:
        groups = list(draw_shares(rows_of, shares, generator).values())
        if is_shuffled:
            groups = [list(chain.from_iterable(groups))]
        return text_plan(
            source.method, groups, rows.lengths, settings.batch_size, generator, window
        )

    return Inputs({source.method: rows}, plan, text=describe_text(rows_of, shares, is_shuffled))


def paraphrase_pairs(source: Source) -> Inputs:
    """simcse-supervised: PARA's pairs, then the sentences of tasks without such labels ([GEN])."""
    options = source.method_options[SupervisedOptions]
    keeps_negatives = options.labelled_negatives != "no"
    rows: dict[str, EncodedRows] = {source.method: source.pairs((), keeps_negatives)}
    for task in source.train:
        if task in options.unsupervised_too.split(","):
            rows[task] = source.sentences([task])
    return in_turn(rows, source.settings)


def nli_triplets(source: Source) -> Inputs:
    """simcse-nli: the triplets of --nli, or those of the source."""
    triplets = [sentences.Triplet(*texts) for texts in source.triplets]
    if not triplets:
        triplets = sentences.read_triplets(source.method_options[NliOptions].nli)
    encoded = sentences.EncodedGroups(triplets, source.tokenizer, source.settings.max_length)
    return in_turn({source.method: encoded}, source.settings)


def ranking_pairs(source: Source) -> Inputs:
    """mnr: the pairs of PARA and STS that belong together; one of the two may not be read."""
    pairs = source.pairs(source.train.get("sts", ()), keeps_negatives=False)
    return in_turn({source.method: pairs}, source.settings)


def scored_pairs(source: Source) -> Inputs:
    """cosent: the pairs of PARA and STS with their labels.

    ValueError where all labels are equal.
    """
    pairs = source.pairs(source.train.get("sts", ()), keeps_negatives=True)
    labels = {sentences.label_of(pair) for pair in pairs.examples}
    if len(labels) == 1:
        raise ValueError(
            f"--pretrain {source.method}: all {len(pairs):,} pairs are labelled {labels.pop():g}; "
            "the method compares pairs with different labels, and would learn nothing. Add pairs "
            "with other labels, or take mnr."
        )
    return in_turn({source.method: pairs}, source.settings)


def softmax_pairs(source: Source) -> Inputs:
    """bsc: the labelled pairs of PARA and STS, in the order that --bsc_shuffle names."""
    options = source.method_options[BscOptions]
    keeps_negatives = options.bsc_labelled_negatives == "yes"
    pairs = source.pairs(source.train.get("sts", ()), keeps_negatives)
    rows = {source.method: pairs}
    name = options.bsc_shuffle
    if name in ("random", "any-length"):
        window = WINDOW if name == "random" else 1
        return in_turn(rows, source.settings, window=window)

    # The shuffle compares pairs by their first sentences.
    groups = Groups(options.bsc_group_size, options.num_neighbours)
    shuffle = Shuffle(name, len(pairs), source.settings.batch_size, source.training.seed, groups)
    first = [sentences.unlabelled(pair.id, pair.sentence_1) for pair in pairs.examples]
    inputs = in_turn(rows, source.settings, shuffle)
    return replace(inputs, renewal_rows=source.encode(first))


def taught_sentences(source: Source) -> Inputs:
    """distill: sentences, each with the vector that the teacher gives it.

    ValueError for a teacher or a text that cannot be used.
    """
    options = source.method_options[DistillOptions]
    max_length = source.settings.max_length
    if options.teacher_text == NONE:
        examples = list(source.sentences(source.train).examples)
    else:
        lines = sentences.read_sentences(options.teacher_text)
        examples = sentences.unique_sentences(lines, source.tokenizer, max_length)
    if len(examples) < 2:
        raise ValueError(
            f"{source.method}: the text has {len(examples)} different sentences. A "
            "teacher says how similar two are, so at least 2 are expected. Add more text."
        )
    # It reads whole sentences, wherever the student cuts them.
    training = source.training
    teacher, _ = open_embedder(
        options.teacher, device=training.device, precision=training.precision
    )
    vectors, _ = teacher.encode([example.sentence_1 for example in examples])
    targets = sentences.change_width(vectors, source.hidden_size)  # (N, H)
    rows = sentences.TaughtSentences(examples, targets, source.tokenizer, max_length)
    inputs = in_turn({source.method: rows}, source.settings)
    return replace(inputs, teacher=teacher.identity())


def tension_rows(source: Source) -> EncodedExamples:
    """The sentences of contrastive tension: those of the tasks, or of --ct_corpus."""
    chosen = sentences.tension_sentences(
        source.method_options[TensionOptions].ct_corpus,
        source.examples(source.train),
        source.tokenizer,
        source.settings.max_length,
        source.training.seed,
    )
    return source.encode(chosen)


def tension_pairs(source: Source) -> Inputs:
    """ct: pairs of one sentence with itself, and of two different ones."""
    rows = tension_rows(source)
    options = source.method_options[NegativesOptions]
    follows_code = options.ct_negatives == "code"
    number = options.ct_num_negatives

    def plan(epoch: int, generator: torch.Generator) -> list[Step]:
        size = source.settings.batch_size
        return tension_plan(len(rows), size, follows_code, generator, number)

    return Inputs({source.method: rows}, plan)


def tension_in_batch(source: Source) -> Inputs:
    """ct-in-batch: single sentences."""
    return in_turn({source.method: tension_rows(source)}, source.settings)


def describe_text(
    rows_of: Mapping[str, Sequence[int]], shares: Mapping[str, float], is_shuffled: bool
) -> str:
    """What an epoch reads, in words; empty where it reads all sentences, shuffled."""
    if is_shuffled and not shares:
        return ""
    numbers = draw_shares(rows_of, shares, torch.Generator().manual_seed(0))
    parts = []
    for task, rows in numbers.items():
        drawn = f" (drawn from {len(rows_of[task]):,})" if len(rows) < len(rows_of[task]) else ""
        parts.append(f"{len(rows):,} sentences of {task}{drawn}")
    if is_shuffled:
        return f"each epoch reads, shuffled: {', '.join(parts)}"
    return f"each epoch reads {', then '.join(parts)}"


# --- by name --------------------------------------------------------------------------------------

Collector = Callable[[Source], Inputs]
OF_READS: dict[Reads, Collector] = {
    "sentences": all_sentences,
    "labelled pairs": ranking_pairs,
    "triplets": nli_triplets,
}
# The methods whose entry in presets.py has `has_own_rows`.
OF_METHODS: dict[str, Collector] = {
    "simcse-supervised": paraphrase_pairs,
    "bsc": softmax_pairs,
    "ct": tension_pairs,
    "ct-in-batch": tension_in_batch,
    "distill": taught_sentences,
    "cosent": scored_pairs,
}


# --- the steps of an epoch ------------------------------------------------------------------------


def in_turn(
    rows: Mapping[str, EncodedRows],
    settings: Settings,
    shuffle: Shuffle | None = None,
    window: int | None = None,
) -> Inputs:
    """An epoch that passes once over the rows of each name, one name after the other.

    Batches have rows of similar length within windows of `window` batches (1: of any length, None:
    as the settings say), or the order of the shuffle where that has one for the epoch.
    """
    num_sorted = window_of(settings) if window is None else window

    def plan(epoch: int, generator: torch.Generator) -> list[Step]:
        # Without an order for this epoch, such as in the first one, batches go by length.
        ordered = [] if shuffle is None else shuffle.batches(epoch)
        steps: list[Step] = []
        for name, encoded in rows.items():
            batches = ordered or length_grouped_batches(
                encoded.lengths, settings.batch_size, generator, num_sorted
            )
            steps += [[TaskBatch(name, batch)] for batch in batches]
        return steps

    return Inputs(rows, plan, shuffle)
