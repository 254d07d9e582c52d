"""benchmarks/: each from its command to its closing line, on a tiny model; a profile, the comparison of paths."""

from __future__ import annotations

import contextlib
import json
from multiprocessing.reduction import ForkingPickler

import pytest
import torch

from benchmarks import __main__ as command
from benchmarks import (
    contrastive,
    encoders,
    inference,
    memory,
    memory_of_batches,
    profiles,
    readable,
    scaling,
    surgery,
    train_step,
)
from benchmarks.material import Settings, layer_flops, write_model
from benchmarks.series import shown_mean
from minbert import AdamW
from minbert.training import cost_estimate as price
from tests.benchmarks.test_comparison import FIELDS

PEERS = {
    "train_step": "transformers",
    "inference": "sentence_transformers",
    "surgery": "torchjd",
    "startup": "transformers",
    "tokenize": "transformers",
    "memory": "transformers",
}

ROWS = {
    "train_step": 1,
    "inference": 1,
    "surgery": 12,
    "simcse": 128,
}  # those with matrix products: rows of an item


def test_a_mean_is_shown_with_its_deviation():
    assert [shown_mean(values) for values in ([], [0.5], [1.0, 2.0, 3.0])] == [
        "-",
        "0.5000",
        "2.0000 ± 1.0000",
    ]


@pytest.fixture
def limits(monkeypatch):
    """The precisions of the measured limits, of small products, since a processor may have to emulate bf16."""
    measured, measure = [], price.matrix_product_limit
    monkeypatch.setitem(price.PRODUCTS, "cpu", (64, 1))
    monkeypatch.setattr(
        price,
        "matrix_product_limit",
        lambda device, precision: (measured.append(precision), measure(device, precision))[1],
    )
    return measured


def in_this_process(num_threads: int, make, *arguments):
    """Instead of benchmarks.sides.Process, which `memory` and `surgery` use here."""
    ForkingPickler.dumps((make, arguments))  # as it does: a local function, say, cannot be sent
    return contextlib.nullcontext(make(*arguments))


def run_quickly(name: str, model, data, capsys) -> tuple[dict, str]:
    """Its line of JSON, and what it printed before."""
    if name in PEERS:
        pytest.importorskip(PEERS[name], reason=f"{PEERS[name]} is the peer; run setup.sh --dev")
    flags = ["--quick", "--n", "1", "--threads", "1", "--model", str(model)]
    flags += ["--batch-size", "4"] if name in command.READS["batch_size"][1] else []
    assert command.main([name, *flags, "--data-dir", str(data)]) == 0
    *printed, last = capsys.readouterr().out.splitlines()
    line = json.loads(last)
    assert line.keys() >= FIELDS and line["name"] == name and line["n"] >= 1
    assert line["ours"] > 0 and line["peer"] > 0 and line["ratio"] == line["ours"] / line["peer"]
    return line, "\n".join(printed)


def tokens_of_a_row(line: dict, model) -> float:
    """What the share of the limit counts, whatever the processor and its load: its FLOPs, by those of a token."""
    each = 1 / line["ours"] if line["unit"] == "sentences/s" else line["ours"] / 1e3  # seconds
    flops = line["share_of_limit"] * line["limit"] * each
    return flops / layer_flops(model, 2 if line["name"] == "inference" else 6) / ROWS[line["name"]]


@pytest.mark.parametrize("name", command.QUESTIONS)
def test_each_runs_to_its_closing_line(capsys, monkeypatch, tiny_model, sample_data, limits, name):
    """With the sides of two of them in this process: what torch and the peers take to start is most of their time.

    On every processor as on one with bf16 instructions: what is tiny is emulated soon enough.
    """
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": True})
    for module in (inference, train_step):
        monkeypatch.setattr(module, "Process", in_this_process)
    line, printed = run_quickly(name, tiny_model, sample_data, capsys)
    assert "skipped" not in printed
    if name in ROWS:
        assert set(limits) == {"bf16"} and 16 < tokens_of_a_row(line, tiny_model) < 32
    else:
        assert not limits and line["share_of_limit"] is None
    if name == "inference":
        assert [each["what"].partition(" : ")[0] for each in line["comparisons"]] == [
            "ours (bf16)",
            "ours (fp32)",
            "ours (bf16)",
        ] and len(line["checks"]) == 2


