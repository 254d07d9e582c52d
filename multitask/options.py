"""Options of the multitask stage. No torch here."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, NamedTuple

from data.examples import BUILT_IN_FILES, COURSE_FILES
from data.task_specs import BUILT_IN
from minbert.commands.options import (
    AUTO,
    MOST_EPOCHS,
    NONE,
    MethodOptions,
    OnlyWith,
    OptionGroup,
    changed,
    flag,
    flat,
    group,
    options_of,
)
from minbert.commands.registry import Names
from multitask.head_registry import HEADS
from multitask.regulariser_registry import REGULARISERS
from multitask.sampler_registry import SAMPLERS, Sampler
from multitask.surgery_registry import SURGERIES

OVERALL_SCORES = ("overall_2023", "overall_2024")


@dataclass(frozen=True)
class TaskOptions(OptionGroup):
    """The tasks, which batches make a step, and how its losses become one gradient."""

    tasks: str = flag(
        "sst,para,sts",
        "Tasks to train, in this order: of sst, para, sts, cfimdb, and of your own in --task. Only "
        "they are read. With --sampling sequential or epoch-round-robin a task may come several "
        "times.",
        is_common=True,
    )
    untrained_tasks: str = flag(
        NONE,
        "Tasks that are read and scored although they are not trained, as the course reports do, "
        "such as para,sts.",
    )
    sampling: str = flag("mt-dnn", "Which batches make a step.", choices=SAMPLERS, is_common=True)
    of_sampler: MethodOptions = options_of(SAMPLERS, "sampling")
    surgery: str = flag(
        "mean",
        "How the losses of a step become one gradient.",
        choices=SURGERIES,
        is_common=True,
    )
    of_surgery: MethodOptions = options_of(SURGERIES, "surgery")
    score: str = flag(
        AUTO,
        "The dev score that selects the best epoch: a task of --tasks, mean, or with sst, para and "
        "sts overall_2023 or overall_2024. auto: overall_2023 of exactly these three, otherwise "
        "the mean.",
    )

    @property
    def order(self) -> tuple[str, ...]:
        """The names of the tasks, in order. A name may come several times."""
        return tuple(self.tasks.split(","))

    @property
    def read(self) -> tuple[str, ...]:
        """The names of the tasks whose files are read, each once."""
        untrained = () if self.untrained_tasks == NONE else self.untrained_tasks.split(",")
        return tuple(dict.fromkeys((*self.order, *untrained)))

    @property
    def changes_gradients(self) -> bool:
        """Whether each task's own gradient is needed."""
        return SURGERIES[self.surgery].changes_gradients

    @property
    def sampler(self) -> Sampler:
        """The entry of --sampling."""
        return SAMPLERS[self.sampling]

    def check(self) -> None:
        self.check_names()
        self.check_score()
        self.sampler.check(self.of_sampler, self.order)
        SURGERIES[self.surgery].check(self.of_surgery, self.order)

    def check_names(self) -> None:
        # Which names there are is checked where --task is known, too (command_line/checks.py).
        is_repeated = len(set(self.order)) < len(self.order)
        if is_repeated and not self.sampler.has_long_turns:
            names = [name for name, entry in SAMPLERS.items() if entry.has_long_turns]
            raise ValueError(
                f"--tasks {self.tasks} names a task twice; that has a meaning with --sampling "
                f"{' and '.join(names)} only."
            )
        untrained = self.read[len(set(self.order)) :]
        if self.untrained_tasks != NONE and ",".join(untrained) != self.untrained_tasks:
            raise ValueError(
                f"--untrained_tasks is '{self.untrained_tasks}'; it is none, or tasks that are not "
                f"in --tasks {self.tasks}, each once, separated by commas."
            )

    def check_score(self) -> None:
        scores = set(self.order)
        has_mean = len(scores) > 1 and scores != set(COURSE_FILES)
        if scores >= set(COURSE_FILES):
            scores |= set(OVERALL_SCORES)
        if has_mean:
            scores.add("mean")
        if self.score not in (AUTO, *scores):
            raise ValueError(
                f"--score {self.score} cannot select an epoch of --tasks {self.tasks}; it can be "
                f"{', '.join(sorted(scores))}."
            )


