"""The course's nine files, from their public repository: `python -m data.download --out DIR`.

A file is written to NAME.part and compared with its SHA-256. Only then it is renamed. So a file of
the right name is always whole, and the same command goes on with the missing files. --cfimdb adds
the three files of part 1. --from takes the files that a student already has.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from data.examples import BUILT_IN_FILES, CFIMDB_FILES, COURSE_FILES
from data.options import SAMPLE_FOLDER
from data.readers import read_examples
from data.task_specs import BUILT_IN
from data.transfer import Limits, fetch, finish
from minbert.commands.ending import exit_code
from minbert.commands.files import digest_of_file, write_text
from minbert.commands.flags import parse_command
from minbert.commands.locks import locked
from minbert.commands.options import CommandOptions, argument
from minbert.commands.outputs import OVERWRITE, Output, check_outputs
from minbert.commands.paths import temporary_name

REPOSITORY = "gpoesia/minbert-default-final-project"

# A commit that holds the files as PUBLISHED describes them.
COMMIT = "f25cd95c73a1ce3f3b88dd7a11df90f0ab488bd9"

# They are asked in this order: the newest files, and two copies at a fixed commit.
ADDRESSES = (
    f"https://raw.githubusercontent.com/{REPOSITORY}/HEAD/data/",
    f"https://cdn.jsdelivr.net/gh/{REPOSITORY}@{COMMIT}/data/",
    f"https://raw.githubusercontent.com/{REPOSITORY}/{COMMIT}/data/",
)
LIMITS = Limits()
SUMS = "SHA256SUMS"
LOCK = ".download.lock"


class Published(NamedTuple):
    """What is known about a file of the public repository."""

    num_bytes: int
    sha256: str


PUBLISHED = {
    "ids-sst-train.csv": Published(
        1_175_139, "03b2b625c090f94a6afd59f114cde5282e2053aab0b101e87ed695d8a0c5b1df"
    ),
    "ids-sst-dev.csv": Published(
        151_384, "a186ce94577635fbe10beaaddd50f16cccf6c30973221cefdf90deed2a584bfe"
    ),
    "ids-sst-test-student.csv": Published(
        313_202, "bdd5a767faa0c26782117e37767ece154c30d5d04fb8727d09c71e3850a55c7b"
    ),
    "quora-dev.csv": Published(
        3_205_321, "bfa3cc954a9ba300ae776a980141de65f622a3c1b97e3fd905d63245bc36d5ad"
    ),
    "sts-train.csv": Published(
        928_832, "15d12efc2d656fffb1d61ac1f08ec4227f43925fd16f420c037cbd063699c21b"
    ),
    "sts-dev.csv": Published(
        132_265, "ce3cad6f16062586ac7ba462c28b010a9be10c530fd5074165860d7b7ab4e93d"
    ),
    "sts-test-student.csv": Published(
        256_677, "dee455745b72e9ca3ff74e7c056bd73e34bad5b8d5641045a2c1e7e131866f47"
    ),
    "ids-cfimdb-train.csv": Published(
        1_693_182, "140fc513045a966109faed46a5c7a898767b96714d71bcb9c15f659129fadcea"
    ),
    "ids-cfimdb-dev.csv": Published(
        249_095, "3087f571b66860fe5d035b5a018d08202ad3fd3720e4821c04b2acf6c7ded559"
    ),
    "ids-cfimdb-test-student.csv": Published(
        495_595, "7ae611548c9eac879e9ebb406cc9f8ae68ff12f78090e4965af5cbdfa06240f4"
    ),
}

# The rows of the course's files, the header not counted. Those of the published files were counted.
NUM_ROWS = {
    "ids-sst-train.csv": 8_544,
    "ids-sst-dev.csv": 1_101,
    "ids-sst-test-student.csv": 2_210,
    "quora-train.csv": 141_506,
    "quora-dev.csv": 20_214,
    "quora-test-student.csv": 40_431,
    "sts-train.csv": 6_040,
    "sts-dev.csv": 863,
    "sts-test-student.csv": 1_725,
    "ids-cfimdb-train.csv": 1_707,
    "ids-cfimdb-dev.csv": 245,
    "ids-cfimdb-test-student.csv": 488,
}
# No checksum is published of quora-train.csv and quora-test-student.csv. Their first download is
# trusted if it is a table of its task with about as many rows as the course's reports say. These
# reports may count the header, too.
ROW_TOLERANCE = 10
# Rows without a label or a sentence. The dev file has two in 20,214.
MOST_DROPPED = 100

# The beginnings of a web page, in small letters.
PAGE_STARTS = (b"<!doctype", b"<html", b"<?xml", b"<head", b"<script")

# The course of Goettingen has other names for the same files.
GOETTINGEN_STEMS = {"sst": "sst-sentiment", "para": "quora-paraphrase", "sts": "sts-similarity"}
GOETTINGEN_ENDINGS = {"train": "train", "dev": "dev", "test": "test-student"}


def download_course(
    folder: Path,
    addresses: Sequence[str] = ADDRESSES,
    has_cfimdb: bool = False,
    source: Path | None = None,
    overwrite: bool = False,
) -> None:
    """Download the files that are not in `folder` yet, and check all of them.

    addresses: where the files lie. They are asked in this order.
    has_cfimdb: whether the files of CFIMDB are brought, too.
    source: a folder whose files are taken before any is downloaded (--from).
    overwrite: whether another file of the same name is replaced.

    Raises ValueError with the file, what is wrong and what to do.
    """
    names: list[str] = []
    for of_task in COURSE_FILES.values():
        names += of_task.values()
    if has_cfimdb:
        names += CFIMDB_FILES.values()
    owned = {} if source is None else find_owned(source)
    check_addresses(addresses)
    check_folder(folder, names)

    folder.mkdir(parents=True, exist_ok=True)
    with only_process(folder):
        recorded = read_recorded_sums(folder)
        remove_leftovers(folder, names)
        for name in names:
            if name in owned and is_taken_now(folder / name, owned[name], overwrite):
                note = take_file(name, folder, owned[name], recorded)
            else:
                urls = [f"{address.rstrip('/')}/{name}" for address in addresses]
                note = download_file(name, folder, urls, recorded, overwrite)
            print(note, flush=True)


# --- before any work ------------------------------------------------------------------------------


def check_addresses(addresses: Sequence[str]) -> None:
    """Raise ValueError for an address that is none of a web server."""
    for address in addresses:
        try:
            parts = urlsplit(address)
            # An impossible port raises ValueError.
            is_possible = parts.scheme in ("http", "https") and bool(parts.hostname)
            is_possible = is_possible and parts.port != 0
        except ValueError:
            is_possible = False
        if not is_possible or not re.fullmatch(r"[!-~]+", address):
            raise ValueError(
                f"--base-url {address}: expected is an address such as https://example.org/data/. "
                "For files in a folder of this machine, pass --from."
            )


def check_folder(folder: Path, names: Sequence[str]) -> None:
    """Raise ValueError if a file of --out cannot or must not be written."""
    outputs = [Output("--out", folder / SUMS, is_checked_later)]
    for name in names:
        part = part_of(folder / name)
        # What a link points to belongs to somebody else.
        if part.is_symlink():
            raise ValueError(f"--out {part}: it is a link. Remove it, or choose another --out.")
        outputs.append(Output("--out", folder / name, is_checked_later))
        outputs.append(Output("--out", part, is_checked_later))
    check_outputs(outputs)


def is_checked_later(path: Path) -> bool:
    """For Output.is_ours: a file that is there is compared with its digest, and not replaced."""
    return True


def part_of(path: Path) -> Path:
    """Where a file is written until it is whole."""
    return path.with_name(f"{path.name}.part")


@contextmanager
def only_process(folder: Path) -> Iterator[None]:
    """Lock a folder, so that two downloads never write the same file."""
    # filelock is imported late, so that --help answers at once.
    from filelock import Timeout

    try:
        with locked(folder / LOCK, timeout=0):
            yield
    except Timeout:
        raise ValueError(
            f"{folder}: another download writes here. Wait for its end, or choose another --out."
        ) from None


def remove_leftovers(folder: Path, names: Sequence[str]) -> None:
    """Remove what a killed download left."""
    for name in names:
        part_of(folder / name).unlink(missing_ok=True)
    (folder / temporary_name(folder / SUMS)).unlink(missing_ok=True)


# --- the files of a student -----------------------------------------------------------------------


def find_owned(source: Path) -> dict[str, Path]:
    """Return the files of --from by the course's names. The names of Goettingen are known, too.

    Raises ValueError where the folder holds none of them.
    """
    owned: dict[str, Path] = {}
    for task, of_task in BUILT_IN_FILES.items():
        for split, name in of_task.items():
            other = f"{GOETTINGEN_STEMS.get(task, task)}-{GOETTINGEN_ENDINGS[split]}.csv"
            for path in (source / name, source / other):
                if path.is_file():
                    owned.setdefault(name, path)
    if not owned:
        raise ValueError(
            f"--from {source}: none of the course's files is there, such as ids-sst-train.csv. "
            "Give the folder `data` of your project."
        )
    return owned


def is_taken_now(path: Path, source: Path, overwrite: bool) -> bool:
    """Whether a file of --from is still to be copied. source: the student's file.

    Raises ValueError where another file has its place already.
    """
    if not path.exists():
        return True
    if digest_of_file(path) == digest_of_file(source):
        return False
    if not overwrite:
        raise ValueError(
            f"{path}: this is another file than {source}. Pass {OVERWRITE} to replace it, or leave "
            "out --from."
        )
    return True


def take_file(name: str, folder: Path, path: Path, recorded: dict[str, str]) -> str:
    """Copy one file of a student, check it, and record its SHA-256.

    A file of another year may differ from the published one. It is read as a table of its task, and
    taken where that succeeds. It may be a part of a file on purpose, so another number of rows is
    a warning. Returns the lines for the user. Raises ValueError where it is no table of the task.
    """
    task, split = task_and_split(name)
    part = part_of(folder / name)
    shutil.copyfile(path, part)
    digest = digest_of_file(part)
    published = PUBLISHED.get(name)
    if published is not None and digest == published.sha256:
        check = "SHA-256 verified"
    else:
        try:
            table = read_examples(path, BUILT_IN[task].training_format, labelled=split != "test")
        except ValueError:
            part.unlink()
            raise
        is_other = published is not None
        state = "not the file of the public repository" if is_other else "no published checksum"
        check = f"{state}; {len(table.examples):,} rows; SHA-256 recorded"
        check += warning_of_rows(name, len(table.examples) + len(table.dropped))

    recorded[name] = digest
    write_recorded_sums(folder, recorded)
    finish(part, folder / name)
    return f"{folder / name}: taken from {path}; {check}"


def task_and_split(name: str) -> tuple[str, str]:
    """Return the task and the split of a file's name."""
    for task, of_task in BUILT_IN_FILES.items():
        for split, of_split in of_task.items():
            if of_split == name:
                return task, split
    raise KeyError(name)


