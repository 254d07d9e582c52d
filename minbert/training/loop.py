"""fit(): the only training loop of the project. MLM, contrastive and multitask training run in it.

A stage describes itself as a `Job`: a model, a plan of steps, a loss, an evaluation. A step is a
list of (task, row numbers), and the loop does not know how the list was made. Everything else is
written here once: precision, accumulation, clipping, schedule, evaluation, the best model, logging,
checkpoints, resuming, interruption.
"""

from __future__ import annotations

import math
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import NoReturn

import torch
from safetensors.torch import load_file
from torch import Tensor

from minbert.commands.files import check_digest, write_tensors
from minbert.reporting import terminal
from minbert.schedule import SCHEDULES
from minbert.training import checkpoint, processes, runtime
from minbert.training.gradients import UpdateLoss, backward
from minbert.training.interruption import Interrupted, StopSignal
from minbert.training.job import Job, Part, Progress
from minbert.training.step_log import StepRecord

SHOWN_LOSSES = 50  # steps whose mean loss stands beside the progress

# What a state of another model or version may raise when it is put back.
DAMAGES = (
    RuntimeError,
    LookupError,
    ValueError,
    TypeError,
    AttributeError,
    AssertionError,
    OverflowError,
)


class NonFiniteLoss(FloatingPointError):
    """A loss or gradient is nan or infinite.

    The message names step, task, rows and the last good checkpoint.
    """


def fit(job: Job, resume: bool = False) -> Progress:
    """Train `job` to its end. Its best model is in job.model then.

    resume: continue from the checkpoint in job.folder, if there is one. On CPU the result has the
    same bits as if the job had never stopped. Returns the progress with all scores. Raises
    Interrupted, after saving, on a signal to stop; NonFiniteLoss where a loss or gradient is not
    finite; ValueError where a checkpoint cannot be read or written.
    """
    return Loop(job, resume).run()