def help_of_encodings() -> str:
    """The help of --pair_encoding, which says what each head takes."""
    heads: dict[str, list[str]] = {}
    for name, entry in HEADS.items():
        heads.setdefault(entry.encodings[0], []).append(name)
    preferred = ", ".join(f"{name} for {' and '.join(names)}" for name, names in heads.items())
    return (
        "How a pair of sentences is encoded.\n"
        "- cross: one row '[CLS] a [SEP] b [SEP]'\n"
        "- bi: each sentence alone\n"
        "- dual: one row in each order\n"
        f"- auto: {preferred}. With --option pretrain also bi for features."
    )


FEW_PAIRS = 1000  # training rows with scores; a round number, and no measured limit


@dataclass(frozen=True)
class HeadOptions(OptionGroup):
    """What reads the sentence vectors, and how pairs are encoded."""

    pair_encoding: str = flag(
        AUTO, help_of_encodings, choices=(AUTO, "cross", "bi", "dual"), is_common=True
    )
    head: str = flag(
        "features",
        "The layers that read the vectors u and v of a pair.",
        choices=HEADS,
        is_common=True,
    )
    of_head: MethodOptions = options_of(HEADS)
    few_pairs: int = flag(
        0,
        "Take --head cosine --pair-encoding bi where all tasks are pairs of your own with scores, "
        "with at most this number of training rows, and the scores rise with the cosines of the "
        "encoder. If all tasks are your own and you pass no flag about heads, it is "
        f"{FEW_PAIRS}. 0: never.",
        low=0,
    )
    # Options of some heads, and of one task.
    para_head: str = flag(
        AUTO,
        "The head of PARA. auto: --head.",
        choices=Names(HEADS, lambda head: head.has_weights and not head.has_pair_module, (AUTO,)),
        only_with=OnlyWith("head", Names(HEADS, lambda head: not head.has_pair_module)),
    )
    sharing: str = flag(
        NONE,
        "With --head mlp: PARA and STS, and other pairs, share nothing, their heads, or the first "
        "layer of them.",
        choices=(NONE, "heads", "first"),
        only_with=OnlyWith("head", Names(HEADS, lambda head: head.has_pair_module)),
    )
    sts_range: str = flag(
        "zero",
        "With --head mlp or cosine: the cosines that stand for the labels of STS and other scores "
        "of pairs.\n"
        "- zero: 0 to 1\n"
        "- fitted: M to 1. M is the mean cosine of the least similar training pairs when the tasks "
        "begin (Carlsson et al. 2021)",
        choices=("zero", "fitted"),
        only_with=OnlyWith("head", Names(HEADS, lambda head: head.answers_by_cosine)),
    )
    para_prior: float | str = flag(
        NONE,
        "Share of paraphrases among the pairs to predict, if it differs from that in training "
        "(Menon et al. 2021). none: as in training.",
        low=0.01,
        high=0.99,
    )
    # The layers before all heads.
    common_layer: str = flag(
        "tanh",
        "A linear layer and tanh before all heads (CL in the ROB report), or none.",
        choices=("tanh", NONE),
    )
    vector_dropout_prob: float = flag(
        0.0, "Dropout of sentence vectors, before the common layer.", low=0, high=0.9
    )
    hidden_dropout_prob: float = flag(
        0.1,
        "Dropout before each head (the course's flag). With --head mlp: before each of its layers, "
        "0.3 in the GEN report. The dropout in the encoder is --encoder_dropout.",
        low=0,
        high=0.9,
        is_common=True,
    )

    @property
    def head_of_para(self) -> str:
        """The head of PARA, which is that of all pairs where --para_head is "auto"."""
        return self.head if self.para_head == AUTO else self.para_head

    def head_of(self, task: str) -> str:
        """The head of a task. PARA may have its own."""
        return self.head_of_para if task == "para" else self.head

    def heads_by_flag(self) -> dict[str, str]:
        """The chosen heads, by the flag that names them: "--para_head" only where it is passed."""
        if self.para_head == AUTO:
            return {"--head": self.head}
        return {"--head": self.head, "--para_head": self.para_head}

    def method_values(self) -> dict[str, Any]:
        """The values of the heads' own options, by name."""
        values: dict[str, Any] = {}
        for item in self.of_head.groups:
            values |= flat(item)
        return values

    def prior_of(self, task: str) -> float | None:
        """The share of the second class among the pairs to predict, if it is given for a task."""
        has_prior = task == "para" and self.para_prior != NONE
        return float(self.para_prior) if has_prior else None

    def readable_encodings(self) -> list[str]:
        """The pair encodings that both heads can read, the preferred one first."""
        of_para = HEADS[self.head_of_para].encodings
        return [name for name in HEADS[self.head].encodings if name in of_para]

    def shares_a_layer(self, tasks: TaskOptions) -> bool:
        """Whether all tasks of a joint step share a layer after the encoder."""
        # Without a task of single sentences, all tasks may be pairs.
        singles = {name for name, spec in BUILT_IN.items() if not spec.is_pair}
        has_only_pairs = len(set(tasks.order)) > 1 and not singles & set(tasks.order)
        shares_head = self.sharing != NONE and has_only_pairs
        return self.common_layer == "tanh" or shares_head

    def check(self) -> None:
        # PARA may have a head of its own, so the own options of two heads may take effect.
        differing = changed(self)
        for option in self.method_values():
            readers = HEADS.readers(option)
            if option in differing and not {self.head, self.head_of_para} & set(readers):
                raise ValueError(
                    f"--{option} has no effect with --head {self.head}; add --head "
                    f"{' or '.join(readers)}, or drop it."
                )
        if not self.readable_encodings():
            raise ValueError(
                f"--head {self.head} and --para_head {self.head_of_para} read pairs in different "
                f"encodings ({' or '.join(HEADS[self.head].encodings)}; "
                f"{' or '.join(HEADS[self.head_of_para].encodings)}). Choose another of the two."
            )
        for head_flag, head in self.heads_by_flag().items():
            if self.pair_encoding not in (AUTO, *HEADS[head].encodings):
                raise ValueError(
                    f"{head_flag} {head} cannot read --pair_encoding {self.pair_encoding}. It must "
                    f"be {' or '.join(HEADS[head].encodings)}."
                )


