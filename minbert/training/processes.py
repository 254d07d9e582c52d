"""Several processes do one job: `torchrun --nproc_per_node N run_multitask.py ...`.

Every process goes through the same steps with the same weights and the same random numbers. Of a
batch each process encodes its own rows. A stage's loss is then a share: the shares of all processes
add up to the loss of the batch. So the sum of their gradients is the gradient that one process
alone would have. Only the first process predicts, scores and writes.

`contrastive.embed` and `multitask.predict` train nothing. There the processes share the batches,
and the first one writes what all have computed.

Without torchrun there is one process, and every function here does nothing.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, NamedTuple, TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn

from minbert.training.code_version import code_version

Result = TypeVar("Result")

# The others wait this long while the first process predicts a large file. They notice at once when
# a process ends.
TIMEOUT = timedelta(days=1)


LONGEST_VALUE = 40  # letters of a value in a message

# The variables of torchrun by which processes meet.
VARIABLES = ("RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")


class OwnRows(NamedTuple):
    """The rows of a batch that one process encodes."""

    rows: list[int]
    share: float  # of the batch, 0 to 1


class OwnBatches(NamedTuple):
    """The batches of a table that one process computes."""

    batches: list[list[int]]  # numbers of the rows of each
    is_counted: bool  # whether no other process has them

    @property
    def rows(self) -> list[int]:
        """The numbers of the rows of all batches, in growing order."""
        return sorted(itertools.chain.from_iterable(self.batches))


def num_started() -> int:
    """How many processes torchrun has started; 1 without it."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def join(device: str) -> None:
    """Meet the other processes of torchrun, by gloo (CPU) or nccl (GPU).

    From here on only the first process prints.

    device: that of the command line, which may be "auto".
    ValueError where a machine has fewer GPUs than processes, or an Apple GPU.
    """
    if num_started() == 1:
        return
    absent = [name for name in VARIABLES if not os.environ.get(name)]
    if absent:
        raise ValueError(
            f"WORLD_SIZE is {num_started()}, and {absent[0]} is not set. torchrun sets both. Start "
            "several processes with torchrun, or one after `unset WORLD_SIZE RANK`."
        )
    if device != "cpu" and torch.backends.mps.is_available():
        raise ValueError(
            "several processes cannot share an Apple GPU: torch.distributed does not know it. Pass "
            "--device cpu, or start without torchrun."
        )
    has_gpu = device != "cpu" and torch.cuda.is_available()
    if has_gpu:
        take_gpu(int(os.environ["LOCAL_RANK"]))
    backend = "cpu:gloo,cuda:nccl" if has_gpu else "gloo"
    dist.init_process_group(backend, timeout=TIMEOUT)
    if number() != 0:
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, sys.stdout.fileno())


def join_helpers(device: str) -> None:
    """`join` for a command in which the processes exchange only vectors on the CPU, by gloo.

    device: that of the command line. Each process takes a GPU of its own where there is one.
    """
    if num_started() == 1:
        return
    if device != "cpu" and torch.cuda.is_available():
        take_gpu(int(os.environ["LOCAL_RANK"]))
    join("cpu")


def take_gpu(local_number: int) -> None:
    """Make the GPU with this number the one that "cuda" means in this process."""
    num_gpus = torch.cuda.device_count()
    if local_number >= num_gpus:
        raise ValueError(
            f"torchrun started process {local_number + 1} on this machine, which has {num_gpus} "
            f"GPUs; each process needs its own. Pass --nproc_per_node {num_gpus} to torchrun, or "
            "--device cpu."
        )
    torch.cuda.set_device(local_number)


def leave() -> None:
    """The training is over: the first process goes on alone, the others end here."""
    is_first = number() == 0
    if count() > 1:
        dist.destroy_process_group()
    if not is_first:
        end()


def end() -> None:
    """All is written: one of several processes ends here at once, without Python's clean-up.

    A thread of gloo that drops its last tensor during the clean-up aborts the process (pytorch pull
    request 179291). torchrun would take this for a failure of the whole job. One process alone goes
    on and returns as any program does.
    """
    if num_started() > 1:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def count() -> int:
    """How many processes there are."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def number() -> int:
    """The number of this process, 0 to count() - 1. Process 0 writes and prints."""
    return dist.get_rank() if count() > 1 else 0


@contextmanager
def _together() -> Iterator[None]:
    """Within it this process waits for the others; ConnectionError where one of them has ended."""
    try:
        yield
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise ConnectionError(
            f"process {number()} of {count()} lost the others ({reason}); one of them has ended, "
            "see its message. Start again; a saved run can be resumed."
        ) from error


def own_rows(num_rows: int) -> OwnRows:
    """The rows of a batch that are this process's. All processes together have each row once.

    With fewer rows than processes, a process without rows takes row 0 with a share of 0: it has to
    keep step with the others.
    """
    rows = list(range(number(), num_rows, count()))
    if not rows:
        return OwnRows([0], 0.0)
    return OwnRows(rows, len(rows) / num_rows)


def add(tensor: Tensor) -> Tensor:
    """The sum of the processes' tensors, which must have one shape; computed in place."""
    if count() > 1:
        with _together():
            dist.all_reduce(tensor)
    return tensor


