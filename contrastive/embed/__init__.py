"""Use the sentence vectors of an encoder."""