class Loop:
    """One run of a job: the state that `fit` carries from step to step."""

    def __init__(self, job: Job, resume: bool) -> None:
        self.job = job
        self.progress = Progress()
        self.best_digest = ""  # SHA-256 of the file of the best model so far
        self.has_reported = False  # whether this process has passed on the scores so far
        self.stop = StopSignal()
        self.work = terminal.Work(job.name)  # replaced when the job runs

        runtime.choose_products(job.model, job.precision)
        job.model.train()
        # Each stage starts from its own seed, whatever ran before it.
        runtime.seed_everything(job.seed)
        self.generator = torch.Generator().manual_seed(job.seed)
        self.epoch_state = self.generator.get_state()  # from which the epoch's plan was drawn

        self.parameters = []
        for group in job.optimizer.param_groups:
            group["initial_lr"] = group["lr"]
            self.parameters += group["params"]
        if resume:
            self.restore()
        self.started = time.perf_counter() - self.progress.seconds

    def run(self) -> Progress:
        """Train from where the progress says to the end of the job."""
        job = self.job
        progress = self.progress
        progress.num_steps = sum(1 for _ in job.all_steps())
        shown = terminal.working(job.name, progress.num_steps, "step", progress.step)
        with self.stop.listening(), shown as self.work, job.freezing():
            while not self.is_over:
                if progress.step_in_epoch == 0:
                    job.before_epoch(progress.epoch)
                # A resumed run makes the same plan from this state again.
                self.epoch_state = self.generator.get_state()
                self.run_epoch(job.epoch_steps(progress.epoch, self.generator))
                progress.epoch += 1
                progress.step_in_epoch = 0
            if not progress.is_finished:
                # A kill can come between the last checkpoint and what is drawn after it.
                if progress.history and not self.has_reported:
                    self.report_evaluations()
                self.finish()
        # A signal after the last step: the job is done, but the rest of the run is not.
        if processes.any_of(self.stop.is_requested):
            raise Interrupted
        return progress

    @property
    def is_over(self) -> bool:
        """Whether no epoch is left to train."""
        progress = self.progress
        is_at_end = progress.epoch >= self.job.epochs
        return is_at_end or progress.is_finished or self.is_out_of_patience

    @property
    def is_out_of_patience(self) -> bool:
        """Whether the last `patience` evaluations brought no better score (early stopping)."""
        since_best = 0
        for entry in self.progress.history:
            since_best += entry["step"] > self.progress.best_step
        return 0 < self.job.patience <= since_best

    def run_epoch(self, steps: list[list[Part]]) -> None:
        """The epoch's steps that are not done yet, and the evaluations between them."""
        progress = self.progress
        evaluated_after = evaluation_steps(len(steps), self.job.evaluations_per_epoch)
        while True:
            is_evaluated = progress.evaluated_step == progress.step
            if progress.step_in_epoch in evaluated_after and not is_evaluated:
                self.evaluate()
            if progress.step_in_epoch == len(steps) or self.is_out_of_patience:
                return
            self.train_step(steps[progress.step_in_epoch])
            if processes.any_of(self.stop.is_requested):
                self.save()
                raise Interrupted
            if progress.step % self.job.save_every == 0:
                self.save()

    def train_step(self, update: list[Part]) -> None:
        """One update: learning rate, gradient, clipping, and the step of the optimizer."""
        job = self.job
        progress = self.progress
        # The learning rate of this step: its peak times a factor of the schedule.
        warmup_steps = round(job.warmup * progress.num_steps)
        factor = SCHEDULES[job.schedule](progress.step, progress.num_steps, warmup_steps)
        for group in job.optimizer.param_groups:
            group["lr"] = group["initial_lr"] * factor

        # None, not 0: a head that this step does not touch keeps its weights.
        job.optimizer.zero_grad(set_to_none=True)
        update_loss = backward(job, update)
        loss = update_loss.loss
        if not math.isfinite(loss):
            self.refuse("the loss", loss, [update_loss.part])
        progress.losses.append(loss)

        # The norm is computed where nothing is clipped, too: it shows whether all is finite.
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, job.max_grad_norm or math.inf)
        if not torch.isfinite(norm):
            self.refuse("the gradient's norm", float(norm), update)
        job.optimizer.step()
        progress.step += 1
        progress.step_in_epoch += 1
        if job.average is not None:
            job.average.update(progress.step, progress.num_steps)
        if job.reference is not None:
            job.reference.update(progress.step, progress.num_steps)
        self.report_step(update_loss, float(norm))

        # One batch says little: losses of tasks have different scales.
        shown = progress.losses[-SHOWN_LOSSES:]
        self.work.advance(note=f"loss {sum(shown) / len(shown):.4f}")

    def report_step(self, update_loss: UpdateLoss, gradient_norm: float) -> None:
        """Tell the job what this step did. Of several processes the first one does."""
        if processes.number():
            return
        job = self.job
        learning_rates = [group["lr"] for group in job.optimizer.param_groups]
        record = StepRecord(
            stage=job.name,
            epoch=self.progress.epoch + 1,
            step=self.progress.step,
            loss=update_loss.loss,
            losses=update_loss.by_task,
            learning_rate=max(learning_rates),
            gradient_norm=gradient_norm,
            seconds=time.perf_counter() - self.started,
            tokens=update_loss.num_tokens,
        )
        job.on_step(record)

    def refuse(self, quantity: str, value: float, parts: list[Part]) -> NoReturn:
        """Stop the job at a number that is not finite, before it reaches the weights."""
        progress = self.progress
        batches = []
        for task, rows, _ in parts:
            batches.append(f"{task}: {', '.join(self.job.load(task, rows).ids)}")
        stored = checkpoint.load_checkpoint(self.job.folder)
        last = f"{self.job.folder} (step {stored.state['step']})" if stored else "none yet"
        raise NonFiniteLoss(
            f"{self.job.name}: {quantity} is {value} at step {progress.step + 1} of "
            f"{progress.num_steps}. Batch: {'; '.join(batches)}. Last good checkpoint: {last}. "
            "Lower this stage's learning rate (--lr, --contrastive_lr, --mlm_lr), raise its "
            "warm-up (--warmup, --contrastive_warmup), or try --precision fp32."
        )

    def evaluate(self) -> None:
        """Score the model, keep it if it is the best so far, print a line, write a checkpoint."""
        job = self.job
        progress = self.progress
        try:
            scores = self.score()
        except Interrupted:
            # It is still marked as not evaluated: a resumed run begins with this evaluation.
            self.save()
            raise

        # The recorded loss is the mean since the evaluation before.
        loss = sum(progress.losses) / len(progress.losses)
        progress.losses = []
        progress.evaluated_step = progress.step
        entry = {"epoch": progress.epoch + 1, "step": progress.step, "loss": loss, **scores}
        progress.history.append(entry)
        # Of equal scores the first one stays the best.
        value = job.selection_value(scores)
        is_best = progress.best_score is None or value > progress.best_score
        if is_best or job.keeps_last:
            progress.best_score = value
            progress.best_step = progress.step
            with self.averaged():
                self.best_digest = processes.from_first(self.save_best)
        self.save()

        mark = "best" if progress.best_step == progress.step and not job.keeps_last else ""
        position = f"{progress.step}/{progress.num_steps}"
        terminal.scores(job.name, position, {"loss": loss, **scores}, mark)
        self.report_evaluations()

    def report_evaluations(self) -> None:
        """Give the scores of all evaluations so far to whoever draws them."""
        processes.from_first(lambda: self.job.on_evaluation(self.progress.history))
        self.has_reported = True

    def score(self) -> dict[str, float]:
        """The scores of the model, with its averaged weights where the job asks for them."""
        with self.averaged():
            # A signal ends the evaluation at once, but not the exchange of weights around it.
            try:
                self.stop.is_evaluating = True
                with terminal.working("evaluation"):
                    return self.job.evaluate()
            finally:
                self.stop.is_evaluating = False

    def finish(self) -> None:
        """Put the best model into job.model and mark the job as done."""
        # With an average the file of the best model holds other weights than the last step.
        if self.progress.best_step != self.progress.step or self.job.average is not None:
            path = self.job.folder / self.best_file
            if self.best_digest:
                self.check_best(path)
            best = load_file(path)
            self.job.model.load_state_dict(best)
        self.progress.is_finished = True
        self.save()

    def check_best(self, path: Path) -> None:
        """ValueError if the file of the best model is not as it was written."""
        try:
            check_digest(path, self.best_digest)
        except (OSError, ValueError) as error:
            raise ValueError(
                f"{path}: the best model cannot be read ({error}). Delete the folder "
                f"{self.job.folder} and resume, to start this stage anew."
            ) from error

    def averaged(self) -> AbstractContextManager[None]:
        """Within it the model has its averaged weights, where the job asks for an average."""
        return nullcontext() if self.job.average is None else self.job.average.in_model()

    @property
    def best_file(self) -> str:
        """The file name of the best model so far, in the job's folder."""
        return f"best-{self.progress.best_step:08d}.safetensors"

    def save_best(self) -> str:
        """Write the model as it is: the best one so far. Returns the SHA-256 of the file."""
        return write_tensors(self.job.folder / self.best_file, self.job.model.state_dict())

    def save(self) -> None:
        """Write all that decides the next steps: weights, optimizer, progress, random states."""
        job = self.job
        progress = self.progress
        progress.seconds = time.perf_counter() - self.started
        # All tensors go into one file, under the name of their group.
        optimizer = checkpoint.pack_optimizer(job.optimizer)
        groups = {
            "model": job.model.state_dict(),
            "optimizer": optimizer.tensors,
            "random": runtime.random_state(),
            "plan": {"epoch_state": self.epoch_state},
            "surgery": job.surgery.state_dict() if job.surgery else {},
            "average": job.average.state_dict() if job.average else {},
            "reference": job.reference.state_dict() if job.reference else {},
        }
        tensors: dict[str, Tensor] = {}
        for group, members in groups.items():
            for name, tensor in members.items():
                tensors[f"{group}.{name}"] = tensor
        kept = [self.best_file] if progress.best_score is not None else []
        state = {
            **asdict(progress),
            "optimizer": optimizer.content,
            "keep": kept,
            "digests": {name: self.best_digest for name in kept if self.best_digest},
        }
        processes.from_first(lambda: checkpoint.save_checkpoint(job.folder, tensors, state))

    def restore(self) -> None:
        """Put back what `save` wrote, if it wrote anything.

        ValueError where the checkpoint is of another model or version.
        """
        stored = checkpoint.load_checkpoint(self.job.folder)
        if stored is None:
            return
        try:
            self.put_back(stored)
        except DAMAGES as error:
            reason = " ".join(str(error).split())
            raise ValueError(
                f"{self.job.folder}: the checkpoint is not of this model or version "
                f"({reason[:300]}). Go back to the code that wrote it, or delete that folder to "
                "start anew."
            ) from error

    def put_back(self, stored: checkpoint.Checkpoint) -> None:
        """Set all state to that of the checkpoint."""
        job = self.job
        tensors = stored.tensors
        state = stored.state
        self.progress = Progress(**{name: state[name] for name in asdict(self.progress)})
        self.progress.check()
        self.best_digest = state.get("digests", {}).get(self.best_file, "")
        job.model.load_state_dict(checkpoint.group_of("model", tensors))
        moments = checkpoint.group_of("optimizer", tensors)
        checkpoint.unpack_optimizer(job.optimizer, moments, state["optimizer"])
        runtime.restore_random_state(checkpoint.group_of("random", tensors))
        if job.surgery:
            job.surgery.load_state_dict(checkpoint.group_of("surgery", tensors))
        if job.average:
            job.average.load_state_dict(checkpoint.group_of("average", tensors))
        if job.reference:
            job.reference.load_state_dict(checkpoint.group_of("reference", tensors))
        self.epoch_state = tensors["plan.epoch_state"]
        self.generator.set_state(self.epoch_state)


def evaluation_steps(num_steps: int, num_evaluations: int) -> set[int]:
    """The steps of an epoch after which it is evaluated, counted from 1: evenly spread."""
    steps = set()
    for part in range(1, num_evaluations + 1):
        steps.add(math.ceil(num_steps * part / num_evaluations))
    return steps
