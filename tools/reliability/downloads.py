"""Download faults: the server of the course's files answers wrongly.

Survived: all files arrive as they are, or the command says in one line what is wrong. No wrong file
gets a file's name. A second call, to a server that is well, ends with all files.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from data import download
from data.transfer import Limits
from minbert.commands.ending import BAD_INPUT, DONE
from minbert.commands.files import digest_of_file
from tools.reliability import children
from tools.reliability.children import Call
from tools.reliability.hostile_server import WAYS, WELL, HostileServer
from tools.reliability.trial import Outcome, Part, Trial, complaint
from tools.reliability.workplace import Workplace


def run_trial(workplace: Workplace, trial: Trial, folder: Path) -> Outcome:
    """Download from a hostile server, and then from one that is well."""
    source = workplace.places.data
    ways = [way for way in WAYS if way != WELL]
    random.Random(trial.seed).shuffle(ways)
    way = ways[trial.number % len(ways)]
    folder.mkdir()
    place = folder / "course"
    # Every second round finds what a killed download left.
    is_begun = trial.number // len(ways) % 2 == 1
    if is_begun:
        place.mkdir()
        content = (source / "ids-sst-train.csv").read_bytes()
        part = content[:1000] if trial.number % 2 else b"x" * 1000
        (place / "ids-sst-train.csv.part").write_bytes(part)
    with HostileServer(source) as server:
        problem = ""
        for turn in (way, WELL):
            words = ["--out", str(place), "--base-url", f"{server.address}/{turn}"]
            before = expect_files_of(source)
            ending = children.run(Call("data.download", words, before))
            codes = (DONE,) if turn == WELL else (DONE, BAD_INPUT)
            problem = problem or complaint(ending, codes)
            problem = problem or wrong_files(source, place, ending.code == DONE)
    start = ", begun before" if is_begun else ""
    return Outcome("download", f"{way}{start}", problem)


def wrong_files(source: Path, place: Path, must_be_whole: bool) -> str:
    """A file of the right name with wrong content; "" if there is none.

    must_be_whole: whether no file may be missing.
    """
    for path in sorted(source.glob("*.csv")):
        copy = place / path.name
        if not copy.exists():
            if must_be_whole:
                return f"{path.name} is missing, and it did not say so"
        elif copy.read_bytes() != path.read_bytes():
            return f"{path.name} is a wrong file"
    return ""


def expect_files_of(source: Path) -> Callable[[], None]:
    """Let a child expect the files of a folder, and be less patient than a real download is."""

    def before() -> None:
        published = {}
        for path in source.glob("*.csv"):
            published[path.name] = download.Published(path.stat().st_size, digest_of_file(path))
        download.PUBLISHED = published
        download.LIMITS = Limits(wait=0.01, silence=1.0, seconds=2.0)

    return before


PART = Part("downloads", "download faults", 40, 1.0, run_trial)
