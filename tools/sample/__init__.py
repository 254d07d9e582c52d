"""Builds data/sample: real sentences under open licences, in the course's files and formats.

The files in reading order:

    held_out.py         Which sentences may not be bundled: those of the course's dev and test.
    rows.py             A row with its source, which split it is in, and the nine files.
    wordnet.py          WordNet's files: synonyms, opposites and sisters of a word, with endings.
    opinions.py         How strong the opinion of a sentence is, by two lists of words.
    shares.py           How many film sentences get the middle grade and the outer ones.
    reviews.py          SST: sentences of film and product reviews, in five classes.
    graded_words.py     SST: short sentences on one graded word, with negations and intensifiers.
    edits.py            Small changes of a sentence, such as a synonym or a negation.
    questions.py        Questions, and other wordings of them.
    teacher.py          The similarity of two sentences, by an encoder.
    pairs.py            PARA and STS: pairs with labels of rules and of the teacher.
    controlled.py       Generated sentences for single phenomena, such as negations and roles.
    __main__.py         The command.
    grades.py           The rule that chooses the shares of graded film sentences.
    sample_grades.py    Command: compare the shares that grade the film sentences.
    clean.py            Command: list or remove the rows that touch the course's dev and test files.
    second_rule.py      Command: the same list by another rule, which checks the first one.
    sample_parts.py     Command: what each part of the sample contributes.
    plain_sentences.py  Command: sentences of plain text, for a distillation.
    unlabelled.py       Command: choose text without labels for an ensemble to label.
"""
