"""Several finished runs, one set of predictions."""