@pytest.mark.parametrize("name", ["train_step", "inference", "surgery", "simcse", "memory"])
def test_without_bf16_instructions_nothing_is_in_bf16(
    capsys, monkeypatch, tiny_model, sample_data, limits, name
):
    """What would be emulated is skipped, and the printed lines say so."""
    monkeypatch.setattr(torch.cpu, "get_capabilities", dict)
    for module in (inference, memory, surgery, train_step):
        monkeypatch.setattr(module, "Process", in_this_process)
    product = torch.nn.functional.linear
    monkeypatch.setattr(
        torch.nn.functional,
        "linear",
        lambda rows, weight, bias=None: (
            dtypes.add(
                torch.get_autocast_dtype("cpu")
                if torch.is_autocast_enabled("cpu")
                else weight.dtype
            ),
            product(rows, weight, bias),
        )[1],
    )
    dtypes = set()
    line, printed = run_quickly(name, tiny_model, sample_data, capsys)
    assert dtypes == {torch.float32}
    assert "- bf16 is skipped: this processor has no fast bf16 matrix product." in printed
    assert all("bf16" not in each["what"] for each in line["comparisons"] + line["checks"])
    if name in ROWS:
        assert set(limits) == {"fp32"} and 16 < tokens_of_a_row(line, tiny_model) < 32
    if name == "inference":
        assert (
            "Ours in bf16, the peer in bf16 and the cosines of bf16 vectors are left out."
            in printed
        )
        assert (
            len(line["comparisons"]) == len(line["checks"]) == 1
            and "ours in fp32 on cpu" in printed
        )
    if name == "train_step":
        assert not line["checks"] and all(each["goal"] is None for each in line["comparisons"])


def test_bf16_is_refused_where_it_would_be_emulated(monkeypatch, capsys):
    monkeypatch.setattr(torch.cpu, "get_capabilities", dict)
    monkeypatch.setattr("sys.argv", ["memory_of_batches", "--precision", "bf16"])
    with pytest.raises(SystemExit) as stop:
        memory_of_batches.main()
    assert stop.value.code == 2
    assert (
        "--precision bf16: this processor has no fast bf16 matrix product."
        in capsys.readouterr().err
    )


def test_a_profile_counts_the_products_of_a_step_and_their_flops():
    layer, rows = torch.nn.Linear(3, 5), torch.ones(7, 3, requires_grad=True)
    found = profiles.profiled(lambda part: layer(rows).exp().sum().backward(), num_parts=4)
    assert found["flops"] == 4 * 3 * (
        2 * 7 * 3 * 5
    )  # forward, and the gradients of weight and rows
    assert found["seconds"].keys() >= {"addmm", "mm", "exp"}
    assert found["products"] == pytest.approx(found["seconds"]["addmm"] + found["seconds"]["mm"])
    assert found["total"] == pytest.approx(sum(found["seconds"].values()) + found["between"])
    side = {"total": 2.0, "products": 1.0, "between": 0.25, "seconds": {"mm": 1.0, "exp": 0.75}}
    shown = profiles.table({"a": side}, 1)
    assert shown.splitlines()[2:] == [
        "| everything | 2,000, 100.0% |",
        "| matrix products | 1,000, 50.0% |",
        "| between the operations | 250, 12.5% |",
        "| mm | 1,000, 50.0% |",
    ]


@pytest.mark.parametrize("name", profiles.SIDES)
def test_a_profile_is_of_the_sides_of_its_benchmark(tmp_path, sample_data, tiny_model, name):
    settings = Settings(str(sample_data), 1, 4, True, None, tmp_path)
    write_model(str(tiny_model), settings.model)
    for take, num_parts in profiles.SIDES[name](settings, 2).values():
        assert profiles.profiled(take, num_parts)["flops"] > 0


