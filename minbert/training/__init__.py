"""One training loop for every stage.

The files in reading order:

    job.py            What a stage tells the loop: model, plan of steps, loss, evaluation.
    loop.py           The loop: steps, evaluations, the best model, checkpoints.
    gradients.py      The gradient of one update, with or without gradient surgery.
    averaging.py      Averages of the weights over the steps: EMA and SWA.
    step_log.py       The losses of each step, in log.csv.
    tensorboard.py    The same as curves of TensorBoard, with the scores of each evaluation.
    job_logs.py       Lets the jobs of a run write these logs.
    checkpoint.py     Saving and loading the state of a job.
    interruption.py   Ctrl-C and other signals to stop.
    processes.py      Several processes that train one model.
    runtime.py        Seeds, random states, device, precision and memory.
    batch_outputs.py  Runs a model on many batches, two at a time where that is faster.
    int8.py           Linear layers in int8, for predictions on the CPU.
    other_programs.py  What a run says about other programs that use its cores.
    options.py        The options that every stage shares.
    cost_estimate.py  Time, memory and disk of a job, before it starts.
    run_folder.py     The folder of a run: its options, its lock and its record.
    run_page.py       What the report of every run shows: curves, cost, how it was made.
    code_version.py   Which code made a result.
    stage.py          A stage that ends in an encoder on disk, and chains of such stages.
    starting_model.py  The encoder and the tokenizer that a run starts from.
"""