def share_out(batches: list[list[int]]) -> OwnBatches:
    """The batches that this process computes. All processes together have each batch once.

    batches: the numbers of their rows, the same in all processes. With fewer batches than
    processes, a process without any takes the first one, and its rows do not count.
    """
    share = batches[number() :: count()]
    return OwnBatches(share or batches[:1], is_counted=bool(share))


def join_rows(share: OwnBatches, values: Tensor, num_rows: int) -> Tensor:
    """The values (num_rows, ...) of all rows, from those that each process has computed.

    values: float32 on the CPU, for each row of the share, in the order of their numbers.
    All bits stay as they are: whole numbers are added, as a sum of floats makes 0.0 of -0.0.
    """
    whole = values.new_zeros(num_rows, *values.shape[1:])
    if share.is_counted:
        whole[share.rows] = values
    return add(whole.view(torch.int32)).view(torch.float32)


def any_of(is_true: bool) -> bool:
    """Whether it is true in any process, so that all decide alike."""
    return bool(add(torch.tensor(float(is_true))))


def add_gradients(parameters: Sequence[nn.Parameter]) -> None:
    """Put the sum of the processes' gradients into .grad.

    A .grad of None, where no process has a gradient, stays None.
    """
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    if count() == 1 or not gradients:
        return
    # One long vector needs one message between the processes.
    total = add(torch.cat([gradient.flatten() for gradient in gradients]))
    pieces = total.split([gradient.numel() for gradient in gradients])
    for gradient, piece in zip(gradients, pieces, strict=True):
        gradient.copy_(piece.view_as(gradient))


class Gather(torch.autograd.Function):
    """Gather.apply(rows, num_rows): the results of all processes, in the order of the batch.

    rows: what this process made of its own_rows(num_rows). Returns (num_rows, ...).
    Gradients flow back into the process that made a row, summed over the use that all processes
    make of it.
    """

    @staticmethod
    def forward(context: Any, rows: Tensor, num_rows: int) -> Tensor:
        context.rows, context.share = own_rows(num_rows)
        batch = rows.new_zeros(num_rows, *rows.shape[1:])
        if context.share:
            batch[context.rows] = rows
        return add(batch)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None]:
        # nccl takes contiguous tensors only.
        copy = gradient.clone(memory_format=torch.contiguous_format)
        gradient_of_rows = add(copy)[context.rows]
        return gradient_of_rows * bool(context.share), None


def gather(rows: Tensor, num_rows: int) -> Tensor:
    """`Gather`, which one process alone does not need."""
    return Gather.apply(rows, num_rows) if count() > 1 else rows


def from_first(make: Callable[[], Result]) -> Result:
    """The result of `make` in all processes. Only the first process calls it."""
    if count() == 1:
        return make()
    results = [make() if number() == 0 else None]
    with _together():
        dist.broadcast_object_list(results)
    return cast(Result, results[0])


def from_each(value: Result) -> list[Result]:
    """The values of all processes, in the order of their numbers."""
    if count() == 1:
        return [value]
    values: list[Any] = [None] * count()
    with _together():
        dist.all_gather_object(values, value)
    return values


def from_first_here(make: Callable[[], Result]) -> Result:
    """The result of `make` in all processes of a machine. Its first process calls it."""
    if count() == 1:
        return make()
    place = int(os.environ["LOCAL_RANK"])
    results = from_each(make() if place == 0 else None)
    return cast(Result, results[number() - place])


def wait() -> None:
    """Wait until all processes are here."""
    any_of(False)


def check_agreement(facts: Mapping[str, Any]) -> None:
    """ValueError in all processes, with the number and the difference, where they disagree.

    Processes with other options, inputs, weights or code would train one model all the same, and
    nothing would show it.

    facts: what must be equal beside the code, by the name that the message gives it.
    """
    if count() == 1:
        return
    texts = {"code": code_version()["sha256"]}
    texts |= {name: str(value) for name, value in facts.items()}
    of_all = from_each(texts)
    first = of_all[0]
    for rank, other in enumerate(of_all):
        for name in [*first, *(name for name in other if name not in first)]:
            if first.get(name) != other.get(name):
                values = [shortened(other.get(name)), shortened(first.get(name))]
                raise ValueError(
                    f"process {rank} has another {name} than process 0: {values[0]}, not "
                    f"{values[1]}. Start all processes with the same command, files and code."
                )


def shortened(value: str | None) -> str:
    """A value of another process for a message. A digest is cut."""
    if value is None:
        return "none"
    return value if len(value) <= LONGEST_VALUE else f"{value[:LONGEST_VALUE]}..."


@contextmanager
def own_randomness() -> Iterator[None]:
    """Within it each process draws its own random numbers: two rows must not share a dropout mask.

    Afterwards all processes have the same state again. It is one draw further where anything was
    drawn (on a GPU always). So a checkpoint needs one state, whatever the number of processes.
    """
    if count() == 1:
        yield
        return
    # All processes draw one seed from their common state. Each adds its number to it.
    common = torch.Generator()
    common.set_state(torch.get_rng_state())
    before = common.get_state()
    seed = int(torch.randint(2**62, (), generator=common))
    torch.manual_seed(seed + number())
    started = torch.get_rng_state()
    yield
    # On a GPU the state always goes on: its own generator is not compared.
    has_drawn = torch.cuda.is_initialized() or not torch.equal(started, torch.get_rng_state())
    torch.set_rng_state(common.get_state() if has_drawn else before)
