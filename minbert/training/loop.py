"""fit(): the only training loop of the project. MLM, contrastive and multitask training all run in it.

A stage describes itself as a `Job`: a model, a plan of steps, a loss, an evaluation. A step is a list of (task, row
numbers); the loop does not know how the list was made. Everything else is here once: precision, accumulation, clipping,
schedule, evaluation, best-of, logging, checkpoints, resume, interruption. Next: price.py, which asks what a Job costs.
"""

from __future__ import annotations

import math
import time
from dataclasses import asdict

import torch
from safetensors.torch import load_file
from torch import Tensor
from tqdm import tqdm

from minbert.commands.files import write_tensors
from minbert.schedule import SCHEDULES
from minbert.training import checkpoint, processes, runtime
from minbert.training.gradients import backward
from minbert.training.interruption import Interrupted, StopSignal
from minbert.training.job import Job, Part, Progress


class NonFiniteLoss(FloatingPointError):
    """A loss or gradient is nan or infinite; the message names step, task, rows and the last good checkpoint."""


def fit(job: Job, resume: bool = False) -> Progress:
    """Train `job` to its end, leave its best model in job.model, and return the progress with all scores.

    With `resume` it continues from the checkpoint in job.folder, if there is one, to the same bits as if it had never
    stopped. Raises Interrupted after saving on a signal to stop, NonFiniteLoss where a loss or gradient is not finite,
    ValueError where a checkpoint cannot be read or written.
    """
    return Loop(job, resume).run()


