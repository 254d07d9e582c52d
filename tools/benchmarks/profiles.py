"""Which operations take the time of our side? `python -m tools.benchmarks.profiles NAME`.

It takes the same parts as the benchmark of that name. The two sides of `simcse` and of `surgery`
stand side by side.
The command prints a table in Markdown, and one line of JSON at the end. The time of the clock
itself falls between the operations. `--record` adds a row for each side to the records: what an
ideal batch would take, with nothing but matrix products at the machine's limit, and what the rest
of the time goes to. The limit is that of the benchmarks, measured before and after the sides.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from experiments.records import RECORDS
from minbert import BertConfig
from minbert.commands.ending import exit_code
from minbert.commands.flags import Parser
from minbert.training import runtime
from tools.benchmarks import inference, simcse, surgery, training_sides
from tools.benchmarks.comparison import versions
from tools.benchmarks.inputs import sst_examples, write_model
from tools.benchmarks.limit import INT8, Limit, notes_without_bf16
from tools.benchmarks.recording import HELP, record_measurement
from tools.benchmarks.settings import Settings
from tools.benchmarks.timing import Side

ROOT = Path(__file__).resolve().parents[2]
PRODUCTS = ("mm", "addmm", "bmm", "linear_dynamic", "_linear_pointwise")
PROFILES = RECORDS / "profiles.jsonl"
NUM_OTHERS = 6
NUM_SHAPES = 3


class Product(NamedTuple):
    """The sizes of a matrix product: rows, the size that is summed over, and columns.

    number: of products that one operation computes.
    """

    number: int
    rows: int
    inner: int
    columns: int

    @property
    def flops(self) -> int:
        """Two for each multiplication and addition."""
        return 2 * self.number * self.rows * self.inner * self.columns


class ProfiledSide(NamedTuple):
    """A side, and the number of its parts."""

    run_part: Side
    num_parts: int


Sides = dict[str, ProfiledSide]
Profile = dict[str, Any]


# --- the sides ------------------------------------------------------------------------------------


def train_step(settings: Settings, num_parts: int) -> Sides:
    """Return our side of the benchmark train_step."""
    examples = sst_examples(settings.data_dir, num_parts * settings.batch_size)
    data = training_sides.TrainingData(settings.model, examples, settings.batch_size)
    execution = settings.execution(settings.precision)
    run_part = training_sides.our_side(data, settings.folder / "ours", execution)
    return {"a training step": ProfiledSide(run_part, len(examples) // settings.batch_size)}


def sentences_to_vectors(settings: Settings, num_parts: int) -> Sides:
    """Return our side of the benchmark inference, with all sentences in one part."""
    examples = sst_examples(settings.data_dir, num_parts * settings.batch_size)
    sentences = [example.sentence_1 for example in examples]
    folder = inference.write_export(settings.model, settings.folder / "export")
    execution = settings.execution(settings.precision)
    run_part = inference.our_side(folder, sentences, settings.batch_size, execution)
    return {"all sentences": ProfiledSide(run_part, 1)}


def simcse_step(settings: Settings, num_parts: int) -> Sides:
    """Return both sides of the benchmark simcse."""
    data = simcse.read_data(settings, num_parts)
    methods = {"one pass of 2B rows": simcse.SimCSE, "two passes of B": simcse.TwoPasses}
    sides = {}
    for name, method in methods.items():
        run_part = simcse.make_side(method, settings.model, data, settings.precision)
        sides[name] = ProfiledSide(run_part, len(data.batches))
    return sides


def surgery_step(settings: Settings, num_parts: int) -> Sides:
    """Return our two sides of the benchmark surgery. Each step has the same batches."""
    joint_step = surgery.JointStep(
        settings.model, settings.data_dir, settings.batch_size, settings.precision
    )
    sides = {}
    for name, kind in {"a PCGrad step": "pcgrad", "a joint step": "mean"}.items():
        run_part = surgery.our_side(joint_step, kind, settings.folder / kind)
        sides[name] = ProfiledSide(run_part, num_parts)
    return sides


SIDES: dict[str, Callable[[Settings, int], Sides]] = {
    "train_step": train_step,
    "inference": sentences_to_vectors,
    "simcse": simcse_step,
    "surgery": surgery_step,
}


# --- the profile ----------------------------------------------------------------------------------


def product_of(name: str, arguments: Sequence[Any], result: torch.Tensor) -> Product:
    """Return the sizes of the product that an operation of PRODUCTS has computed."""
    # addmm has the bias first, and the last two of PRODUCTS may have packed weights.
    left = arguments[1] if name == "addmm" else arguments[0]
    inner = left.shape[-1]
    columns = result.shape[-1]
    number = result.shape[0] if name == "bmm" else 1
    return Product(number, result.numel() // columns // number, inner, columns)


class OperationClock(TorchDispatchMode):
    """While it is on, it adds up the seconds of each operation and product, and their FLOPs.

    torch.profiler is of no use here. It keeps its notes between our tensors. Then the large tensors
    do not find their freed place again, and their pages are faulted in with each step. A run does
    not have that.
    """

    def __init__(self) -> None:
        super().__init__()
        self.seconds: Counter[str] = Counter()
        self.products: Counter[Product] = Counter()
        self.flops = 0

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        """Run an operation and note its seconds."""
        # The time of the operation alone: what we note falls between operations.
        keywords = kwargs or {}
        started = time.perf_counter()
        result = operation(*args, **keywords)
        seconds = time.perf_counter() - started
        name = operation.overloadpacket.__name__
        self.seconds[name] += seconds  # type: ignore[assignment]
        if name in PRODUCTS:
            product = product_of(name, args, result)
            self.products[product] += seconds  # type: ignore[assignment]
            self.flops += product.flops
        return result


def profile(side: ProfiledSide, sizes: set[int]) -> Profile:
    """Return seconds by operation of all parts, and FLOPs and seconds of the matrix products.

    sizes: of the layers, by which the shapes of products are named.
    """
    # The first pass warms up: batches of all shapes, and the imports of torch for a dispatch mode.
    for _ in range(2):
        clock = OperationClock()
        started = time.perf_counter()
        with clock:
            for part in range(side.num_parts):
                side.run_part(part)
        total = time.perf_counter() - started
    return {
        "seconds": dict(clock.seconds.most_common()),
        "total": total,
        "flops": clock.flops,
        "products": sum(clock.seconds[name] for name in PRODUCTS),
        "shapes": most_costly_shapes(clock.products, total, sizes),
        "between": total - clock.seconds.total(),
    }


def format_table(profiles: dict[str, Profile], num_operations: int) -> str:
    """Return milliseconds and share of each side, with the operations in the first side's order."""
    titles = ["ms, share of the time", *profiles]
    lines = [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]

    def add_row(name: str, seconds_of: Callable[[Profile], float]) -> None:
        cells = [name]
        for side in profiles.values():
            seconds = seconds_of(side)
            cells.append(f"{1e3 * seconds:,.0f}, {seconds / side['total']:.1%}")
        lines.append(f"| {' | '.join(cells)} |")

    add_row("everything", lambda side: side["total"])
    add_row("matrix products", lambda side: side["products"])
    add_row("between the operations", lambda side: side["between"])
    # The operations that take the most time come first.
    first = next(iter(profiles.values()))
    for operation in list(first["seconds"])[:num_operations]:
        add_row(operation, seconds_in(operation))
    return "\n".join(lines)


