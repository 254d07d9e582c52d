"""All options of a run: the groups of the packages, joined. No torch here.

Flags are flat: `--lr` is `options.multitask.fine_tuning.lr`, and so are the keys of options.json.
Next: parser.py, which makes the flags. automatic.py replaces each "auto" when a run begins.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from command_line import checks
from contrastive.options import ContrastiveOptions
from contrastive.registry import METHODS, list_methods
from data.options import DataOptions
from minbert.commands.options import (
    AUTO,
    NONE,
    OptionGroup,
    changed,
    flag,
    flat,
    from_flat,
    group,
    with_values,
)
from minbert.options import EncoderOptions, check_compiled
from minbert.pretraining.options import MlmOptions
from minbert.training.options import TrainingOptions
from multitask.options import MultitaskOptions

SKIPPABLE = ("estimate", "baselines", "test")


def help_of_pretrain() -> str:
    """The help of --pretrain, with a list of the methods."""
    return (
        "Training stages before the tasks, in this order, such as mlm,simcse.\n"
        "- mlm: masked language modelling on the tasks' own training rows\n"
        f"{list_methods()}"
    )


@dataclass(frozen=True)
class RunOptions(OptionGroup):
    """What the run consists of, and where it is written."""

    pretrain: str = flag(
        NONE,
        help_of_pretrain,
        is_common=True,
    )
    recipe: str = flag(
        NONE,
        "Use the options of a published experiment. Flags beside it win. --list-recipes shows all.",
        is_common=True,
    )
    plugin: tuple[str, ...] = flag(
        (),
        "Python files that register methods of your own: contrastive methods, samplers, gradient "
        "surgery, heads (docs/tour.md). Pass the flag once for each, or join them by commas. The "
        "files are run, so use only those that you trust.",
        is_file=True,
    )
    name: str = flag(
        AUTO,
        "Name of the run's folder. auto: the main options and the seed.",
        is_common=True,
    )
    output_dir: str = flag("runs", "Folder of all runs.", is_common=True)
    skip: str = flag(
        NONE,
        "Parts that the run leaves out, such as estimate,baselines. The model is the same.\n"
        "- estimate: the cost estimate before training\n"
        "- baselines: majority, TF-IDF and vectors, beside the scores\n"
        "- test: the predictions of test files",
    )

    def check(self) -> None:
        if self.skip != NONE and not set(self.skipped) <= set(SKIPPABLE):
            raise ValueError(
                f"--skip is '{self.skip}'; it is none, or some of these, separated by commas: "
                f"{', '.join(SKIPPABLE)}."
            )
        if len(set(self.skipped)) < len(self.skipped):
            raise ValueError(f"--skip {self.skip} names a part twice.")

    @property
    def skipped(self) -> tuple[str, ...]:
        """The parts that --skip names."""
        return () if self.skip == NONE else tuple(self.skip.split(","))

    @property
    def plugin_files(self) -> list[str]:
        """The files of --plugin."""
        return list(self.plugin)

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages that --pretrain names, in order."""
        return () if self.pretrain == NONE else tuple(self.pretrain.split(","))

    @property
    def methods(self) -> tuple[str, ...]:
        """The contrastive ones among the stages."""
        return tuple(name for name in self.stages if name in METHODS)


@dataclass(frozen=True)
class Options(OptionGroup):
    """Every choice of a run, by package. Making one checks it; ValueError says what to change."""

    run: RunOptions = group(RunOptions)
    data: DataOptions = group(DataOptions)
    encoder: EncoderOptions = group(EncoderOptions)
    training: TrainingOptions = group(TrainingOptions)
    mlm: MlmOptions = group(MlmOptions)
    contrastive: ContrastiveOptions = group(ContrastiveOptions)
    multitask: MultitaskOptions = group(MultitaskOptions)

    @classmethod
    def of(cls, **values: Any) -> Options:
        """Options by their flat names, such as Options.of(lr=1e-4, head="vm")."""
        return from_flat(cls, values)

    def check(self) -> None:
        """Refuse combinations across packages. Each group has checked itself before."""
        values = changed(self)
        stages = self.run.stages

        checks.check_tasks(self.data, self.multitask.tasks)
        # Stages next: a typo in --pretrain would make every other message puzzling.
        checks.check_stages(self.run.pretrain, stages, values, self.contrastive)
        checks.check_methods(stages, self.contrastive, self.multitask.tasks)
        checks.check_order(self.run.pretrain, stages, self.contrastive, self.multitask)
        check_compiled(self.encoder.compile, self.training.precision)
        checks.check_formulas(self.training.formulas, self.encoder.attention)
        checks.check_lengths(self.multitask.fine_tuning.max_tokens, self.data.max_length)
        checks.check_pooling(self.encoder.pooling, self.multitask.heads)
        checks.check_paths(self.input_files(), values)
        checks.check_skipped(self.run.skipped, values)

    def flat(self) -> dict[str, Any]:
        """All values by their flat names, as options.json holds them."""
        return flat(self)

    def as_flags(self) -> dict[str, Any]:
        """All values by their flags, as several processes compare them.

        Where token ids are kept is left out: it may be another place on each machine.
        """
        return {f"--{name}": value for name, value in flat(self).items() if name != "token_cache"}

    def with_values(self, **values: Any) -> Options:
        """The same options with other values by flat name."""
        return with_values(self, **values)

    def with_files(self) -> Options:
        """The same options with the course's file names where no file was given."""
        return replace(self, data=self.data.with_files())

    def input_files(self) -> list[str]:
        """The paths of all files that the run reads."""
        files = self.data.input_files(self.multitask.tasks.read)
        if self.reads_sts_dev:
            files.append(self.data.file_of("sts", "dev"))
        return files + self.contrastive.text_files() + self.run.plugin_files

    @property
    def reads_sts_dev(self) -> bool:
        """Whether the STS dev file is read only to measure the contrastive stages."""
        stages = list(self.run.methods)
        # In fusion training SimCSE is no stage, and nothing measures it.
        if self.contrastive.is_fusion and "simcse" in stages:
            stages.remove("simcse")
        return bool(stages) and "sts" not in self.multitask.tasks.read