# --- the files of the public repository -----------------------------------------------------------


def download_file(
    name: str, folder: Path, urls: Sequence[str], recorded: dict[str, str], overwrite: bool
) -> str:
    """Download one file where it is not there, check it, and record its SHA-256.

    urls: the addresses of the file. recorded: the checksums of earlier downloads by name. The
    file's own is added. overwrite: whether another file of the name is replaced.

    Returns the line for the user.
    """
    path = folder / name
    part = part_of(path)
    published = PUBLISHED.get(name)
    is_here = path.exists()
    # A file of --from may be another edition. Its checksum was recorded when it was taken.
    is_taken = is_here and name in recorded
    expected = recorded.get(name)
    if published is not None and not is_taken:
        expected = published.sha256
    if is_here:
        fault = find_fault(path, name, expected)
        if fault and not overwrite:
            raise ValueError(
                f"{path}: this is not the course's file: {fault}. Move it away, choose another "
                f"--out, or pass {OVERWRITE} to replace it."
            )
        if fault:
            is_here = is_taken = False
            expected = published.sha256 if published else None
    if not is_here:
        size = None if published is None else published.num_bytes
        fetch(urls, part, lambda file: find_fault(file, name, expected), size, LIMITS)

    # The checksum is recorded before the file gets its name: a file of that name always has one.
    recorded[name] = digest_of_file(path if is_here else part)
    write_recorded_sums(folder, recorded)
    if not is_here:
        finish(part, path)

    state = "here already" if is_here else f"{path.stat().st_size:,} bytes"
    if is_taken and published is not None and recorded[name] != published.sha256:
        check_text = "SHA-256 verified; not the file of the public repository"
    elif expected:
        check_text = "SHA-256 verified"
    else:
        check_text = f"no published checksum; {count_rows(path):,} rows; SHA-256 recorded"
    is_published = published is not None and recorded[name] == published.sha256
    if is_taken and not is_published:
        check_text += warning_of_rows(name, count_rows(path))
    return f"{path}: {state}; {check_text}"


