"""The command `python -m contrastive.quality MODEL`: how good are an encoder's sentence vectors?

Reading order:
  options.py            The options of the command, and what is refused before any work.
  files.py              The files of --pairs, --ranking and --senteval.
  word_vectors.py       A text file of GloVe or word2vec: the vectors of the words in the files.
  untrained_vectors.py  Sentence vectors that need no training, to compare with the encoder's own.
  vector_sources.py     What is measured: an encoder's vectors, or the mean of word vectors.
  metrics.py            Correlations by subset, cosines by label, accuracy of a linear classifier.
  measurement.py        All numbers of one file, from its sentences to a record.
  tasks.py              Classification by threshold, and ranking.
  senteval.py           The protocol of SentEval: classifiers on frozen vectors.
  relatedness.py        Its protocol for scores: a distribution over 1 to 5.
  pair_map.py           A map of similar and dissimilar pairs by t-SNE.
  training_history.py   How the encoder was trained: stage.json as a chapter of the report.
  page.py               All other chapters of the report.
  work.py               Opens the encoder, measures it, and writes the files.
  __main__.py           The command.
"""
