"""Published tables as named recipes, run over seeds."""
