"""A small plain text of simple sentences, for tests of pretraining."""

PEOPLE = ("a doctor", "the tall soldier", "my sister", "an old sailor")
PLACES = ("hotel", "river", "street", "garden")


def make_lines() -> list[str]:
    """1,280 lines: 64 sentences, each 20 times."""
    lines = []
    for person in PEOPLE:
        for start in PLACES:
            for end in PLACES:
                lines.append(f"{person} is walking from the {start} to the {end} .")
    return lines * 20


LINES = make_lines()