def test_the_readable_path_has_neither_kernel_nor_drawn_bits(tiny_model, sample_data, monkeypatch):
    """Both paths train; the readable one through AdamW.update and without a call of what is only fast."""
    taken = []
    update = AdamW.update
    monkeypatch.setattr(
        AdamW, "update", lambda *arguments: (taken.append("update"), update(*arguments))
    )
    for fast in ("minbert.fast.adamw", "minbert.fast.dropout_mask"):
        module, _, function = fast.rpartition(".")
        original = getattr(__import__(module, fromlist=[function]), function)
        monkeypatch.setattr(
            fast,
            lambda *arguments, fast=fast, original=original, **settings: (
                taken.append(fast),
                original(*arguments, **settings),
            )[1],
        )
    settings = {
        "model": str(tiny_model),
        "seed": 0,
        "data_dir": str(sample_data),
        "epochs": 1,
        "train_rows": "sst=16,para=16,sts=16",
    }
    found = {}
    for path in readable.PATHS:
        taken.clear()
        line = readable.run(path, **settings)
        found[path] = set(taken)
        assert line.keys() >= {"path", "seed", *readable.SCORES} and line["path"] == path
    assert found["readable"] == {"update"}
    assert found["fast"] == {"minbert.fast.adamw", "minbert.fast.dropout_mask"}
    assert readable.table([line]).splitlines()[1].split() == ["fast", *"-" * len(readable.SCORES)]


def test_a_text_goes_to_the_stages_that_read_it(
    tiny_model, sample_data, tmp_path, monkeypatch, capsys
):
    """And the table shows what this command asked for; a line of another text stays in the file."""
    corpus, out = tmp_path / "corpus.txt", tmp_path / "lines.jsonl"
    corpus.write_text("The hotel is small.\n", encoding="utf-8")
    monkeypatch.setattr(
        contrastive,
        "run_apart",
        lambda **settings: {
            **settings,
            "before": dict.fromkeys(contrastive.SHOWN, 0.1),
            "after": dict.fromkeys(contrastive.SHOWN, 0.2),
            "seconds": 1.0,
            "peak_memory": 1e9,
        },
    )
    for texts in ([], ["--ct-corpus", corpus]):
        flags = [
            "--data-dir",
            sample_data,
            "--out",
            out,
            "--stages",
            "pretrain-ct",
            "simcse",
            "--seeds",
            0,
            *texts,
        ]
        monkeypatch.setattr("sys.argv", ["contrastive", *map(str, flags)])
        contrastive.main()
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(line["stage"], line.get("ct_corpus")) for line in lines] == [
        ("pretrain-ct", "none"),
        ("simcse", None),
        ("pretrain-ct", str(corpus)),
    ]
    table = capsys.readouterr().out.split("zero-shot STS dev")[-1]
    assert table.count("n=1") == 2 and "n=2" not in table
    monkeypatch.setattr(
        "sys.argv",
        ["contrastive", "--data-dir", "d", "--out", "o", "--stages", "pretrain-simcse-nli"],
    )
    with pytest.raises(SystemExit):
        contrastive.main()
    assert (
        "pretrain-simcse-nli trains on triplets of sentences; name their file with --nli"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize("series", [contrastive, encoders, readable, scaling])
def test_a_folder_without_the_files_is_refused_at_once(series, tmp_path, monkeypatch, capsys):
    flags = [] if series is scaling else ["--out", str(tmp_path / "lines.jsonl")]
    monkeypatch.setattr("sys.argv", ["series", "--data-dir", str(tmp_path), *flags])
    with pytest.raises(SystemExit):
        series.main()
    assert (
        f"error: {tmp_path / 'ids-sst-train.csv'}: there is no such file."
        in capsys.readouterr().err
    )
    assert not any(tmp_path.iterdir())


def test_memory_of_a_batch_in_pieces_to_its_closing_line(
    tiny_model, sample_data, tmp_path, monkeypatch, capsys
):
    """Its sides are trained here and not in processes of their own, whose peaks would be this one's."""
    peaks = iter((1e8, 3e8, 2.5e8))
    monkeypatch.setattr(
        memory_of_batches,
        "measure_apart",
        lambda given, *side: {
            **memory_of_batches.measure(given, *side, tmp_path),
            "peak": next(peaks),
        },
    )
    monkeypatch.setattr(
        "sys.argv",
        [
            "memory_of_batches",
            "--data-dir",
            str(sample_data),
            "--model",
            str(tiny_model),
            "--small",
            "4",
            "--large",
            "16",
            "--chunk",
            "4",
        ],
    )
    memory_of_batches.main()
    line = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (
        line["name"] == "memory_of_batches"
        and line["chunk"] == 4
        and line["ratio"] == 0.75
        and line["is_met"]
    )