def shape_of(product: Product, sizes: set[int]) -> str:
    """Return a product in words, as rows x inner size x columns. T is a number of tokens.

    sizes: those of the layers. Each other size changes from batch to batch.
    """
    dimensions = (product.rows, product.inner, product.columns)
    if product.number > 1:
        # The scores and the weighted means of attention.
        return "attention"
    words = [str(size) if size in sizes else "T" for size in dimensions]
    return f"`{' x '.join(words)}`"


def most_costly_shapes(products: Mapping[Product, float], total: float, sizes: set[int]) -> str:
    """Return the product shapes that take most of the seconds `total`, with their shares.

    products: the seconds of each.
    """
    seconds: Counter[str] = Counter()
    for product, taken in products.items():
        seconds[shape_of(product, sizes)] += taken  # type: ignore[assignment]
    shares = []
    for shape, taken in seconds.most_common(NUM_SHAPES):
        shares.append(f"{shape} {taken / total:.1%}")
    return ", ".join(shares)


def row_of(side: str, profile: Profile, limit: float, num_batches: int) -> dict[str, Any]:
    """Return what the records keep of a side.

    limit: in FLOP/s. num_batches: of all parts. Times are milliseconds of one batch, the others are
    shares of it. "others" names the operations that take most after the matrix products.
    """
    total = profile["total"]
    others = []
    for operation, seconds in profile["seconds"].items():
        if operation not in PRODUCTS:
            others.append(f"`{operation}` {seconds / total:.1%}")
    return {
        "side": side,
        "milliseconds": 1e3 * total / num_batches,
        "ideal": 1e3 * profile["flops"] / limit / num_batches,
        "products": 100 * profile["products"] / total,
        "share_of_limit": 100 * profile["flops"] / profile["products"] / limit,
        "between": 100 * profile["between"] / total,
        "shapes": profile["shapes"],
        "others": ", ".join(others[:NUM_OTHERS]),
    }


