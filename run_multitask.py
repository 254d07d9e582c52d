"""The one command: options -> data -> encoder -> price -> contrastive stage -> multitask stage -> files -> run.json.

`run` is the way through. torch is imported once the command line is understood."""

from __future__ import annotations

import json
import platform
import shutil
import signal
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

from options import AUTO, Options, check_writable, choose_folder, parse


def main(argv: list[str] | None = None) -> int:
    """Exit code 0 when done, 1 for a loss that is not finite, 2 for bad input, 130 when interrupted."""
    options, resumed = parse(argv)
    folder = resumed
    try:
        folder = folder or choose_folder(options)
        run(options, folder, is_resumed=resumed is not None)
    except KeyboardInterrupt:  # the loop raises a kind of it, Interrupted, once it has saved
        is_begun = folder is not None and (folder / "options.json").is_file()
        hint = f"Continue with: python run_multitask.py --resume {folder}" if is_begun else "Nothing was written yet."
        print(f"\nStopped. {hint}", file=sys.stderr)
        return 130
    except (ValueError, OSError, FloatingPointError) as error:  # the last is the loop's NonFiniteLoss
        print(f"run_multitask.py: {error}", file=sys.stderr)
        return 1 if isinstance(error, FloatingPointError) else 2
    return 0


def run(options: Options, folder: Path, is_resumed: bool) -> None:
    """Everything between the options and run.json; `folder` receives all that is written."""
    from contrastive.pretrain import build_stage, quality_table
    from minbert import BertModel, BertTokenizer, price, runtime
    from minbert.loop import fit
    from multitask import results, train

    if (folder / "run.json").is_file():
        print(f"{folder} is finished, there is nothing to resume; its scores are in {folder / 'run.json'}.")
        return
    options, model_folder, device = resolve(options)
    paths = results.output_paths(options, folder)
    check_writable(folder, [path for splits in paths.values() for path in splits.values()])
    tables = train.read_tables(options)
    print("\n".join(table.summary for splits in tables.values() for table in splits.values()))
    runtime.seed_everything(options.seed)  # what the model's files lack is drawn at random
    encoder = BertModel.from_pretrained(model_folder, attention_implementation=options.attention).to(device)
    tokenizer = BertTokenizer.from_pretrained(model_folder)
    print(encoder.load_report)

    stage = reused = None
    if options.pretrain == "simcse":
        stage = build_stage(options, encoder, tokenizer, train.examples_of(tables, "train"),
                            tables["sts"]["dev"].examples, folder, device)
        reused = stage.reusable([folder / "encoder", *sorted(folder.parent.glob("*/encoder"))])
    rows = train.encode_tables(tables, tokenizer, options.max_length, options.pair_encoding)
    job = train.build_job(options, encoder, rows, folder, device)
    prices = price.quote([stage.job, job] if stage and not reused else [job], folder, is_resumed)
    print("\n".join(map(str, prices)))
    files = claim(folder, options, is_resumed)  # only here does the run's folder begin: all that can be wrong was asked
    price.keep(prices, folder)

    seconds = 0.0
    if stage:
        quality, seconds = stage.reuse(reused) if reused else stage.train(is_resumed)
        if reused:
            print(f"simcse: encoder reused from {reused} (same options and data)")
        print(quality_table(quality))
    progress, closing = fit(job, is_resumed), time.perf_counter()
    scores = results.write_results(job.model, rows, tables, paths, options.precision)
    seconds += progress.seconds + time.perf_counter() - closing
    job.model.save_pretrained(folder / "model", tokenizer)
    baselines = results.baseline_scores(tables)
    actual = {"seconds": seconds, "peak_memory": price.peak_memory(device)}
    write_record(folder, options, files, scores=scores, baselines=baselines, epochs=progress.history,
                 best_step=progress.best_step, contrastive=quality if stage else None,
                 predicted=[asdict(item) for item in prices], actual=actual)
    shutil.rmtree(folder / "checkpoint", ignore_errors=True)
    print(results.closing_table(scores, baselines), price.comparison(prices, **actual), sep="\n")
    print(f"model: {folder / 'model'}\nrecord: {folder / 'run.json'}\nleaderboard files:",
          *(path for splits in paths.values() for path in splits.values()), sep="\n  ")


def resolve(options: Options) -> tuple[Options, Path, object]:
    """Replace what is "auto" and print each value with its reason; also returns the model's folder and the device."""
    from minbert import BertConfig, runtime, weights
    from minbert.pooling import check_pooling

    runtime.keep_freed_memory()
    device, device_reason = runtime.choose_device("cuda" if options.use_gpu else options.device)
    precision, precision_reason = runtime.choose_precision(options.precision, device)
    model_folder = weights.resolve(options.model)
    check_pooling(model_folder, options.pooling)
    config = BertConfig.from_pretrained(model_folder)
    for name in ("max_length", "simcse_max_length") if options.pretrain == "simcse" else ("max_length",):
        if getattr(options, name) > config.max_position_embeddings:
            raise ValueError(f"--{name} is {getattr(options, name)}; {options.model} has "
                             f"{config.max_position_embeddings} positions. Pass at most that.")
    reasons = {"device": device_reason, "precision": precision_reason}
    options, encoder_reasons = options.for_encoder(config.hidden_size)
    options = replace(options, device=device.type, precision=precision)
    if options.attention == AUTO:
        options = replace(options, attention="fused" if device.type == "cuda" else "eager")
        reasons["attention"] = "torch's fused kernel wins on a GPU, its backward pass is slow on CPU"
    for name, reason in {**reasons, **encoder_reasons}.items():
        print(f"{name}: {getattr(options, name)} ({reason})")
    return options, model_folder, device


def claim(folder: Path, options: Options, is_resumed: bool) -> dict[str, str]:
    """Write options.json, or on resume check that the input files are still the same; returns their SHA-256."""
    from data.readers import sha256_of
    from minbert.checkpoint import write_json

    files = {path: sha256_of(path) for path in options.input_files()}
    path = folder / "options.json"
    if is_resumed:
        stored = json.loads(path.read_text(encoding="utf-8"))["files"]
        changed = [name for name in files if stored.get(name) != files[name]]
        if changed:
            raise ValueError(f"--resume {folder}: {changed[0]} has changed since the run began. Restore it, or start a "
                             "new run without --resume.")
    else:
        folder.mkdir(parents=True)  # fails where another run took the name since
        write_json(path, {"options": asdict(options), "files": files})
    return files


def write_record(folder: Path, options: Options, files: dict[str, str], **results) -> None:
    """Write run.json: options, versions, machine, inputs and all results."""
    import numpy
    import tokenizers
    import torch

    from minbert.checkpoint import write_json
    versions = {"python": platform.python_version(), **{m.__name__: m.__version__ for m in (torch, numpy, tokenizers)}}
    machine = {"system": platform.platform(), "threads": torch.get_num_threads(), "device": options.device}
    record = {"command": sys.argv, "options": asdict(options), "versions": versions, "machine": machine, "files": files}
    write_json(folder / "run.json", {**record, **results})


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C, outside the loop too
    sys.exit(main())
