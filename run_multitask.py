"""The one command: options -> data -> encoder -> price -> contrastive stage -> multitask stage -> files -> run.json.

`run` is the way through. torch is imported once the command line is understood."""

from __future__ import annotations

import signal
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

from command_line.options import AUTO, Options
from command_line.parser import choose_folder, parse
from minbert.commands.ending import exit_code, resumable
from minbert.commands.paths import check_writable, in_shell


@exit_code("run_multitask.py")
def main(argv: list[str] | None = None) -> None:
    options, resumed = parse(argv)
    folder = resumed or choose_folder(options)
    with resumable(in_shell(Path(__file__)), folder):
        run(options, folder, is_resumed=resumed is not None)


def run(options: Options, folder: Path, is_resumed: bool) -> None:
    """Everything between the options and run.json; `folder` receives all that is written."""
    from contrastive import stage as pretrain
    from data.readers import sha256_of
    from minbert import BertModel, BertTokenizer
    from minbert.training import cost_estimate as price
    from minbert.training import processes, runtime
    from minbert.training import run_folder as record
    from minbert.training.loop import fit
    from minbert.training.stage import encoder_fingerprint, plan_chain, run_chain
    from multitask import baselines, conflicts, tasks
    from multitask import leaderboard as results
    from multitask import stage as train

    processes.join(options.device)
    if (folder / "run.json").is_file():
        print(
            f"{folder} is finished, there is nothing to resume; its scores are in {folder / 'run.json'}."
        )
        return
    folder = processes.from_first(
        lambda: record.hold(folder)
    )  # the others may have found another name free
    options, model_folder, device = resolve(options)
    paths = results.output_paths(options, folder)
    check_writable(folder, [path for splits in paths.values() for path in splits.values()])
    tables = train.read_tables(options)
    print(
        *(table.summary for splits in tables.values() for table in splits.values()),
        baselines.repeated_rows(tables),
        sep="\n",
    )
    runtime.seed_everything(options.seed)  # what the model's files lack is drawn at random
    encoder = BertModel.from_pretrained(
        model_folder, attention_implementation=options.attention, **options.dropout_of_encoder()
    ).to(device)
    runtime.compile_layers(encoder, options.compile)
    tokenizer = BertTokenizer.from_pretrained(model_folder, options.token_folder)
    rows = train.encode_tables(tables, tokenizer, options.max_length, options.pair_encoding)
    print(encoder.load_report, train.cuts(rows, options.max_length), sep="\n")
    start = encoder_fingerprint(encoder, tokenizer)
    stages = build_stages(
        options, encoder, tokenizer, tables, rows, model_folder, folder, start, device
    )
    is_late = options.contrastive_order == "last"  # then a stage starts from what only this run has
    chain = plan_chain(stages, [] if is_late else sorted(folder.parent.glob("*/encoder*")))
    companion = (
        pretrain.build_companion(options, encoder, device)
        if options.contrastive_order == "fusion"
        else None
    )
    job = train.build_job(options, encoder, rows, folder, device, companion)
    jobs = [train.heads_job(job, options), job] if options.heads_first else [job]
    prices = price.quote(
        [stage.job for stage, reused in chain if not reused] + jobs, folder, is_resumed
    )
    print("\n".join(map(str, prices)))
    files = {path: sha256_of(path) for path in options.input_files()}
    record.claim(
        folder, asdict(options), files | {f"--model {options.model}": start}, is_resumed
    )  # here it begins
    price.keep(prices, folder)
    qualities, seconds = run_chain([] if is_late else chain, is_resumed)
    *before, progress = [fit(each, is_resumed) for each in jobs]
    if is_late:
        qualities, seconds = run_chain(chain, is_resumed)
    processes.leave()  # the first process goes on alone
    closing = time.perf_counter()
    conflict_record, conflict_report = conflicts.report(job.surgery, folder)
    scores = results.write_results(job.model, rows, tables, paths, options.precision)
    seconds += sum(each.seconds for each in (*before, progress)) + time.perf_counter() - closing
    job.model.save_pretrained(folder / "model", tokenizer)
    to_beat = results.baseline_scores(tables)
    actual = {"seconds": seconds, "peak_memory": price.peak_memory(device)}
    record.write_record(
        folder,
        asdict(options),
        files,
        scores=scores,
        baselines=to_beat,
        epochs=progress.history,
        best_step=progress.best_step,
        conflicts=conflict_record,
        stages=qualities,
        predicted=[asdict(item) for item in prices],
        actual=actual,
    )
    table = results.closing_table(scores, to_beat, tasks.learned(options.order, options.head))
    print(conflict_report + table, price.comparison(prices, **actual), sep="\n")
    print(
        f"model: {folder / 'model'}\nrecord: {folder / 'run.json'}\nleaderboard files:",
        *(path for splits in paths.values() for path in splits.values()),
        sep="\n  ",
    )
    processes.end()


