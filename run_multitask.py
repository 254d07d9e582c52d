"""The main job: from the options of a command line to files of predictions and run.json.

`run` is the way through, in seven steps. torch is imported once the command line is understood.
"""

from __future__ import annotations

import minbert  # noqa: F401, from here on Ctrl-C ends the command without a traceback

# isort: split

import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from command_line.automatic import has_dropout_in_tasks
from command_line.folders import find_folder
from command_line.options import Options
from command_line.parser import parse
from command_line.reproduction import command_of
from minbert import __version__
from minbert.commands.ctrl_c import INTERRUPTION
from minbert.commands.ending import exit_code, resumable
from minbert.commands.optional import check_tensorboard
from minbert.commands.outputs import check_new_folder
from minbert.commands.paths import check_plain_inputs
from minbert.reporting import terminal

if TYPE_CHECKING:
    from minbert.training.cost_estimate import CostEstimate
    from minbert.training.stage import Chain, Place, Stage
    from minbert.training.starting_model import StartingModel
    from multitask.plan_registry import TaskStage
    from multitask.results import Outcome
    from multitask.run_data import RunData


@dataclass(frozen=True)
class Setup:
    """What every step of a run reads."""

    options: Options  # without "auto"
    folder: Path  # receives all that is written
    is_resumed: bool
    data: RunData  # tasks and their rows
    model: StartingModel  # encoder and tokenizer


@exit_code("run_multitask.py", outlives_reader=True, takes_processes=True)
def main(argv: Sequence[str] | None = None) -> None:
    """Run the command. After Ctrl-C it says how the run is continued."""
    options, folder, is_resumed = find_folder(*parse(argv))
    check_tensorboard(options.training.tensorboard)
    with resumable(Path(__file__), folder, is_resumed), terminal.session("importing PyTorch"):
        terminal.heading(f"minBERT {__version__}, run {folder.name}")
        run(options, folder, is_resumed)

    from minbert.training import processes

    processes.end()


def run(options: Options, folder: Path, is_resumed: bool) -> None:
    """The main job. `folder` receives all that is written."""
    from minbert.training import processes, run_folder

    processes.join(options.training.device)
    processes.check_agreement({"--resume": is_resumed, **options.as_flags()})
    if run_folder.is_finished(folder):
        return
    setup = prepare(options, folder, is_resumed)  # device, precision, rows, encoder, tokenizer
    stages = plan_pretraining(setup)  # --pretrain; what is already trained is reused
    tasks = plan_tasks(setup)  # the plans that the options ask for, each with its jobs
    cost = estimate(setup, stages, tasks)  # printed before any work begins
    begin_run(setup, cost)  # options.json exists from here on, so the run can be resumed
    outcome = train(setup, stages, tasks)  # stages before, after or together with the tasks
    write_results(setup, cost, outcome)  # verified files, the model, the report, run.json


def prepare(options: Options, folder: Path, is_resumed: bool) -> Setup:
    """Step 1: resolve the options, check the paths, read the data, open the encoder."""
    from command_line.settings import settle, settle_epochs, settle_head
    from minbert.training import processes, run_folder
    from minbert.training.other_programs import notes_on_others
    from minbert.training.starting_model import open_model
    from multitask.few_pairs import notes_on_few_pairs
    from multitask.run_data import RunData, place_predictions, read_task_tables, tokenize

    # Of several processes the first one decides. The others may have found another name free.
    folder = processes.from_first(lambda: run_folder.hold(folder))
    options, model_folder, device = settle(options, folder)
    terminal.say(*notes_on_others(device))
    check_new_folder("--output_dir", folder)
    inputs = options.input_files()
    check_plain_inputs(inputs)
    paths = place_predictions(
        options.data, options.multitask, folder, inputs, model_folder, options.run.skipped
    )
    tasks, tables = read_task_tables(options.data, options.multitask)
    options = settle_epochs(options, tables)
    options = settle_head(options, tasks, tables, model_folder, device)
    terminal.say(*notes_on_few_pairs(tables, tasks, options.multitask))
    seed = options.training.seed
    model = open_model(options.encoder, model_folder, seed, device, options.data.token_folder)
    rows = tokenize(tables, model.tokenizer, options.data, options.multitask.heads.pair_encoding)
    data = RunData(options.data, inputs, tasks, tables, rows, paths)
    if processes.count() > 1:
        weights = {f"--model {options.encoder.model}": model.fingerprint}
        processes.check_agreement({**options.as_flags(), **data.digests, **weights})
    return Setup(options, folder, is_resumed, data, model)


def plan_pretraining(setup: Setup) -> Chain:
    """Step 2: the stages of --pretrain, each with a finished encoder to use instead, if any."""
    from minbert.training.stage import build_stages, encoders_beside, plan_chain, stage_fingerprint

    options = setup.options
    start = setup.model.fingerprint
    candidates = encoders_beside(setup.folder)
    if options.contrastive.is_last:
        # The stages start from the encoder that the tasks leave, which no other run has.
        start = stage_fingerprint(start, options.flat(), ())
        candidates = []
    is_fusion = options.contrastive.is_fusion  # SimCSE is trained together with the tasks
    names = [name for name in options.run.stages if not (is_fusion and name == "simcse")]

    def build(name: str, place: Place) -> Stage:
        if name == "mlm":
            return build_mlm_stage(setup, name != names[0], place)
        return build_contrastive_stage(setup, name, place)

    return plan_chain(build_stages(names, start, setup.folder, build), candidates)