def read_recorded_sums(folder: Path) -> dict[str, str]:
    """Return the checksums in SHA256SUMS by file name; {} where it is not there.

    Raises ValueError for a line that sha256sum would not write.
    """
    path = folder / SUMS
    if not path.exists():
        return {}
    recorded = {}
    text = path.read_text(encoding="utf-8", errors="replace")
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        match = re.fullmatch(r"([0-9a-f]{64}) [ *](\S+)", line)
        if match is None:
            raise ValueError(
                f"{path}, line {number}: expected are 64 hexadecimal digits, two blanks and a file "
                "name. Restore the file, or remove it: the files are then checked as new ones."
            )
        recorded[match[2]] = match[1]
    return recorded


def write_recorded_sums(folder: Path, recorded: dict[str, str]) -> None:
    """Write SHA256SUMS as the program sha256sum does. A reader never finds half of it."""
    lines = [f"{digest}  {name}\n" for name, digest in sorted(recorded.items())]
    write_text(folder / SUMS, "".join(lines))


def count_rows(path: Path) -> int:
    """Return the number of rows, the header not counted.

    No sentence of the course's files holds a line break.
    """
    return len(path.read_bytes().splitlines()) - 1


# --- is it the course's file? ---------------------------------------------------------------------


def describe_doubt(name: str, path: str | Path, num_rows: int) -> str:
    """Why a file that was read may not be the course's, or "".

    name: of the course's file. num_rows: of the file at `path`, dropped rows included.
    """
    if is_of_sample(path):
        return "it belongs to the bundled sample"
    published = PUBLISHED.get(name)
    note = describe_rows(name, num_rows)
    if published is None or digest_of_file(path) == published.sha256:
        return note
    return note or "it differs from the course's published file"


