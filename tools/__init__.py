"""What only maintainers use. It is not installed, and nothing outside of it imports it.

All commands here run from the folder of the clone. The folder tests/ has their tests.

benchmarks/   Speed and memory beside other libraries.
reliability/  Faults of many kinds, each in a real process.
sample/       How the bundled sample was made.
pictures/     The pictures of the documents.
tables/       The tables of measured numbers in the documents.
toml_files.py  Reads the tables of data in TOML.
museum.py     Famous mistakes, each trained as it is.
teaching_kit.py  What the teaching kit finds, and how long it takes.
calibration.py  How often the intervals of scores are wrong, in simulated comparisons.
"""