def build_mlm_stage(setup: Setup, is_after_others: bool, place: Place) -> Stage:
    """Masked language modelling on the tasks' own training rows.

    It learns no sentence vector. One that an earlier stage has learned stays noted.
    """
    from minbert.pretraining.stage import build_stage
    from multitask.rows_for_mlm import rows_for_mlm

    options = setup.options
    pooling = options.encoder.pooling
    batch_size = options.mlm.mlm_batch_size
    rows = rows_for_mlm(setup.data.rows, options.multitask, batch_size, options.data)
    return build_stage(
        options.mlm, options.training, pooling, is_after_others, setup.model, rows, place
    )


def build_contrastive_stage(setup: Setup, name: str, place: Place) -> Stage:
    """A contrastive method on the texts of the tasks. The STS dev pairs measure it."""
    from contrastive.stage import StageText, build_stage

    options = setup.options
    pooling = options.encoder.pooling
    text = StageText(setup.data.examples("train"), setup.data.sts_dev, options.data.max_length)
    return build_stage(
        name, options.contrastive, options.training, pooling, setup.model, text, place
    )


def plan_tasks(setup: Setup) -> TaskStage:
    """Step 3: the multitask stage as a list of plans, each with its jobs.

    multitask/plan_registry.py lists the plans.
    """
    from multitask.model import MultitaskBert
    from multitask.plan import StageParts
    from multitask.plan_registry import TaskStage

    options = setup.options
    encoder = setup.model.encoder
    heads = options.multitask.heads
    pooling = options.encoder.pooling
    has_dropout = has_dropout_in_tasks(options, encoder.config.hidden_size)
    seed = options.training.seed
    model = MultitaskBert(encoder, pooling, heads, seed, has_dropout, setup.data.tasks)
    parts = StageParts(options.multitask, options.training, model, setup.data.rows, setup.folder)
    if options.contrastive.is_fusion:
        from contrastive.stage import build_companion

        parts.companion = build_companion(options.contrastive, options.training, pooling, encoder)
    return TaskStage.of(parts)


def estimate(setup: Setup, stages: Chain, tasks: TaskStage) -> list[CostEstimate]:
    """Step 4: what the run will cost in time, memory and disk, from a few steps of each job."""
    from minbert.training import cost_estimate

    terminal.title("Cost estimate", "planning the stages")
    planned = [step.stage.job for step in stages if step.reused is None]
    jobs = planned + tasks.jobs
    if "estimate" in setup.options.run.skipped:
        if not setup.is_resumed:
            cost_estimate.check_disk(cost_estimate.disk_of(jobs), setup.folder)
        terminal.say("left out by --skip")
        return []
    costs = cost_estimate.estimate(jobs, setup.folder, setup.is_resumed)
    terminal.table(cost_estimate.table(costs))
    return costs


def begin_run(setup: Setup, costs: list[CostEstimate]) -> None:
    """Step 5: make the run's folder with options.json, or on resume check its inputs."""
    from minbert.training import cost_estimate, processes, run_folder

    terminal.doing("making the folder of the run")
    options = setup.options
    inputs = {**setup.data.digests, f"--model {options.encoder.model}": setup.model.fingerprint}
    run_folder.claim(setup.folder, options.flat(), inputs, setup.is_resumed)
    processes.from_first(lambda: run_folder.point_to_latest(setup.folder))
    cost_estimate.write_estimates(costs, setup.folder)


def train(setup: Setup, stages: Chain, tasks: TaskStage) -> Outcome:
    """Step 6: train the stages of --pretrain and the tasks. Each job continues where it stopped."""
    from minbert.training import processes
    from minbert.training.job_logs import log_steps
    from minbert.training.stage import run_chain
    from multitask.results import Outcome

    jobs = [*(step.stage.job for step in stages), *tasks.jobs]
    log_steps(jobs, setup.folder, setup.options.training.tensorboard)
    is_last = setup.options.contrastive.is_last
    qualities, seconds = run_chain([] if is_last else stages, setup.is_resumed)
    trained = tasks.train(setup.is_resumed)
    if is_last:
        qualities, seconds = run_chain(stages, setup.is_resumed)
    processes.leave()  # of several processes the first one goes on alone
    return Outcome(tasks, trained, qualities, seconds + trained.seconds)


def write_results(setup: Setup, costs: list[CostEstimate], outcome: Outcome) -> None:
    """Step 7: write the files of predictions, the model, the report and run.json."""
    from multitask.results import TrainedRun, finish

    options = setup.options
    run = TrainedRun(
        folder=setup.folder,
        options=options.multitask,
        training=options.training,
        all_options=options.flat(),
        command=command_of(options),
        data=setup.data,
        tokenizer=setup.model.tokenizer,
        model_folder=setup.model.folder,
        costs=costs,
        outcome=outcome,
        skipped=options.run.skipped,
    )
    finish(run)


if __name__ == "__main__":
    # SIGTERM ends a run as Ctrl-C does, outside the training loop, too.
    signal.signal(signal.SIGTERM, INTERRUPTION.receive)
    sys.exit(main())