def is_of_sample(path: str | Path) -> bool:
    """Whether a file lies in the folder of the bundled sample."""
    return Path(path).resolve().parent == SAMPLE_FOLDER


def describe_rows(name: str, num_rows: int) -> str:
    """How the number of rows differs from that of the course's file, or "".

    The reports' numbers for the files without a checksum are not exact.
    """
    expected = NUM_ROWS[name]
    tolerance = 0 if name in PUBLISHED else ROW_TOLERANCE
    if abs(num_rows - expected) <= tolerance:
        return ""
    source = "the course's file has" if name in PUBLISHED else "the course's reports name"
    cause = "is cut off" if num_rows < expected else "belongs to another year"
    return f"{source} {expected:,} rows, and this one has {num_rows:,}. Maybe it {cause}"


def warning_of_rows(name: str, num_rows: int) -> str:
    """`describe_rows` as a line below that of the file, or ""."""
    note = describe_rows(name, num_rows)
    return f"\n  warning: {note}." if note else ""


def find_fault(path: Path, name: str, expected: str | None) -> str | None:
    """Return what is wrong with a file, or None.

    path: the file or its part. name: of the course's file. expected: its SHA-256. None: its
    structure is checked instead.
    """
    if not path.exists():
        return "it is empty"
    if expected is not None:
        digest = digest_of_file(path)
        if digest == expected:
            return None
        return find_other_kind(path) or describe_difference(path, name, digest, expected)
    return find_other_kind(path) or find_wrong_structure(path, name)


