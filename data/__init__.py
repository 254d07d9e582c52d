"""From files on disk to padded batches. Knows no model: the tokenizer comes as an argument.

The files in reading order:

    readers.py          CSV row -> Example. Every row that is dropped is counted and named.
    token_cache.py      Texts -> token ids, made once and kept from run to run.
    batching.py         Examples and a tokenizer -> padded batches of similar length.
    options.py          The options of the files that a run reads.
    sentence_sets.py    STS sets and labelled sentences, for measuring sentence vectors.
    corpus.py           Files of plain text -> paragraphs.
    sample.py           The generator of the sample data in sample/.
    download.py         Downloads the course's files and verifies them.
"""
