"""The settings of a run: the options without "auto", and where the model and the computation are.

Each value that is chosen for the user is printed with its reason. automatic.py has the rules.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import torch

from command_line import automatic
from command_line.automatic import Choice
from command_line.checks import check_positions
from command_line.options import Options
from contrastive.presets import described, settings_of
from minbert import BertConfig, fast, hub
from minbert.pooling import check_pooling, note_on_pooling
from minbert.reporting import terminal
from minbert.reporting.terminal import Fact
from minbert.training import runtime
from multitask.few_pairs import (
    FEW_PAIRS_OPTIONS,
    LEAST_CORRELATION,
    are_few_pairs,
    least_correlation,
)
from multitask.head_registry import HEADS
from multitask.rows import Tables
from multitask.start_vectors import StartVectors
from multitask.tasks import Tasks


class Settings(NamedTuple):
    """The options without "auto", and where the model and the computation are."""

    options: Options
    model_folder: Path
    device: torch.device


def settle(options: Options, folder: Path) -> Settings:
    """Replace what is "auto", and print each value with its reason.

    folder: of the run. ValueError where the model cannot do what the options ask.
    """
    terminal.title("Settings", "looking for devices")
    runtime.settle_memory()
    name = "cuda" if options.training.use_gpu else options.training.device
    device, device_reason = runtime.choose_device(name)
    precision, precision_reason = runtime.choose_precision(options.training.precision, device)
    with terminal.paused():  # a download shows its own progress
        model_folder = hub.resolve(options.encoder.model)
    check_pooling(model_folder, options.encoder.pooling)
    terminal.say(*notes_on_model(model_folder, options.encoder.pooling))
    config = BertConfig.from_pretrained(model_folder)

    fitting = automatic.choose_length(options, config.num_positions)
    options = options.with_values(**{name: choice.value for name, choice in fitting.items()})

    methods = {}
    for method in options.run.methods:
        methods[method] = settings_of(method, options.contrastive, config.hidden_size, device.type)
    lengths = [preset.max_length for preset in methods.values()]
    check_positions(options.data.max_length, lengths, options.encoder.model, config.num_positions)

    meanings = automatic.explain(options, config, folder)
    options, choices = automatic.resolve(
        options,
        config.hidden_size,
        Choice(device.type, device_reason),
        Choice(precision, precision_reason),
        Choice(*fast.choose(options.training.formulas)),
    )
    facts = []
    for option, choice in {**choices, **meanings, **fitting}.items():
        facts.append(Fact(option, choice.value, choice.reason))
    for method, chosen in methods.items():
        line = described(method, chosen, options.contrastive, device.type, options.flat())
        facts.append(Fact.of(method, line))
    terminal.facts(facts)
    return Settings(options, model_folder, device)


def settle_epochs(options: Options, tables: Tables) -> Options:
    """The options with the epochs that --least_steps asks for. Prints them where they are more.

    tables: of each task, by split.
    """
    fine_tuning = options.multitask.fine_tuning
    trained = set(options.multitask.tasks.order)
    of_trained = [len(tables[name]["train"].examples) for name in trained]
    epochs = fine_tuning.num_needed_epochs(of_trained)
    if epochs == fine_tuning.epochs:
        return options
    num_steps = epochs * fine_tuning.num_updates(of_trained)
    if num_steps < fine_tuning.least_steps:
        reason = f"the most without --epochs; about {num_steps} steps, as "
    else:
        reason = f"for about {fine_tuning.least_steps} steps, as "
    reason += f"{sum(of_trained):,} rows give few"
    terminal.facts([Fact("epochs", epochs, reason)])
    return options.with_values(epochs=epochs)


def settle_head(
    options: Options, tasks: Tasks, tables: Tables, model_folder: Path, device: torch.device
) -> Options:
    """The options with the head that --few_pairs asks for. Prints it, or why it is another one.

    tasks, tables: those that are read. model_folder: of the encoder before training.
    """
    heads = options.multitask.heads
    is_settled = HEADS[heads.head].answers_by_cosine  # of a run that goes on
    if is_settled or not are_few_pairs(tables, tasks, heads.few_pairs):
        return options
    terminal.doing("measuring the cosines of the training pairs")
    encode = StartVectors(model_folder, options.data.max_length, device).encode
    correlation = least_correlation(tables, tasks, encode)
    title = f"--few-pairs {heads.few_pairs}"
    if correlation < LEAST_CORRELATION:
        terminal.say(
            f"{title}: the scores do not rise with the cosines of the encoder (Pearson "
            f"{correlation:.2f} on training pairs), so the head stays {heads.head}"
        )
        return options
    reason = f"instead of {heads.head}: few pairs, and their scores rise with the cosines of the "
    reason += f"encoder (Pearson {correlation:.2f} on training pairs). --head decides otherwise"
    terminal.facts(
        [
            Fact("head", FEW_PAIRS_OPTIONS["head"], reason),
            Fact("pair_encoding", FEW_PAIRS_OPTIONS["pair_encoding"], "as the cosine reads it"),
        ]
    )
    return options.with_values(**FEW_PAIRS_OPTIONS)


def notes_on_model(folder: Path, pooling: str) -> list[str]:
    """What to know of a model that was made for another pooling or by another library."""
    notes = [note_on_pooling(folder, pooling)]
    if (folder / "modules.json").is_file():  # a model of sentence-transformers
        # Imported here, because few runs need it.
        from contrastive.sentence_folder import note_for_training

        notes.append(note_for_training(folder))
    return [note for note in notes if note is not None]