def find_other_kind(path: Path) -> str | None:
    """Return what kind of file this is, where it is no table."""
    with open(path, "rb") as file:
        start = file.read(1 << 16).lstrip()
    if not start:
        num_bytes = path.stat().st_size
        return f"it holds {num_bytes:,} bytes of blank space" if num_bytes else "it is empty"
    if start.lower().startswith(PAGE_STARTS):
        return "it is a web page"
    return None


def describe_difference(path: Path, name: str, digest: str, expected: str) -> str:
    """Return how a file differs from the one with the expected SHA-256."""
    published = PUBLISHED.get(name)
    num_bytes = path.stat().st_size
    if published is not None and published.sha256 == expected and num_bytes < published.num_bytes:
        return f"it has {num_bytes:,} of {published.num_bytes:,} bytes"
    if published is not None and published.sha256 == expected and num_bytes > published.num_bytes:
        return f"it is longer than {published.num_bytes:,} bytes"
    return f"SHA-256 {digest}, expected is {expected}"


def find_wrong_structure(path: Path, name: str) -> str | None:
    """Return what is wrong with a file whose SHA-256 is not known, or None.

    It must be a table of its task in UTF-8, with about as many rows as the reports say.
    """
    content = path.read_bytes()
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        return f"it is not text in UTF-8 (byte {error.start:,})"
    if b"\0" in content:
        return f"it holds zero bytes (byte {content.index(0):,})"
    if not content.endswith(b"\n"):
        return "its last row is cut off"

    task, split = task_and_split(name)
    is_labelled = split != "test"
    try:
        table = read_examples(path, BUILT_IN[task].format, is_labelled, drop_bad_rows=is_labelled)
    except ValueError as error:
        # The advice behind the first sentence is for a user's own file.
        return str(error).removeprefix(str(path)).lstrip(":, ").split(". ")[0].rstrip(".")
    num_rows = len(table.examples) + len(table.dropped)
    if len(table.dropped) > MOST_DROPPED:
        return f"{len(table.dropped):,} of its rows are no examples, the first: {table.dropped[0]}"
    if abs(num_rows - NUM_ROWS[name]) > ROW_TOLERANCE:
        return f"{num_rows:,} rows, expected are about {NUM_ROWS[name]:,}"
    return None


@dataclass(frozen=True)
class DownloadOptions(CommandOptions):
    """The command line of this file."""

    out: Path = argument(None, "folder for the files", "OUT", is_required=True)
    cfimdb: bool = argument(False, "also the three files of CFIMDB, for part 1")
    from_: Path | None = argument(
        None, "take the files that are in this folder, and download only the others", "FOLDER"
    )
    base_url: str | None = argument(
        None, f"where the files lie (default {ADDRESSES[0]}, and two copies of it)", "URL"
    )
    overwrite: bool = argument(False, "replace a file of --out that is not the course's")


PROGRAM = "python -m data.download"


@exit_code(PROGRAM, "Stopped. Run the same command again: it goes on with the missing files.")
def main(argv: Sequence[str] | None = None) -> None:
    """Download the files. Exit code 0: all are there. 2: bad input or no connection."""
    description = "Fetch the course's nine files; continue and verify them."
    options = parse_command(DownloadOptions, PROGRAM, description, argv)
    download_course(
        options.out,
        ADDRESSES if options.base_url is None else [options.base_url],
        has_cfimdb=options.cfimdb,
        source=options.from_,
        overwrite=options.overwrite,
    )


if __name__ == "__main__":
    sys.exit(main())
