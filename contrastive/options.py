"""Options of the contrastive stages: of single methods, then of all methods. No torch here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from contrastive.registry import METHODS, SHUFFLED
from data.options import check_numbers, numbers_by_task
from minbert.commands.options import (
    AUTO,
    MOST_EPOCHS,
    NONE,
    MethodOptions,
    OnlyWith,
    OptionGroup,
    flag,
    options_of,
)

HALVES = "halves"  # of the full width, in --matryoshka_widths
RANDOM_WORDS = "random-words"  # in place of a file: text that is drawn from the vocabulary


@dataclass(frozen=True)
class SupervisedOptions(OptionGroup):
    """Options of simcse-supervised (the GEN report)."""

    labelled_negatives: str = flag(
        "yes",
        "What PARA pairs labelled 0 are.\n"
        "- yes: candidates for the other pairs, without a loss of their own\n"
        "- maximised: candidates whose own loss is maximised (the GEN report)\n"
        "- no: left out",
        choices=("yes", "maximised", "no"),
    )
    unsupervised_too: str = flag(
        "sst,sts",
        "The tasks whose sentences follow the PARA pairs in each epoch, as unsupervised SimCSE.\n"
        "- sst,sts: first those of SST, then those of STS\n"
        "- none: only the PARA pairs",
        choices=("sst,sts", NONE),
    )

    @property
    def maximises_negatives(self) -> bool:
        """Whether the loss of pairs labelled 0 is maximised."""
        return self.labelled_negatives == "maximised"


@dataclass(frozen=True)
class NliOptions(OptionGroup):
    """Options of simcse-nli (Gao et al. 2021, section 4)."""

    nli: str = flag(
        NONE,
        "The file of triplets, which this stage needs: a table with the columns premise, "
        "entailment, contradiction, or sent0, sent1, hard_neg, or anchor, positive, negative. In "
        "labelled pairs (premise, hypothesis, label, as in SNLI and MNLI) the triplets are found.",
        is_file=True,
    )
    hard_negative_weight: float = flag(
        0.0, "Log-weight of a triplet's own contradiction.", low=-20, high=20
    )


@dataclass(frozen=True)
class BscOptions(OptionGroup):
    """Options of bsc (Chernyavskiy et al. 2022)."""

    bsc_symmetric: str = flag(
        "yes", "Softmax over rows and columns (yes), or over rows only.", choices=("yes", "no")
    )
    bsc_labelled_negatives: str = flag(
        "yes",
        "Whether pairs that do not belong together are candidates.",
        choices=("yes", "no"),
    )
    bsc_normalise: str = flag(
        "l2",
        "How vectors are scaled.\n"
        "- l2: to length 1\n"
        "- batch: each coordinate to its range in the batch\n"
        "- none: not at all",
        choices=("l2", "batch", NONE),
    )
    bsc_align: float | str = flag(
        NONE,
        "Share of this loss in the sum. The rest moves the cosine of a pair to its label. The "
        "paper uses 0.1 to 0.9. none: this loss alone.",
        low=0.01,
        high=0.99,
    )
    bsc_temperature_lr: float | str = flag(
        NONE,
        "Train 1 / temperature with this peak learning rate, from 1. The paper uses 1e-3. none: "
        "the temperature is fixed.",
        low=1e-9,
    )
    bsc_shuffle: str = flag(
        "random",
        "Which pairs share a batch.\n"
        "- random: pairs of similar length\n"
        "- any-length: any pairs\n"
        "- knn, cluster: similar pairs from the second epoch on, by neighbours or by k-means",
        choices=("random", "any-length", "knn", "cluster"),
    )
    bsc_group_size: int = flag(
        8,
        "Maximum number of neighbours in a group. The paper has groups of 3 to 8.",
        low=3,
        only_with=OnlyWith("bsc_shuffle", ("knn",)),
    )
    bsc_neighbours: int = flag(
        0,
        "Nearest pairs from which a group is filled. The authors' code takes 200. 0: as many as a "
        "group has members.",
        low=0,
        only_with=OnlyWith("bsc_shuffle", ("knn",)),
    )

    @property
    def num_neighbours(self) -> int:
        """The nearest pairs from which a group is filled."""
        return self.bsc_neighbours or self.bsc_group_size


@dataclass(frozen=True)
class TensionOptions(OptionGroup):
    """Option of ct and ct-in-batch (contrastive tension, Carlsson et al. 2021)."""

    ct_corpus: str = flag(
        NONE,
        "The text to read: a text file with a sentence or paragraph per line, or random-words "
        "(sequences drawn from the vocabulary). none: the tasks' training sentences.",
    )


@dataclass(frozen=True)
class CopyOptions(OptionGroup):
    """Which of two trained copies a stage gives back (ct and ct-in-batch)."""

    ct_copy: str = flag(
        "better",
        "Which of the two trained encoders is the result of ct and ct-in-batch.\n"
        "- better: by zero-shot STS. Without pairs that measure the stage it is the first one.\n"
        "- worse: the other one, which the paper reports\n"
        "- first, second: always this one\n"
        "- mean: one encoder with the mean of their weights",
        choices=("better", "worse", "first", "second", "mean"),
    )


@dataclass(frozen=True)
class NegativesOptions(OptionGroup):
    """Options of ct: its negative pairs."""

    ct_negatives: str = flag(
        "paper",
        "With ct: a negative pair is the anchor and another sentence, as in the paper, or two "
        "other sentences, as in its code.",
        choices=("paper", "code"),
    )
    ct_num_negatives: int = flag(
        7, "With ct: negative pairs for each positive one (K in the paper).", low=1, high=1000
    )
    ct_loss: str = flag(
        "code",
        "With ct: the loss of a negative pair with the score z.\n"
        "- code: -log s(-z), as in the authors' code\n"
        "- printed: -log s(1 - z), as the paper prints it",
        choices=("code", "printed"),
    )

    @property
    def has_printed_loss(self) -> bool:
        """Whether the loss is the printed one."""
        return self.ct_loss == "printed"


@dataclass(frozen=True)
class SelfGuidedOptions(OptionGroup):
    """Options of sg and sg-opt (Kim et al. 2021)."""

    sg_states: str = flag(
        "max",
        "How the hidden states of F are pooled: max, as in the paper, or mean, as in its code.",
        choices=("max", "mean"),
    )
    sg_regulariser: float = flag(
        0.1, "Weight of the squared distance between the weights of T and of F.", low=0
    )
    sg_layers: str = flag(
        "all",
        "The hidden states of F that are used: all, a range such as 4-12, or upper for all but the "
        "lowest third. State 0 is the embeddings. The paper leaves out the lowest ones in table "
        "4. It does not say how many.",
    )

    def check(self) -> None:
        if self.sg_layers in ("all", "upper"):
            return
        first, _, last = self.sg_layers.partition("-")
        are_numbers = first.isdecimal() and last.isdecimal()
        if not are_numbers or int(first) > int(last):
            raise ValueError(
                f"--sg_layers is '{self.sg_layers}'; it is all, upper, or the first and the last "
                "state, such as 4-12."
            )


@dataclass(frozen=True)
class DistillOptions(OptionGroup):
    """Options of distill (Reimers and Gurevych 2020)."""

    teacher: str = flag(
        "minilm",
        "The model whose sentence vectors are taught: any name or folder that --model takes, or a "
        "folder of sentence-transformers.",
    )
    teacher_text: str = flag(
        NONE,
        "The text on which it teaches: a text file with a sentence per line. none: the tasks' "
        "training sentences.",
        is_file=True,
    )


@dataclass(frozen=True)
class MnrOptions(OptionGroup):
    """Option of mnr (Henderson et al. 2017)."""

    mnr_similarity: str = flag(
        "cos",
        "Cosine, or the dot product of the paper.",
        choices=("cos", "dot"),
    )


@dataclass(frozen=True)
class MatryoshkaOptions(OptionGroup):
    """Option of matryoshka (Kusupati et al. 2022)."""

    matryoshka_widths: str = flag(
        HALVES,
        "The widths at which vectors are compared beside their full width, such as 24,48,96. "
        "halves: an eighth, a quarter and a half of it.",
    )

    def check(self) -> None:
        if self.matryoshka_widths == HALVES:
            return
        widths = self.matryoshka_widths.split(",")
        if not all(width.isdecimal() and int(width) > 0 for width in widths):
            raise ValueError(
                f"--matryoshka_widths is '{self.matryoshka_widths}'; it is halves, or whole "
                "numbers above 0 with commas between them, such as 24,48,96."
            )


@dataclass(frozen=True)
class ObjectiveOptions(OptionGroup):
    """Option of sg."""

    sg_loss: str = flag(
        "nt-xent",
        "With sg: which vectors of the trained encoder T and the fixed encoder F are compared.\n"
        "- nt-xent: all vectors are anchors\n"
        "- opt1: only those of T are anchors\n"
        "- opt2: as opt1, and only those of F are candidates",
        choices=("nt-xent", "opt1", "opt2"),
    )


@dataclass(frozen=True)
class ContrastiveOptions(OptionGroup):
    """What replaces the values of a method's preset, and the options of single methods."""

    contrastive_order: str = flag(
        "first",
        "When the contrastive stages of --pretrain run.\n"
        "- first: before the tasks\n"
        "- last: after the tasks\n"
        "- fusion: simcse together with the tasks. Each batch makes a step on its task, then a "
        "step on the contrastive loss.",
        choices=("first", "last", "fusion"),
    )
    # These replace values of the method's preset in presets.py.
    contrastive_epochs: int | str = flag(
        AUTO,
        "Epochs of a contrastive stage. auto, here and below: the value in the method's preset, "
        "which is printed when a run starts.",
        low=1,
        high=MOST_EPOCHS,
        is_common=True,
    )
    contrastive_steps: int | str = flag(
        AUTO, "Number of steps of a contrastive stage, in place of its epochs.", low=1
    )
    contrastive_batch_size: int | str = flag(
        AUTO, "Number of sentences or pairs in a batch.", low=2, is_common=True
    )
    contrastive_lr: float | str = flag(
        AUTO, "Peak learning rate. auto: the preset's x 768 / hidden size.", low=1e-9
    )
    contrastive_sentences: int | str = flag(
        AUTO,
        "Maximum number of the tasks' sentences that a stage reads, evenly spaced. 0: all of them. "
        "auto: all, and 1,000 of the bundled sample.",
        low=0,
    )
    contrastive_batches: str = flag(
        AUTO,
        "Which sentences or pairs share a batch.\n"
        "- similar: those of similar length, which is faster\n"
        "- random: any",
        choices=(AUTO, "similar", "random"),
    )
    contrastive_text_order: str = flag(
        AUTO,
        "The order of the tasks' sentences in each epoch of a stage.\n"
        "- shuffled: those of all tasks are mixed\n"
        "- names of tasks, such as sst,para,sts: one task after the other, and only these tasks",
    )
    contrastive_text_shares: str = flag(
        AUTO,
        "Share of a task's sentences that a stage reads in an epoch, such as para=0.06. Each epoch "
        "draws its own sentences. Tasks without a number are read whole. none: all are.",
    )
    contrastive_temperature: float | str = flag(AUTO, "Softmax temperature.", low=1e-3)
    contrastive_max_length: int | str = flag(AUTO, "Maximum number of tokens in a sentence.", low=4)
    contrastive_projection: str = flag(
        AUTO,
        "Layers between pooling and loss, in training only: none, a linear layer and tanh (Gao et "
        "al. 2021), or two layers (mlp, the GEN report). auto: the preset's, such as the wide "
        "one of sg.",
        choices=(AUTO, NONE, "tanh", "mlp"),
    )
    contrastive_optimizer: str = flag(
        AUTO, "AdamW, or RMSprop (alpha 0.9, epsilon 1e-7).", choices=(AUTO, "adamw", "rmsprop")
    )
    contrastive_schedule: str = flag(
        AUTO,
        "How the learning rate changes after the warm-up. tension: the steps of Carlsson et al. "
        "2021.",
        choices=(AUTO, "linear", "cosine", "constant", "tension"),
    )
    contrastive_warmup: float | str = flag(
        AUTO, "Share of the steps in which the learning rate rises from 0.", low=0, high=1
    )
    contrastive_evaluate_every: int | str = flag(
        AUTO,
        "Maximum number of steps between two evaluations. They are evenly spaced in an epoch. 0: "
        "four evaluations per epoch.",
        low=0,
    )
    contrastive_keep: str = flag(
        AUTO,
        "Which encoder is the result of a stage.\n"
        "- best: that of the evaluation with the best zero-shot STS\n"
        "- last: that of the last step",
        choices=(AUTO, "best", "last"),
    )
    contrastive_patience: int | str = flag(
        AUTO,
        "Stop after this number of evaluations without a better score. 0: never stop early.",
        low=0,
    )
    contrastive_chunk: int | str = flag(
        AUTO,
        "Number of rows in the encoder at a time, for large batches in little memory (gradient "
        "caching, Gao, Zhang et al. 2021). 0: the whole batch.",
        low=0,
    )
    of_method: MethodOptions = options_of(METHODS)

    @property
    def is_fusion(self) -> bool:
        """Whether SimCSE's loss is trained together with the tasks."""
        return self.contrastive_order == "fusion"

    @property
    def is_last(self) -> bool:
        """Whether the contrastive stages run after the tasks."""
        return self.contrastive_order == "last"

    @property
    def text_tasks(self) -> tuple[str, ...]:
        """The tasks that --contrastive_text_order names, in this order; none for all, shuffled."""
        order = self.contrastive_text_order
        return () if order in (AUTO, SHUFFLED) else tuple(order.split(","))

    def text_files(self) -> list[str]:
        """The files of text that the methods' own options name."""
        paths = [
            self.of_method[NliOptions].nli,
            self.of_method[TensionOptions].ct_corpus,
            self.of_method[DistillOptions].teacher_text,
        ]
        return [path for path in paths if path not in (NONE, RANDOM_WORDS)]

    def check_text(self, tasks: Sequence[str]) -> None:
        """Refuse an order or shares of the text that do not fit the tasks of the run.

        tasks: their names. ValueError says what to change.
        """
        order = self.text_tasks
        has_unknown = not set(order) <= set(tasks)
        if has_unknown or len(set(order)) < len(order):
            raise ValueError(
                f"--contrastive_text_order is '{self.contrastive_text_order}'; it is {SHUFFLED}, "
                f"or some of the tasks that are read, each once: {','.join(tasks)}."
            )
        shares = self.contrastive_text_shares
        if shares in (AUTO, NONE):
            return
        check_numbers("contrastive_text_shares", shares, order or tasks)
        for task, share in numbers_by_task(shares).items():
            if share > 1:
                raise ValueError(
                    f"--contrastive_text_shares {shares}: the share of {task} must be above 0 and "
                    "at most 1."
                )

    def check(self) -> None:
        if self.contrastive_keep == "last" and self.contrastive_patience not in (AUTO, 0):
            raise ValueError(
                f"--contrastive_patience {self.contrastive_patience} has no effect with "
                "--contrastive_keep last, which trains to the last step. Drop one of the two."
            )
        if AUTO not in (self.contrastive_steps, self.contrastive_epochs):
            raise ValueError(
                f"--contrastive_steps {self.contrastive_steps} and --contrastive_epochs "
                f"{self.contrastive_epochs} both say when a stage ends. Drop one of the two."
            )
        # Similar pairs are found before each epoch but the first.
        shuffle = self.of_method[BscOptions].bsc_shuffle
        if shuffle in ("knn", "cluster") and self.contrastive_epochs == 1:
            raise ValueError(
                f"--bsc_shuffle {shuffle} has no effect in one epoch: it begins with "
                "the second. Drop --contrastive_epochs 1, or the shuffle."
            )