def seconds_in(operation: str) -> Callable[[Profile], float]:
    """Return a function that gives a side's seconds in an operation."""
    return lambda side: side["seconds"].get(operation, 0.0)


def build_parser() -> Parser:
    """Return the parser of this command."""
    parser = Parser(description="Where does the time of our side go?")
    parser.add_argument("name", choices=list(SIDES), help="as of python -m tools.benchmarks")
    parser.add_argument(
        "--data-dir",
        default=str(ROOT / "data" / "sample"),
        help="folder with the nine course files (the sample)",
    )
    parser.add_argument(
        "--model", default="auto", help="as of python -m tools.benchmarks (%(default)s)"
    )
    parser.add_argument(
        "--batch-size",
        type=int,
        default=32,
        help="sentences; simcse has its preset's (%(default)s)",
    )
    parser.add_argument("--parts", type=int, default=20, help="batches (%(default)s)")
    parser.add_argument("--rows", type=int, default=12, help="operations to show (%(default)s)")
    parser.add_argument("--threads", type=int, default=2, help="of torch (%(default)s)")
    parser.add_argument(
        "--precision",
        choices=("auto", "fp32", "bf16", INT8),
        default="auto",
        help="of our side; auto: as a run on this machine; int8: of inference (%(default)s)",
    )
    parser.add_argument("--record", action="store_true", help=HELP)
    return parser


def add_shares(profiles: dict[str, Profile], limit: float) -> None:
    """Add to each profile how fast its products run, as a share of the limit, and print it.

    limit: FLOP/s. Only the time inside matrix products counts for their speed.
    """
    for name, side_profile in profiles.items():
        flops_per_second = side_profile["flops"] / side_profile["products"]
        share = flops_per_second / limit
        side_profile["share_of_limit"] = share
        print(
            f"{name}: the matrix products run at {flops_per_second / 1e9:,.0f} GFLOP/s, "
            f"{share:.0%} of the limit of {limit / 1e9:,.0f}, measured in the same run"
        )


@exit_code("python -m tools.benchmarks.profiles")
def main(argv: Sequence[str] | None = None) -> None:
    """Profile the sides, and print a table and one line of JSON."""
    parser = build_parser()
    arguments = parser.parse_args(argv)
    if arguments.precision == INT8 and arguments.name != "inference":
        parser.error(f"int8 is a precision of inference, and not of {arguments.name}.")
    torch.set_num_threads(arguments.threads)
    runtime.settle_memory()
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(
            data_dir=arguments.data_dir,
            threads=arguments.threads,
            batch_size=arguments.batch_size,
            is_quick=False,
            num_rounds=None,
            folder=Path(folder),
            asked_precision=arguments.precision,
        )
        model = write_model(arguments.model, settings.model)
        config = BertConfig.from_pretrained(settings.model)
        sizes = {config.hidden_size, config.intermediate_size}
        sides = SIDES[arguments.name](settings, arguments.parts)
        limits = Limit(settings.precision)
        limits.measure()
        profiles = {}
        for name, side in sides.items():
            profiles[name] = profile(side, sizes)
            limits.measure()

    limit = limits.median
    print(
        *notes_without_bf16("All is in fp32."),
        f"{arguments.name}, {model}, {settings.precision}, {arguments.threads} threads, "
        f"{arguments.parts} batches\n\n{format_table(profiles, arguments.rows)}\n",
        sep="\n",
    )
    add_shares(profiles, limit)
    batch_size = simcse.PRESET.batch_size if arguments.name == "simcse" else arguments.batch_size
    if arguments.record:
        rows = []
        for name, side_profile in profiles.items():
            rows.append(row_of(name, side_profile, limit, arguments.parts))
        measured = {
            "name": arguments.name,
            "model": model,
            "precision": settings.precision,
            "batch_size": batch_size,
            "limit": limit,
            "sides": rows,
            "versions": versions(),
        }
        record_measurement(PROFILES, measured)
    line = {
        "name": f"profiles {arguments.name}",
        "sides": profiles,
        "limit": limit,
        "versions": versions(),
    }
    print(json.dumps(line))


if __name__ == "__main__":
    sys.exit(main())
