"""The work of `python -m contrastive.train`: opens the encoder, trains, writes the folder.

The stage is that of contrastive/stage.py, which --pretrain trains as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from contrastive.presets import described, settings_of
from contrastive.registry import METHODS
from contrastive.sentences import draw_words
from contrastive.stage import StageText, build_stage
from contrastive.train.parser import Run
from contrastive.train.texts import StageRows
from data.examples import Example
from data.options import DEFAULT_LENGTH, DataOptions
from minbert import BertConfig, fast, hub
from minbert.commands.files import digest_of_file
from minbert.commands.options import AUTO, flat
from minbert.options import EncoderOptions
from minbert.pooling import check_pooling, note_on_pooling
from minbert.reporting import terminal
from minbert.reporting.terminal import Fact
from minbert.training import cost_estimate, run_folder, runtime
from minbert.training.job_logs import log_steps
from minbert.training.options import TrainingOptions
from minbert.training.stage import Place, Stage
from minbert.training.starting_model import StartingModel, open_model


def train(run: Run, rows: StageRows, dev: Sequence[Example]) -> None:
    """Train the stage and write the folder of the run. ValueError for what cannot be used."""
    training, encoder = settle(run)
    model_folder = hub.resolve(encoder.model)
    config = BertConfig.from_pretrained(model_folder)
    describe(run, training, config, model_folder)
    seed = training.seed
    model = open_model(
        encoder, model_folder, seed, torch.device(training.device), DataOptions().token_folder
    )
    stage_options = run.options.stage
    if stage_options.has_random_words:
        drawn = draw_words(model.tokenizer, stage_options.rows, seed)
        rows = StageRows({stage_options.text[0]: drawn})
    stage = make_stage(run, training, model, rows, dev)

    terminal.title("Cost estimate", "planning the steps")
    costs = cost_estimate.estimate([stage.job], run.folder, run.is_resumed)
    terminal.table(cost_estimate.table(costs))
    files = input_digests(run, model)
    run_folder.claim(run.folder, run.stored(), files, run.is_resumed)
    cost_estimate.write_estimates(costs, run.folder)
    log_steps([stage.job], run.folder, training.tensorboard)

    terminal.title(f"Stage {stage.job.name}")
    result = stage.train(run.is_resumed)
    terminal.table(stage.table(result.quality))
    copies = {name: str(stage.beside(name)) for name in stage.copies()}
    record = run_folder.make_record(
        {**run.stored(), "device": training.device, "precision": training.precision},
        files,
        stage=result.quality,
        actual={
            "seconds": result.seconds,
            "peak_memory": cost_estimate.peak_memory(torch.device(training.device)),
        },
    )
    run_folder.write_record(run.folder, record)
    terminal.say(f"the trained encoder is in {stage.folder}")
    for name, folder in copies.items():
        terminal.say(f"the {name} copy is in {folder}")


def settle(run: Run) -> tuple[TrainingOptions, EncoderOptions]:
    """The options without "auto". What is chosen for the user is printed with its reason."""
    terminal.title("Settings", "looking for devices")
    runtime.settle_memory()
    training = run.options.training
    device, device_reason = runtime.choose_device(training.device)
    precision, precision_reason = runtime.choose_precision(training.precision, device)
    formulas, formulas_reason = fast.choose(training.formulas)
    terminal.facts(
        [
            Fact("device", device.type, device_reason),
            Fact("precision", precision, precision_reason),
            Fact("formulas", formulas, formulas_reason),
        ]
    )
    encoder = run.options.encoder
    if encoder.attention == AUTO:
        is_fused = device.type == "cuda" and formulas == "fast"
        encoder = replace(encoder, attention="fused" if is_fused else "eager")
    return run.options.for_training(device.type, precision, formulas), encoder


def describe(run: Run, training: TrainingOptions, config: BertConfig, folder: Path) -> None:
    """Print the settings of the stage.

    ValueError where the model was made for another pooling, or has too few positions.
    """
    method = run.options.stage.method
    pooling = run.options.encoder.pooling
    check_pooling(folder, pooling)
    note = note_on_pooling(folder, pooling)
    if note is not None:
        terminal.say(note)
    options = run.options.for_stage()
    settings = settings_of(method, options, config.hidden_size, training.device)
    if settings.max_length > config.num_positions:
        raise ValueError(
            f"--max-length is {settings.max_length}; {run.options.encoder.model} has "
            f"{config.num_positions} positions. Pass at most that."
        )
    line = described(method, settings, options, training.device, flat(run.options))
    terminal.facts([Fact.of(method, line)])


def make_stage(
    run: Run,
    training: TrainingOptions,
    model: StartingModel,
    rows: StageRows,
    dev: Sequence[Example],
) -> Stage:
    """The stage on this text. ValueError where a batch could not be filled."""
    options = run.options.for_stage()
    length = min(DEFAULT_LENGTH, model.encoder.config.num_positions)
    method = run.options.stage.method
    examples: dict[str, Sequence[Example]] = {**rows.examples}
    if METHODS[method].reads == "sentences":
        # A task alone may be shuffled or read in the order of --text-order.
        options.check_text(list(examples))
    return build_stage(
        method,
        options,
        training,
        run.options.encoder.pooling,
        model,
        StageText(examples, dev, length, rows.triplets, is_new=True),
        Place(model.fingerprint, run.folder / "encoder", run.folder / "checkpoint" / method),
        keeps_copies=True,
    )


def input_digests(run: Run, model: StartingModel) -> dict[str, Any]:
    """SHA-256 of all that the run reads, by name."""
    digests = {}
    for path in (*run.options.stage.input_files(), *map(Path, run.plugins)):
        digests[str(path)] = digest_of_file(path)
    return {**digests, f"--model {run.options.encoder.model}": model.fingerprint}