def build_stages(
    options: Options,
    encoder,
    tokenizer,
    tables,
    rows,
    model_folder: Path,
    run: Path,
    start: str,
    device,
) -> list:
    """The stages of --pretrain, in order; each starts from the encoder that the one before it leaves, at first `start`."""
    from contrastive import stage as pretrain
    from minbert.pretraining import stage as further
    from minbert.training.stage import stage_fingerprint

    train = {task: splits["train"].examples for task, splits in tables.items()}

    def build(stage: str, folder: str, start: str):
        if stage == "mlm":
            return further.build_stage(
                options, encoder, tokenizer, rows, model_folder, run, folder, start, device
            )
        return pretrain.build_stage(
            options,
            stage,
            encoder,
            tokenizer,
            train,
            tables["sts"]["dev"].examples,
            run,
            folder,
            start,
            device,
        )

    stages = []
    if options.contrastive_order == "last":  # then they start from what the tasks make of it
        start = stage_fingerprint(start, asdict(options), ())
    names = [
        name for name in options.stages if name != "simcse" or options.contrastive_order != "fusion"
    ]
    for name in names:
        folder = "encoder" if name == names[-1] else f"encoder-{name}"
        stages.append(build(name, folder, start))
        start = stages[-1].fingerprint
    return stages


def resolve(options: Options) -> tuple[Options, Path, object]:
    """Replace what is "auto" and print each value with its reason; also returns the model's folder and the device."""
    from contrastive.presets import described, settings_of
    from minbert import BertConfig, weights
    from minbert.pooling import check_pooling
    from minbert.training import runtime

    runtime.settle_memory()
    device, device_reason = runtime.choose_device("cuda" if options.use_gpu else options.device)
    precision, precision_reason = runtime.choose_precision(options.precision, device)
    model_folder = weights.resolve(options.model)
    check_pooling(model_folder, options.pooling)
    config = BertConfig.from_pretrained(model_folder)
    options = replace(options, device=device.type, precision=precision)
    settings = {
        method: settings_of(method, options, config.hidden_size) for method in options.methods
    }
    lengths = [("contrastive_max_length", each.max_length) for each in settings.values()]
    for name, length in [("max_length", options.max_length), *lengths]:
        if length > config.max_position_embeddings:
            raise ValueError(
                f"--{name} is {length}; {options.model} has {config.max_position_embeddings} positions. "
                "Pass at most that."
            )
    options, encoder_reasons = options.for_encoder(config.hidden_size)
    reasons = {"device": device_reason, "precision": precision_reason, **encoder_reasons}
    if options.attention == AUTO:
        options = replace(options, attention="fused" if device.type == "cuda" else "eager")
        reasons["attention"] = (
            "torch's fused kernel wins on a GPU, its backward pass is slow on CPU"
        )
    for name, reason in reasons.items():
        print(f"{name}: {getattr(options, name)} ({reason})")
    for method, each in settings.items():
        print(described(method, each, options))
    return options, model_folder, device


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C, outside the loop too
    sys.exit(main())
