"""The options of `python -m contrastive.train`. No torch here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from contrastive.options import (
    RANDOM_WORDS,
    ContrastiveOptions,
    CopyOptions,
    SupervisedOptions,
)
from contrastive.presets import PRESET_WIDTH, settings_of, unread
from contrastive.registry import METHODS, MethodEntry
from contrastive.train.texts import files_of, is_task
from data.examples import BUILT_IN_FILES
from data.options import SAMPLE
from minbert.commands.options import (
    AUTO,
    CommandOptions,
    argument,
    changed,
    group,
    positional,
    with_values,
)
from minbert.options import EncoderOptions, check_compiled
from minbert.training.options import TrainingOptions

PREFIX = "contrastive_"
SPLITS = ("train", "dev", "test")

# Options of a stage that other tasks follow, or whose text is that of the tasks.
LEFT_OUT = (
    "contrastive_order",
    "contrastive_sentences",
    "nli",
    "ct_corpus",
    "teacher_text",
    # The stage has its own schedule, and always gives back what was trained.
    "schedule",
    "warmup",
    "hand_on",
    "use_gpu",
)


@dataclass(frozen=True)
class StageOptions(CommandOptions):
    """The text of a stage, and where everything is."""

    method: str = positional("METHOD", "the contrastive method, such as simcse, bsc, ct or sg-opt")
    text: tuple[str, ...] = argument(
        (),
        "what to train on: files of sentences, pairs or triplets, tasks of the course (sst, para, "
        f"sts), or {RANDOM_WORDS}",
        "TEXT...",
        is_required=True,
    )
    out: Path = argument(
        None, "new folder: encoder/, options.json, log.csv, run.json", "DIR", is_required=True
    )
    dev: Path | None = argument(
        None,
        "STS pairs that measure the stage: columns score (or similarity), sentence1, sentence2. "
        "Without them no label is looked at, and the encoder of the last step is kept",
        "FILE",
    )
    rows: int = argument(
        0, "rows of each TEXT at most, evenly spaced; sequences of random-words. 0: all", low=0
    )
    data_dir: Path = argument(Path(SAMPLE), "folder of the tasks' files", "DIR")
    splits: str = argument(
        "train", "files of the tasks, such as train,dev,test; their labels are not read"
    )

    @property
    def entry(self) -> MethodEntry:
        """The entry of METHOD."""
        return METHODS[self.method]

    @property
    def split_names(self) -> list[str]:
        """The words of --splits."""
        return self.splits.split(",")

    @property
    def has_random_words(self) -> bool:
        """Whether the text is drawn from the vocabulary."""
        return RANDOM_WORDS in self.text

    def input_files(self) -> list[Path]:
        """All files of text and labels that the stage reads."""
        files = [] if self.dev is None else [self.dev]
        for text in self.text:
            if text != RANDOM_WORDS:
                files += files_of(text, self.data_dir, self.split_names)
        return files

    def check(self) -> None:
        if self.method not in METHODS:
            raise ValueError(f"METHOD is '{self.method}'; it is one of {', '.join(METHODS)}.")
        if len(set(self.text)) < len(self.text):
            raise ValueError(f"--text {' '.join(self.text)}: one of them is given twice.")
        self.check_splits()
        if not self.has_random_words:
            return
        if self.entry.reads != "sentences" or len(self.text) > 1:
            raise ValueError(
                f"--text {RANDOM_WORDS} stands alone, for a method that reads sentences, such as "
                "ct."
            )
        if not self.rows:
            raise ValueError(
                f"--text {RANDOM_WORDS} has no end: say how many sequences, such as --rows 10000."
            )

    def check_splits(self) -> None:
        """ValueError where --splits names other files than those of tasks, or labels of dev."""
        names = self.split_names
        if not set(names) <= set(SPLITS) or len(set(names)) < len(names):
            raise ValueError(
                f"--splits is '{self.splits}'; it is some of {', '.join(SPLITS)}, each once."
            )
        if names == ["train"]:
            return
        if not any(is_task(text) for text in self.text):
            raise ValueError(
                f"--splits {self.splits} has no effect: --text names no task. Drop it, or pass "
                f"some of {', '.join(BUILT_IN_FILES)}."
            )
        if self.entry.reads != "sentences":
            raise ValueError(
                f"--splits {self.splits}: {self.method} trains on labels, and only those of train "
                "may be read. Drop it, or choose a method that reads sentences."
            )


@dataclass(frozen=True)
class TrainOptions(CommandOptions):
    """All options of one run of the command."""

    stage: StageOptions = group(StageOptions)
    encoder: EncoderOptions = group(EncoderOptions)
    training: TrainingOptions = group(TrainingOptions)
    contrastive: ContrastiveOptions = group(ContrastiveOptions)

    @property
    def sentence_tasks(self) -> tuple[str, ...]:
        """The tasks whose sentences the method reads beside its labelled pairs."""
        if self.stage.method not in METHODS.readers("unsupervised_too"):
            return ()
        return tuple(self.contrastive.of_method[SupervisedOptions].unsupervised_too.split(","))

    def check(self) -> None:
        """Refuse an option without an effect, and a choice by labels without labels."""
        check_compiled(self.encoder.compile, self.training.precision)
        self.check_pairs()
        method = self.stage.method
        unused = unread(method, self.contrastive)
        own_options = set(self.stage.entry.own_options)
        for name in changed(self.contrastive):
            setting = name.removeprefix(PREFIX)
            is_used = setting not in unused if name.startswith(PREFIX) else name in own_options
            if not is_used:
                why = self.stage.entry.why_unread.get(setting)
                if why:
                    raise ValueError(f"{flag_of(name)} has no effect on {method}: {why}. Drop it.")
                raise ValueError(f"{flag_of(name)} has no effect on {method}. Drop it.")
        size = self.contrastive.contrastive_batch_size
        if size != AUTO:
            of_method = self.contrastive.of_method
            self.stage.entry.check_batch_size("--batch-size", int(size), method, of_method)
        self.check_shared()
        if self.stage.dev is None:
            self.check_without_dev()

    def check_pairs(self) -> None:
        """ValueError where a method of labelled pairs gets none."""
        entry = self.stage.entry
        texts = self.stage.text
        have_pairs = any(not is_task(text) or text in entry.pairs_of for text in texts)
        if entry.reads != "labelled pairs" or have_pairs:
            return
        raise ValueError(
            f"--text {' '.join(texts)}: {self.stage.method} trains on the labelled pairs of "
            f"{' or '.join(entry.pairs_of)}, or of a file. Add one of them to --text."
        )

    def check_shared(self) -> None:
        """ValueError for an option of every stage that this one does not use."""
        method = self.stage.method
        dropouts = [name for name in changed(self.encoder) if name.endswith("_dropout")]
        if dropouts and not self.stage.entry.has_dropout:
            raise ValueError(
                f"{flag_of(dropouts[0])} has no effect on {method}, which trains without dropout. "
                "Drop it."
            )
        settings = settings_of(method, self.contrastive, PRESET_WIDTH, self.training.device)
        if settings.optimizer == "rmsprop" and "weight_decay" in changed(self.training):
            raise ValueError(
                f"--weight-decay has no effect on {method} with RMSprop, which has none here. Drop "
                "it, or add --optimizer adamw."
            )

    def check_without_dev(self) -> None:
        """ValueError for what only pairs with labels can decide."""
        needing = {
            "--keep": self.contrastive.contrastive_keep == "best",
            "--patience": self.contrastive.contrastive_patience not in (AUTO, 0),
            "--ct-copy": self.contrastive.of_method[CopyOptions].ct_copy == "worse",
        }
        for flag, is_set in needing.items():
            if is_set:
                raise ValueError(
                    f"{flag} needs pairs with labels that measure the stage. Add --dev FILE, or "
                    "drop it."
                )

    def for_stage(self) -> ContrastiveOptions:
        """The options of the stage itself: without labels that measure it, the last step counts."""
        if self.stage.dev is not None:
            return self.contrastive
        return with_values(self.contrastive, contrastive_keep="last")

    def for_training(self, device: str, precision: str, formulas: str) -> TrainingOptions:
        """The options of the loop, without "auto"."""
        return replace(self.training, device=device, precision=precision, formulas=formulas)


def flag_of(name: str) -> str:
    """The flag of an option as the help of this command shows it: --steps, --bsc-align."""
    return f"--{name.removeprefix(PREFIX).replace('_', '-')}"
