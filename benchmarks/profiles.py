"""Where does our side's time go? `python -m benchmarks.profiles NAME`: the operations of one benchmark, by their share.

Takes the same parts as the benchmark of that name; the two sides of `simcse` stand side by side. Prints a table in
Markdown, and one line of JSON at the end. What the clock itself costs falls between the operations.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from benchmarks import inference, simcse
from benchmarks.comparison import versions
from benchmarks.material import DEVICE, Settings, sst_examples, without_bf16, write_model
from benchmarks.sides import Take
from benchmarks.training import our_side
from minbert.training import cost_estimate as price
from minbert.training import runtime

ROOT = Path(__file__).resolve().parent.parent
PRODUCTS = ("mm", "addmm", "bmm")


def train_step(settings: Settings, num_parts: int) -> dict[str, tuple[Take, int]]:
    examples = sst_examples(settings.data_dir, num_parts * settings.batch_size)
    take = our_side(
        settings.model,
        settings.folder / "ours",
        examples,
        settings.batch_size,
        settings.place(settings.precision),
    )
    return {"a training step": (take, len(examples) // settings.batch_size)}


def sentences_to_vectors(settings: Settings, num_parts: int) -> dict[str, tuple[Take, int]]:
    examples = sst_examples(settings.data_dir, num_parts * settings.batch_size)
    folder = inference.write_export(settings.model, settings.folder / "export")
    sentences = [example.sentence_1 for example in examples]
    take = inference.our_side(
        folder, sentences, settings.batch_size, settings.place(settings.precision)
    )
    return {"all sentences": (take, 1)}


def simcse_step(settings: Settings, num_parts: int) -> dict[str, tuple[Take, int]]:
    rows, batches = simcse.rows_and_batches(settings, num_parts)
    methods = {"one pass of 2B rows": simcse.SimCSE, "two passes of B": simcse.TwoPasses}
    return {
        name: (
            simcse.make_side(method, settings.model, rows, batches, settings.precision),
            len(batches),
        )
        for name, method in methods.items()
    }


SIDES: dict[str, Callable[[Settings, int], dict[str, tuple[Take, int]]]] = {
    "train_step": train_step,
    "inference": sentences_to_vectors,
    "simcse": simcse_step,
}


class Clock(TorchDispatchMode):
    """While it is on, adds up the seconds of each operation, and the FLOPs of matrix products.

    torch.profiler does not do here: it keeps what it noted between our tensors, so that the large ones do not find
    their freed place again and their pages are faulted in anew with each step, which a run does not have.
    """

    def __init__(self) -> None:
        super().__init__()
        self.seconds: Counter[str] = Counter()
        self.flops = 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        started = time.perf_counter()
        result = operation(*args, **(kwargs or {}))
        name = operation.overloadpacket.__name__
        self.seconds[name] += time.perf_counter() - started
        if name in PRODUCTS:
            self.flops += flop_registry[operation.overloadpacket](
                *args, **(kwargs or {}), out_val=result
            )
        return result


def profiled(take: Take, num_parts: int) -> dict:
    """Seconds by operation of the parts 0 to `num_parts` - 1, and FLOPs and seconds of the matrix products."""
    for _ in range(
        2
    ):  # the first warms up: batches of all shapes, and what torch imports for a dispatch mode
        clock, started = Clock(), time.perf_counter()
        with clock:
            for part in range(num_parts):
                take(part)
    total = time.perf_counter() - started
    return {
        "seconds": dict(clock.seconds.most_common()),
        "total": total,
        "flops": clock.flops,
        "products": sum(clock.seconds[name] for name in PRODUCTS),
        "between": total - clock.seconds.total(),
    }


def table(sides: dict[str, dict], num_rows: int) -> str:
    """Milliseconds and share of each side; the operations in the order of the first side."""
    first = next(iter(sides.values()))
    lines = ["| ms, share of the time | " + " | ".join(sides) + " |", "|---|" + "---|" * len(sides)]
    rows: Sequence[tuple[str, Callable[[dict], float]]] = [
        ("everything", lambda side: side["total"]),
        ("matrix products", lambda side: side["products"]),
        ("between the operations", lambda side: side["between"]),
        *(
            (name, lambda side, name=name: side["seconds"].get(name, 0.0))
            for name in [*first["seconds"]][:num_rows]
        ),
    ]
    for name, seconds in rows:
        cells = [
            f"{1e3 * seconds(side):,.0f}, {seconds(side) / side['total']:.1%}"
            for side in sides.values()
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=list(SIDES), help="as of python -m benchmarks")
    parser.add_argument(
        "--data-dir",
        default=str(ROOT / "data" / "sample"),
        help="folder with the nine course files (the sample)",
    )
    parser.add_argument("--model", default="auto", help="as of python -m benchmarks (%(default)s)")
    parser.add_argument(
        "--batch-size",
        type=int,
        default=32,
        help="sentences; simcse has its preset's (%(default)s)",
    )
    parser.add_argument("--parts", type=int, default=20, help="batches (%(default)s)")
    parser.add_argument("--rows", type=int, default=12, help="operations to show (%(default)s)")
    parser.add_argument("--threads", type=int, default=2, help="of torch (%(default)s)")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    runtime.settle_memory()
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(
            given.data_dir, given.threads, given.batch_size, False, None, Path(folder)
        )
        model = write_model(given.model, settings.model)
        sides = {
            name: profiled(*side) for name, side in SIDES[given.name](settings, given.parts).items()
        }
    limit = price.matrix_product_limit(DEVICE, settings.precision)
    print(
        *without_bf16("All is in fp32."),
        f"{given.name}, {model}, {settings.precision}, {given.threads} "
        f"threads, {given.parts} batches\n\n{table(sides, given.rows)}\n",
        sep="\n",
    )
    for name, side in sides.items():
        rate = side["flops"] / side["products"]
        side["share_of_limit"] = rate / limit
        print(
            f"{name}: the matrix products run at {rate / 1e9:,.0f} GFLOP/s, {rate / limit:.0%} of the limit of "
            f"{limit / 1e9:,.0f}, measured in the same run"
        )
    print(
        json.dumps(
            {
                "name": f"profiles {given.name}",
                "sides": sides,
                "limit": limit,
                "versions": versions(),
            }
        )
    )


if __name__ == "__main__":
    main()
