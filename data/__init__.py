"""From files on disk to padded batches. Knows no model: the tokenizer comes as an argument.

The files in reading order:

    examples.py         Example, and the Format of a task's files: columns, labels, file names.
    readers.py          A file -> Examples. Every row that is dropped is counted and named.
    token_cache.py      Texts -> token ids, made once and kept from run to run.
    batching.py         Examples and a tokenizer -> padded batches of similar length.
    task_specs.py       What a task is, as data: kind, columns, label names, loss, metric.
    task_flags.py       --task name=...,train=...: a task of the user, as text.
    options.py          The options of the files that a run reads.
    task_kinds.py       The labels of a training file -> classes, two classes, or a score.
    task_tables.py      A task's files -> its specification and its tables.
    dev_rows.py         Draws dev rows from the training rows, where there is no dev file.
    task_columns.py     Which columns of a task's file hold the sentences, the label and the id.
    tables/             Tables that other programs wrote: encodings, Excel, quotes, JSON, columns.
    training_texts.py   Text of any source -> sentences, pairs or triplets, for contrastive stages.
    user_texts.py       The texts that a user gives a command: a table, or plain lines.
    sentence_sets.py    STS sets and labelled sentences, for measuring sentence vectors.
    ranking_sets.py     Questions with candidate answers, for measuring a ranking.
    senteval.py         The transfer tasks and STS sets of SentEval, from its own files.
    known_words.py      The words of the training rows, and rows that hold few of them.
    corpus.py           Files of plain text -> paragraphs.
    transfer.py         One file over HTTP. Every fault is told in plain words.
    download.py         Downloads the course's files and verifies them.
"""
