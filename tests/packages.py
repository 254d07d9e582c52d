"""The packages of the source, for tests that look at all of it."""

PACKAGES = (
    "minbert",
    "data",
    "contrastive",
    "multitask",
    "experiments",
    "teaching",
    "course",
    "command_line",
)
