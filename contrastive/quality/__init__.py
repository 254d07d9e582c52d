"""How good are the sentence vectors of an encoder?."""