ENOUGH_STEPS = 200  # of training; with fewer ones a model is often worse than it could be
MOST_ADDED_EPOCHS = 30  # for --least_steps
ALL = "all"  # of --score_train
MOST_INGREDIENTS = 100  # of --soup


@dataclass(frozen=True)
class FineTuningOptions(OptionGroup):
    """How long and how fast the multitask stage trains, and what of the encoder is frozen."""

    option: str = flag(
        "finetune",
        "Which weights are trained (the course's flag).\n"
        "- pretrain: the shared layer and the heads, on a frozen encoder\n"
        "- finetune: all weights",
        choices=("finetune", "pretrain"),
        is_common=True,
    )
    epochs: int = flag(3, "Epochs of the multitask stage.", low=1, high=MOST_EPOCHS, is_common=True)
    least_steps: int = flag(
        0,
        "Train more than --epochs, at most 30 epochs, until this number of steps. If all tasks are "
        "your own and you pass no --epochs, it is 200: a small table has few steps in an epoch.",
        low=0,
    )
    batch_size: int = flag(32, "Number of rows in a batch, all of one task.", low=1, is_common=True)
    max_tokens: int = flag(
        0,
        "Maximum number of tokens in a batch, padding included. Batches of long rows then have "
        "fewer rows. 0: no limit.",
        low=0,
    )
    lr: float | str = flag(
        AUTO,
        "Peak learning rate. auto: 5e-5 x 384 / hidden size, or 5e-4 for encoders narrower than "
        "256 units, or 1e-3 with --option pretrain.",
        low=1e-9,
        is_common=True,
    )
    accumulation: int = flag(
        1, "Number of steps whose gradients make one update.", low=1, is_common=True
    )
    score_train: str = flag(
        NONE,
        "Also score the trained model on its training rows: all, or a number of rows of each task, "
        "at even distances in the file. none: do not.",
    )
    class_weights: str = flag(
        NONE,
        "What a row of each class counts in the loss of a task with classes.\n"
        "- none: all rows count the same\n"
        "- balanced: the rows of a class count in sum as much as those of any other class",
        choices=(NONE, "balanced"),
    )
    regulariser: str = flag(NONE, "What is added to the loss of each task.", choices=REGULARISERS)
    of_regulariser: MethodOptions = options_of(REGULARISERS, "regulariser")
    # Which weights are scored and kept.
    averaging: str = flag(
        NONE,
        "Average the weights over the steps. The average is scored, and the best one is kept.\n"
        "- none: the weights themselves\n"
        "- ema: exponential moving average of all steps\n"
        "- swa: mean of the later steps, stochastic weight averaging (Izmailov et al. 2018)",
        choices=(NONE, "ema", "swa"),
    )
    ema_decay: float = flag(
        0.999,
        "With --averaging ema: the share of the old average that stays in each step. In step n it "
        "is at most (1 + n) / (10 + n).",
        low=0,
        high=0.999999,
        only_with=OnlyWith("averaging", ("ema",)),
    )
    swa_start: float = flag(
        0.5,
        "With --averaging swa: the share of the steps after which the mean begins.",
        low=0,
        high=1,
        only_with=OnlyWith("averaging", ("swa",)),
    )
    swa_every: int = flag(
        1,
        "With --averaging swa: the number of steps between two weights of the mean.",
        low=1,
        only_with=OnlyWith("averaging", ("swa",)),
    )
    soup: int = flag(
        1,
        "Train the multitask stage this number of times from the same weights, with the rows in "
        "another order each time, and keep the mean of the models: a model soup (Wortsman et al. "
        "2022).",
        low=1,
        high=MOST_INGREDIENTS,
    )
    soup_kind: str = flag(
        "uniform",
        "With --soup: which of the models, the ingredients, are in the mean.\n"
        "- uniform: all of them\n"
        "- greedy: from the best one down, each one with which the dev score of the mean does not "
        "fall",
        choices=("uniform", "greedy"),
    )
    # How much of the encoder is trained, and when.
    layer_decay: float = flag(
        1.0,
        "The learning rate of an encoder layer is this times that of the layer above it.",
        low=0.1,
        high=1,
    )
    freeze: str = flag(
        NONE,
        "Which part of the encoder is not trained: none, embeddings, or a number such as 2 (the "
        "embeddings and the 2 lowest layers).",
        is_common=True,
    )
    heads_first: int = flag(
        0,
        "Additional epochs before the others in which the encoder is frozen.",
        low=0,
        high=MOST_EPOCHS,
    )
    # Each task alone, after the multitask stage.
    single_task_epochs: int = flag(
        0,
        "Additional epochs of each task alone, after the multitask stage. Each task is trained "
        "from a copy of the multitask model, and keeps the copy if its dev score is higher. "
        "0: none.",
        low=0,
        high=MOST_EPOCHS,
    )
    single_task_lr: float | str = flag(
        AUTO,
        "Peak learning rate of --single_task_epochs. auto: that of --lr.",
        low=1e-9,
    )
    patience: int = flag(
        0, "Stop after this number of epochs without a better score. 0: never stop early.", low=0
    )

    @property
    def freezing_flag(self) -> str | None:
        """The flag that freezes the whole encoder, throughout or at first. None where it is not."""
        if self.option == "pretrain":
            return "--option pretrain"
        # `check` refuses both flags together.
        return f"--heads_first {self.heads_first}" if self.heads_first else None

    @property
    def is_greedy_soup(self) -> bool:
        """Whether --soup leaves out ingredients that make it worse."""
        return self.soup_kind == "greedy"

    @property
    def step_cost(self) -> float:
        """The cost of a step, in steps without a regulariser."""
        return REGULARISERS[self.regulariser].cost(self.of_regulariser)

    def num_needed_epochs(self, num_rows: Collection[int]) -> int:
        """How many epochs --least_steps asks for, and never fewer than --epochs.

        num_rows: the training rows of each task.
        """
        needed = math.ceil(self.least_steps / self.num_updates(num_rows))
        return max(self.epochs, min(needed, MOST_ADDED_EPOCHS))

    def num_updates(self, num_rows: Collection[int]) -> int:
        """How many steps an epoch has that reads each row once.

        num_rows: the training rows of each task.
        """
        num_batches = sum(math.ceil(rows / self.batch_size) for rows in num_rows)
        return max(1, num_batches // self.accumulation)

    def num_scored_rows(self, num_rows: int) -> int:
        """How many of a task's training rows --score_train scores."""
        if self.score_train == NONE:
            return 0
        return num_rows if self.score_train == ALL else min(num_rows, int(self.score_train))

    def check(self) -> None:
        is_number = self.score_train.isdecimal() and int(self.score_train) > 0
        if not (self.score_train in (NONE, ALL) or is_number):
            raise ValueError(
                f"--score_train is '{self.score_train}'; it is none, all, or a number of rows."
            )
        if self.is_greedy_soup and self.soup == 1:
            raise ValueError(
                "--soup_kind greedy has no effect without --soup; pass --soup 3, or drop it."
            )
        if self.single_task_lr != AUTO and not self.single_task_epochs:
            raise ValueError(
                "--single_task_lr has no effect without --single_task_epochs; add that, or drop it."
            )
        if not (self.freeze in (NONE, "embeddings") or self.freeze.isdecimal()):
            raise ValueError(
                f"--freeze is '{self.freeze}'; it is none, embeddings, or a number of layers."
            )
        if self.option == "pretrain":
            self.check_frozen_encoder()

    def check_frozen_encoder(self) -> None:
        """Refuse options on how the encoder is trained where --option pretrain freezes it."""
        flags = []
        for name, value in changed(self).items():
            if name in ("freeze", "heads_first", "layer_decay"):
                flags.append(f"--{name} {value}")
        if flags:
            names = " and ".join(flags)
            raise ValueError(
                f"--option pretrain freezes the whole encoder, so {names} would have no effect. "
                f"Drop {names}, or pass --option finetune."
            )


@dataclass(frozen=True)
class PredictionFileOptions(OptionGroup):
    """Where the leaderboard files go."""

    sst_dev_out: str = flag(AUTO, "auto: RUN/predictions/sst-dev-output.csv.", is_file=True)
    sst_test_out: str = flag(AUTO, "auto: RUN/predictions/sst-test-output.csv.", is_file=True)
    para_dev_out: str = flag(AUTO, "auto: RUN/predictions/para-dev-output.csv.", is_file=True)
    para_test_out: str = flag(AUTO, "auto: RUN/predictions/para-test-output.csv.", is_file=True)
    sts_dev_out: str = flag(AUTO, "auto: RUN/predictions/sts-dev-output.csv.", is_file=True)
    sts_test_out: str = flag(AUTO, "auto: RUN/predictions/sts-test-output.csv.", is_file=True)
    cfimdb_dev_out: str = flag(AUTO, "auto: RUN/predictions/cfimdb-dev-output.csv.", is_file=True)
    cfimdb_test_out: str = flag(AUTO, "auto: RUN/predictions/cfimdb-test-output.csv.", is_file=True)
    overwrite: bool = flag(
        False,
        "Replace any files at these paths. Without this flag, only files of predictions are "
        "replaced.",
    )

    def check(self) -> None:
        paths = [value for name, value in flat(self).items() if name.endswith("_out")]
        if self.overwrite and set(paths) == {AUTO}:
            raise ValueError(
                "--overwrite has no effect without a path such as --sst_dev_out; add one, or drop "
                "it."
            )

    def path_of(self, task: str, split: str) -> str:
        """The path of one prediction file, or "auto", as always for a user's own task."""
        return getattr(self, f"{task}_{split}_out", AUTO)


class TaskFlag(NamedTuple):
    """An option that has an effect for one task only."""

    name: str
    task: str
    is_changed: bool  # it has another value than its default
    tasks: Collection[str]  # those of the run for which such an option has an effect


@dataclass(frozen=True)
class MultitaskOptions(OptionGroup):
    """All options of the multitask stage."""

    tasks: TaskOptions = group(TaskOptions)
    heads: HeadOptions = group(HeadOptions)
    fine_tuning: FineTuningOptions = group(FineTuningOptions)
    files: PredictionFileOptions = group(PredictionFileOptions)

    def check(self) -> None:
        if self.fine_tuning.class_weights != NONE and self.heads.para_prior != NONE:
            raise ValueError(
                f"--class_weights balanced and --para_prior {self.heads.para_prior:g} both say how "
                "much the pairs of a class count. Drop one of the two."
            )
        self.check_surgery()
        self.check_tasks_of_options()
        self.check_sampling()
        self.check_cosine()
        if self.fine_tuning.single_task_epochs and len(set(self.tasks.order)) == 1:
            raise ValueError(
                f"--single_task_epochs has no effect with --tasks {self.tasks.tasks}: the only "
                "task is trained alone already. Pass more --epochs, or drop it."
            )

    def check_surgery(self) -> None:
        """Refuse surgery where a step has one gradient only, or where the tasks share nothing."""
        tasks = self.tasks
        if not SURGERIES[tasks.surgery].needs_several_tasks:
            return
        if len(set(tasks.order)) == 1:
            raise ValueError(
                f"--surgery {tasks.surgery} has no effect with --tasks {tasks.tasks}: one task has "
                "one gradient. Drop it."
            )
        # Accumulation puts several tasks into one update where the tasks alternate.
        can_meet = tasks.changes_gradients and not tasks.sampler.has_long_turns
        meets = can_meet and self.fine_tuning.accumulation > 1
        if not tasks.sampler.has_joint_steps and not meets:
            joining = [name for name, entry in SAMPLERS.items() if entry.has_joint_steps]
            raise ValueError(
                f"--surgery {tasks.surgery} has no effect with --sampling {tasks.sampling}: its "
                f"steps hold one task each. Add --sampling {' or '.join(joining)}"
                f"{', or --accumulation 2' if can_meet else ''}."
            )
        is_frozen = self.fine_tuning.option == "pretrain"
        if tasks.changes_gradients and is_frozen and not self.heads.shares_a_layer(tasks):
            raise ValueError(
                f"--surgery {tasks.surgery} has no effect with --option pretrain and "
                "--common_layer none: the tasks share no parameter that is trained. Drop one of "
                "the three."
            )

    def check_tasks_of_options(self) -> None:
        """Refuse options of one task without that task."""
        trained = self.tasks.order
        flags = [
            TaskFlag("para_head", "para", self.heads.para_head != AUTO, trained),
            TaskFlag("para_prior", "para", self.heads.para_prior != NONE, trained),
        ]
        # A task of the user may be a score of pairs, too. multitask/stage.py knows that.
        if set(trained) <= set(BUILT_IN_FILES):
            is_fitted = self.heads.sts_range != "zero"
            flags.append(TaskFlag("sts_range", "sts", is_fitted, trained))
        # Tasks that are only read have prediction files, too.
        for task in BUILT_IN_FILES:
            for split in ("dev", "test"):
                has_path = self.files.path_of(task, split) != AUTO
                flags.append(TaskFlag(f"{task}_{split}_out", task, has_path, self.tasks.read))

        for name, task, is_changed, tasks in flags:
            if is_changed and task not in tasks:
                raise ValueError(
                    f"--{name} {flat(self)[name]} has no effect with --tasks {self.tasks.tasks}. "
                    f"Drop it, or add {task}."
                )

    def check_sampling(self) -> None:
        """Refuse a sampler whose epochs belong to one task where that defeats another option."""
        sampling = self.tasks.sampling
        if not self.tasks.sampler.has_epochs_per_task:
            return
        if self.fine_tuning.heads_first:
            raise ValueError(
                f"--heads_first and --sampling {sampling}: its epochs would all go to the first "
                "task. Use another sampling."
            )
        if self.fine_tuning.patience and len(self.tasks.order) > 1:
            raise ValueError(
                f"--patience and --sampling {sampling}: a task that brings nothing new would end "
                "the run, and the later ones would not begin. Drop --patience, or use another "
                "sampling."
            )

    def check_cosine(self) -> None:
        """Refuse a cosine head that leaves nothing to train."""
        head_of_para = self.heads.head_of_para
        if not HEADS[head_of_para].has_weights and "para" in self.tasks.order:
            raise ValueError(
                f"--head {head_of_para} has nothing to train for PARA; add --para_head features, "
                "or --tasks sst,sts."
            )
        freezing_flag = self.fine_tuning.freezing_flag
        head = self.heads.head
        has_no_weights = not HEADS[head].has_weights and self.heads.common_layer == NONE
        if freezing_flag is not None and has_no_weights and "sts" in self.tasks.order:
            others = [task for task in self.tasks.order if task != "sts"] or ["sst"]
            raise ValueError(
                f"--head {head} with --common_layer none has nothing to train for STS where the "
                f"encoder is frozen. Drop {freezing_flag}, or pass --tasks {','.join(others)}."
            )
