"""The pages of the papers: each table and figure has rows that run, or a reason why there are none.

tests/experiments/test_papers.py trains and measures every recipe on a few rows.
"""

import re
from pathlib import Path

import pytest

from experiments.paper_recipes import RECIPES
from experiments.recipes import COMPARISONS

PAGES = Path(__file__).resolve().parents[2] / "docs" / "papers"

# What we set out to repeat. The tables of [BSC] are not in our source, so its tasks stand here.
CONTENT = {
    "bsc": ["regression", "classification", "ranking", "squared error", "triplet margin"],
    "ct": [
        *(f"table {number}" for number in (1, 2, 3, 4, 6, 7, 8, 9)),
        *(f"figure {number}" for number in (1, 2, 3)),
    ],
    "sg": [
        *(f"table {number}" for number in (1, 2, 3, 4, 5, 6, 7, 10, 11)),
        *(f"figure {number}" for number in (1, 4, 5)),
    ],
}
TASKS = ("regression", "classification", "ranking", "squared error", "triplet margin")
# Behind a slash stands the name of a folder.
NAME = re.compile(r"(?<![/\w])(?:bsc|ct|sg)-[a-z0-9_-]*[a-z0-9]\b")


def page_of(paper):
    return (PAGES / f"{paper}.md").read_text(encoding="utf-8")


def content_of(text):
    """Of "Tables 2, 3 and 11" the items table 2, table 3 and table 11. And the tasks it names."""
    items = set()
    for kind, numbers in re.findall(r"(table|figure)s? (\d+(?:(?:, | and )\d+)*)", text.lower()):
        items |= {f"{kind} {number}" for number in re.findall(r"\d+", numbers)}
    return items | {task for task in TASKS if task in text.lower()}


def sections(page):
    """The text below each heading, by the heading."""
    parts = re.split(r"^## (.*)$", page, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def missing(paper, page):
    """The tables and figures of a paper for which the page has neither a row nor a reason."""
    found = set()
    for heading, text in sections(page).items():
        rows = re.findall(r"^\| (.+?) \| (.+?) \|", text, flags=re.MULTILINE)
        if heading.startswith(("Other", "Not reproducible")):
            for first, second in rows:
                # A command in code, or a reason in words.
                if "`" in second or len(second.split()) > 4:
                    found |= content_of(first)
        else:
            named = {first.split("`")[1] for first, _ in rows if first.startswith("`")}
            if "python -m" in text or named & (RECIPES.keys() | COMPARISONS.keys()):
                found |= content_of(heading)
    if paper == "bsc":
        # One table has a column for each task, and a row for each loss.
        table = sections(page)["Regression, classification and ranking"]
        found |= content_of(table)
    return [item for item in CONTENT[paper] if item not in found]


@pytest.mark.parametrize("paper", CONTENT)
def test_each_table_and_figure_has_rows_or_a_reason(paper):
    page = page_of(paper)
    assert not missing(paper, page)

    # A page that loses one of them is noticed.
    item = CONTENT[paper][-1]
    number = item.split()[-1]
    without = []
    for line in page.splitlines():
        if item not in content_of(line):
            without.append(line)
        elif line.startswith("## "):
            without.append(line.replace(number, "99"))
    assert item in missing(paper, "\n".join(without))


@pytest.mark.parametrize("paper", CONTENT)
def test_the_page_names_every_recipe_and_no_other(paper):
    page = page_of(paper)
    # Names of tables, of flags and of places are no recipes.
    page = re.sub(r"<!--.*?-->|--[a-z-]+|\]\([^)]*\)", "", page)
    of_paper = {name for name in RECIPES if name.startswith(f"{paper}-")}
    named = set(NAME.findall(page))
    assert of_paper <= named
    assert named - {"sg-opt", "ct-in-batch"} <= RECIPES.keys() | COMPARISONS.keys()