class Loop:
    """One run of a job: the state that `fit` carries from step to step."""

    def __init__(self, job: Job, resume: bool) -> None:
        self.job, self.progress, self.stop = job, Progress(), StopSignal()
        job.model.train()
        runtime.seed_everything(
            job.seed
        )  # each stage starts from its own seed, whatever ran before it
        self.generator = torch.Generator().manual_seed(job.seed)
        self.epoch_state = self.generator.get_state()
        self.parameters = [p for group in job.optimizer.param_groups for p in group["params"]]
        for group in job.optimizer.param_groups:
            group["initial_lr"] = group["lr"]
        if resume:
            self.restore()
        self.started = time.perf_counter() - self.progress.seconds

    def run(self) -> Progress:
        job, progress = self.job, self.progress
        progress.num_steps = sum(1 for _ in job.all_steps())
        self.bar = tqdm(
            desc=job.name,
            unit="step",
            disable=True if processes.number() else None,  # None: no terminal
            initial=progress.step,
            total=progress.num_steps,
            dynamic_ncols=True,
        )
        with self.stop.listening(), self.bar, job.freezing():
            while (
                progress.epoch < job.epochs
                and not progress.is_finished
                and not self.is_out_of_patience
            ):
                if progress.step_in_epoch == 0:
                    job.before_epoch(progress.epoch)
                self.epoch_state = (
                    self.generator.get_state()
                )  # from which a resumed run makes the same plan again
                self.run_epoch(job.epoch_steps(progress.epoch, self.generator))
                progress.epoch, progress.step_in_epoch = progress.epoch + 1, 0
            if not progress.is_finished:
                self.finish()
        if processes.any_of(
            self.stop.is_requested
        ):  # it came after the last step: the job is done, the rest is not
            raise Interrupted
        return progress

    def run_epoch(self, steps: list[list[Part]]) -> None:
        """The epoch's steps that are not done yet, with the evaluations that fall due between them."""
        job, progress, parts = self.job, self.progress, self.job.evaluations_per_epoch
        due = {math.ceil(len(steps) * part / parts) for part in range(1, parts + 1)}
        while True:
            if progress.step_in_epoch in due and progress.evaluated_step != progress.step:
                self.evaluate()
            if progress.step_in_epoch == len(steps) or self.is_out_of_patience:
                return
            self.train_step(steps[progress.step_in_epoch])
            if processes.any_of(self.stop.is_requested):
                self.save()
                raise Interrupted
            if progress.step % job.save_every == 0:
                self.save()

    @property
    def is_out_of_patience(self) -> bool:
        """Whether the last `patience` evaluations brought nothing better (early stopping)."""
        since_best = [
            entry for entry in self.progress.history if entry["step"] > self.progress.best_step
        ]
        return 0 < self.job.patience <= len(since_best)

    def train_step(self, step: list[Part]) -> None:
        """One update: the step's gradient, then clip and step."""
        job, progress = self.job, self.progress
        warmup_steps = round(job.warmup * progress.num_steps)
        factor = SCHEDULES[job.schedule](progress.step, progress.num_steps, warmup_steps)
        for group in job.optimizer.param_groups:
            group["lr"] = group["initial_lr"] * factor
        job.optimizer.zero_grad(
            set_to_none=True
        )  # None, not 0: a head that this step does not touch keeps its weights
        loss, last = backward(job, step)
        if not math.isfinite(loss):
            self.refuse("the loss", loss, [last])
        progress.losses.append(loss)
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, job.max_grad_norm or math.inf)
        if not torch.isfinite(norm):
            self.refuse("the gradient's norm", float(norm), step)
        job.optimizer.step()
        progress.step, progress.step_in_epoch = progress.step + 1, progress.step_in_epoch + 1
        self.bar.set_postfix(
            loss=f"{sum(progress.losses[-50:]) / len(progress.losses[-50:]):.4f}", refresh=False
        )
        self.bar.update()

    def refuse(self, what: str, value: float, step: list[Part]) -> None:
        """Stop the job at a number that is not finite, before it reaches the weights."""
        ids = "; ".join(
            f"{task}: {', '.join(self.job.load(task, rows).ids)}" for task, rows, _ in step
        )
        stored = checkpoint.load_checkpoint(self.job.folder)
        last = f"{self.job.folder} (step {stored[1]['step']})" if stored else "none yet"
        raise NonFiniteLoss(
            f"{self.job.name}: {what} is {value} at step {self.progress.step + 1} of "
            f"{self.progress.num_steps}. Batch: {ids}. Last good checkpoint: {last}. Lower this "
            "stage's learning rate (--lr, --contrastive_lr, --mlm_lr), raise its warm-up (--warmup, "
            "--contrastive_warmup), or try --precision fp32."
        )

    def evaluate(self) -> None:
        """Score the model, keep it if it is the best so far, write a line and a checkpoint."""
        job, progress = self.job, self.progress
        try:
            self.stop.is_evaluating = True
            scores = job.evaluate()
        except Interrupted:
            self.save()  # still marked as not evaluated, so that a resumed run begins with this evaluation
            raise
        finally:
            self.stop.is_evaluating = False
        loss = sum(progress.losses) / len(progress.losses)
        progress.losses, progress.evaluated_step = [], progress.step
        progress.history.append(
            {"epoch": progress.epoch + 1, "step": progress.step, "loss": loss, **scores}
        )
        if progress.best_score is None or job.judge(scores) > progress.best_score:
            progress.best_score, progress.best_step = job.judge(scores), progress.step
            processes.from_first(
                lambda: write_tensors(job.folder / self.best_file, job.model.state_dict())
            )
        self.save()
        shown = "  ".join(f"{name} {value:.4f}" for name, value in scores.items())
        mark = "  (best)" if progress.best_step == progress.step else ""
        tqdm.write(
            f"{job.name}: step {progress.step}/{progress.num_steps}  loss {loss:.4f}  {shown}{mark}"
        )
        processes.from_first(lambda: job.on_evaluation(progress.history))

    def finish(self) -> None:
        """Put the best model into job.model and mark the job as done."""
        if self.progress.best_step != self.progress.step:
            self.job.model.load_state_dict(load_file(self.job.folder / self.best_file))
        self.progress.is_finished = True
        self.save()

    @property
    def best_file(self) -> str:
        return f"best-{self.progress.best_step:08d}.safetensors"

    def save(self) -> None:
        """Write everything that decides the next steps: weights, optimizer, progress, every random state."""
        self.progress.seconds = time.perf_counter() - self.started
        optimizer_tensors, optimizer_content = checkpoint.pack_optimizer(self.job.optimizer)
        groups = {
            "model": self.job.model.state_dict(),
            "optimizer": optimizer_tensors,
            "random": runtime.random_state(),
            "plan": {"epoch_state": self.epoch_state},
            "surgery": self.job.surgery.state_dict() if self.job.surgery else {},
        }
        tensors = {
            f"{group}.{name}": tensor
            for group, named in groups.items()
            for name, tensor in named.items()
        }
        keep = [self.best_file] if self.progress.best_score is not None else []
        state = {**asdict(self.progress), "optimizer": optimizer_content, "keep": keep}
        processes.from_first(lambda: checkpoint.save_checkpoint(self.job.folder, tensors, state))

    def restore(self) -> None:
        """Put back what `save` wrote, if it wrote anything; ValueError where that was of another model or version."""
        stored = checkpoint.load_checkpoint(self.job.folder)
        try:
            if stored is not None:
                self.put_back(*stored)
        except (RuntimeError, KeyError, ValueError, TypeError) as error:
            reason = " ".join(str(error).split())
            raise ValueError(
                f"{self.job.folder}: the checkpoint is not of this model or version ({reason[:300]}). Go "
                "back to the code that wrote it, or delete that folder to start anew."
            ) from error

    def put_back(self, tensors: dict[str, Tensor], state: dict) -> None:
        self.progress = Progress(**{name: state[name] for name in asdict(self.progress)})
        self.job.model.load_state_dict(checkpoint.group_of("model", tensors))
        checkpoint.unpack_optimizer(
            self.job.optimizer, checkpoint.group_of("optimizer", tensors), state["optimizer"]
        )
        runtime.restore_random_state(checkpoint.group_of("random", tensors))
        if self.job.surgery:
            self.job.surgery.load_state_dict(checkpoint.group_of("surgery", tensors))
        self.epoch_state = tensors["plan.epoch_state"]
        self.generator.set_state(self.epoch_state)
