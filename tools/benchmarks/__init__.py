"""Our speed and memory next to other libraries. Every benchmark ends with one line of JSON.

The files in reading order:

    comparison.py           Our median next to the peer's, and the closing line of JSON.
    report.py               The closing line as a table, and how busy the machine was.
    recording.py            Measurements as records: with their machine, code and date.
    timing.py               Two sides in turn, each in its own process where that matters.
    settings.py             The flags of a benchmark, and the device and precision of a side.
    inputs.py               What both sides get: a model's folder, sentences, counts of tokens.
    limit.py                The machine's limit in matrix products.
    jobs.py                 The jobs of a run, made from options.
    training_sides.py       The two sides that train: ours, and a Hugging Face loop.

    train_step.py           A training step.
    inference.py            Sentences to vectors.
    optimizer.py            A step of AdamW.
    surgery.py              A step of PCGrad.
    simcse.py               SimCSE in one pass of 2B rows and in two passes of B rows.
    startup.py              Seconds until something happens.
    tokenize.py             Text to token ids.
    memory.py               Peak memory of training.
    __main__.py             `python -m tools.benchmarks NAME`: one of the eight above, or all.

    formulas.py             Command: what does each fast branch of a formula save?
    table_readers.py        Command: which readers find the delimiter and the quotes of a table?
    installs.py             Command: does minBERT install with each Python, and answer?
    lesson_digests.py       Command: write the digests of the released lesson files.
    json_lines.py           A series of runs that continues where it was stopped.
    pretraining.py          Command: a step of pretraining.
    memory_of_batches.py    Command: memory of a large contrastive batch in pieces.
    busy_machine.py         Command: a training step beside other programs.
    large.py                Command: memory and time of large inputs and of two processes.
    default_job.py          Command: time and memory of the default job.
    phases.py               Command: the CPU seconds of each phase of the default job.
    profiles.py             Command: the operations that take the time.
    scaling.py              Command: how cost grows with rows, length, batch, tasks and parameters.
    encoders.py             Command: what encoders are worth in fine-tuning.
    contrastive.py          Command: what contrastive stages do to an encoder.
    vector_seconds.py       Command: seconds of each kind of sentence vector.
    readable.py             Command: do the fast and the readable code train the same?
    kill_resume.py          Command: do killed runs end in the same bits?
    bit_flips.py            Command: is a damaged file noticed before it is used?
    made_tables.py          Tables as users have them, made of the wordings in made_tables.toml.
    own_tables.py           Command: how good are the defaults for a user's own table?
    round_trips.py          Command: do models survive the way through other libraries?
    real_sentences.py       Command: scores of runs on real sentences, and on a hundred of ours.
"""
