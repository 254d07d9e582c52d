"""The course's nine files, from their public repository: `python -m data.download --out DIR`.

A file is written to NAME.part and continued there after an interruption. It is compared with its
SHA-256, and only then renamed. So a file of the right name is always whole. --cfimdb adds the three
files of part 1. --from takes the files that a student already has.
"""

from __future__ import annotations

import errno
import shutil
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from http.client import HTTPException
from pathlib import Path

from data.readers import BUILT_IN_FILES, CFIMDB_FILES, COURSE_FILES, read_examples, sha256_of
from data.task_specs import BUILT_IN
from minbert.commands.ending import exit_code
from minbert.commands.flags import Parser

BASE_URL = "https://raw.githubusercontent.com/gpoesia/minbert-default-final-project/HEAD/data/"
NUM_ATTEMPTS = 4

# Seconds without a byte.
TIMEOUT = 30.0

CHECKSUMS = {
    "ids-sst-train.csv": "03b2b625c090f94a6afd59f114cde5282e2053aab0b101e87ed695d8a0c5b1df",
    "ids-sst-dev.csv": "a186ce94577635fbe10beaaddd50f16cccf6c30973221cefdf90deed2a584bfe",
    "ids-sst-test-student.csv": "bdd5a767faa0c26782117e37767ece154c30d5d04fb8727d09c71e3850a55c7b",
    "quora-dev.csv": "bfa3cc954a9ba300ae776a980141de65f622a3c1b97e3fd905d63245bc36d5ad",
    "sts-train.csv": "15d12efc2d656fffb1d61ac1f08ec4227f43925fd16f420c037cbd063699c21b",
    "sts-dev.csv": "ce3cad6f16062586ac7ba462c28b010a9be10c530fd5074165860d7b7ab4e93d",
    "sts-test-student.csv": "dee455745b72e9ca3ff74e7c056bd73e34bad5b8d5641045a2c1e7e131866f47",
}

# No checksum of these files is published. Their first download is trusted if it has about as many
# rows as the course's reports say. For other files these reports count the header, too.
NUM_ROWS = {
    "quora-train.csv": 141_506,
    "quora-test-student.csv": 40_431,
    "ids-cfimdb-train.csv": 1_701,
    "ids-cfimdb-dev.csv": 245,
    "ids-cfimdb-test-student.csv": 488,
}
ROW_TOLERANCE = 10

# The course of Goettingen has other names for the same files.
GOETTINGEN_STEMS = {"sst": "sst-sentiment", "para": "quora-paraphrase", "sts": "sts-similarity"}
GOETTINGEN_ENDINGS = {"train": "train", "dev": "dev", "test": "test-student"}


def download_course(
    folder: Path,
    base_url: str = BASE_URL,
    wait: float = 1.0,
    has_cfimdb: bool = False,
    source: Path | None = None,
) -> None:
    """Download the files that are not in `folder` yet, and check all of them.

    wait: seconds between the first two attempts; they double with each attempt.
    has_cfimdb: whether the files of CFIMDB are brought, too.
    source: a folder whose files are taken before any is downloaded (--from).

    Raises ValueError with the file, what is wrong and what to do.
    """
    names: list[str] = []
    for of_task in COURSE_FILES.values():
        names += of_task.values()
    if has_cfimdb:
        names += CFIMDB_FILES.values()
    owned = {} if source is None else find_owned(source)
    folder.mkdir(parents=True, exist_ok=True)
    recorded = read_recorded_sums(folder)
    for name in names:
        if name in owned and not (folder / name).exists():
            note = take_file(name, folder, owned[name], recorded)
        else:
            note = download_file(name, folder, f"{base_url.rstrip('/')}/{name}", recorded, wait)
        print(note, flush=True)


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


def take_file(name: str, folder: Path, path: Path, recorded: dict[str, str]) -> str:
    """Copy one file of a student, check it, and record its SHA-256.

    A file of another year may differ from the published one. It is read as a table of its task, and
    taken where that succeeds. Returns the line for the user. Raises ValueError where it is no table
    of the task.
    """
    task, split = task_and_split(name)
    digest = sha256_of(path)
    if digest == CHECKSUMS.get(name):
        check = "SHA-256 verified"
    else:
        table = read_examples(path, BUILT_IN[task].training_format, labelled=split != "test")
        is_other = name in CHECKSUMS
        state = "not the file of the public repository" if is_other else "no published checksum"
        check = f"{state}; {len(table.examples):,} rows; SHA-256 recorded"

    part = folder / f"{name}.part"
    shutil.copyfile(path, part)
    recorded[name] = digest
    write_recorded_sums(folder, recorded)
    part.replace(folder / name)
    return f"{folder / name}: taken from {path}; {check}"


def task_and_split(name: str) -> tuple[str, str]:
    """Return the task and the split of a file's name."""
    for task, of_task in BUILT_IN_FILES.items():
        for split, of_split in of_task.items():
            if of_split == name:
                return task, split
    raise KeyError(name)


# --- the files of the public repository -----------------------------------------------------------


def download_file(name: str, folder: Path, url: str, recorded: dict[str, str], wait: float) -> str:
    """Download one file where it is not there, check it, and record its SHA-256.

    recorded: the checksums of earlier downloads by name. The file's own is added.

    Returns the line for the user.
    """
    path = folder / name
    part = folder / f"{name}.part"
    is_here = path.exists()
    # A file of --from may be another edition. Its checksum was recorded when it was taken.
    is_taken = is_here and name in recorded
    expected = recorded[name] if is_taken else CHECKSUMS.get(name, recorded.get(name))
    if is_here:
        fault = find_fault(path, expected)
        if fault:
            raise ValueError(
                f"{path}: this is not the course's file: {fault}. Move it away, or choose another "
                "--out."
            )
    else:
        fetch_verified(url, part, expected, wait)

    # The checksum is recorded before the file gets its name: a file of that name always has one.
    recorded[name] = sha256_of(path if is_here else part)
    write_recorded_sums(folder, recorded)
    if not is_here:
        part.replace(path)

    state = "here already" if is_here else f"{path.stat().st_size:,} bytes"
    if is_taken and recorded[name] != CHECKSUMS.get(name, recorded[name]):
        check = "SHA-256 verified; not the file of the public repository"
    elif expected:
        check = "SHA-256 verified"
    else:
        check = f"no published checksum; {count_rows(path):,} rows; SHA-256 recorded"
    return f"{path}: {state}; {check}"


def read_recorded_sums(folder: Path) -> dict[str, str]:
    """Return the checksums in SHA256SUMS by file name; {} where it is not there."""
    path = folder / "SHA256SUMS"
    if not path.exists():
        return {}
    recorded = {}
    for line in path.read_text().splitlines():
        if line:
            digest, name = line.split()
            recorded[name] = digest
    return recorded


def write_recorded_sums(folder: Path, recorded: dict[str, str]) -> None:
    """Write SHA256SUMS as the program sha256sum does. A reader never finds half of it."""
    path = folder / "SHA256SUMS"
    part = path.with_suffix(".part")
    lines = [f"{digest}  {name}\n" for name, digest in sorted(recorded.items())]
    part.write_text("".join(lines))
    part.replace(path)


def count_rows(path: Path) -> int:
    """Return the number of rows, the header not counted.

    No sentence of the course's files holds a line break.
    """
    return path.read_bytes().count(b"\n") - 1


def fetch_verified(url: str, part: Path, expected: str | None, wait: float) -> None:
    """Fetch `url` to `part` and check it.

    A part that was begun earlier may mix two versions of a file. So a wrong one is fetched again
    from its start. Raises ValueError where that is wrong, too.
    """
    was_begun = part.exists()
    fetch(url, part, wait)
    fault = find_fault(part, expected)
    if not fault:
        return
    part.unlink()
    if not was_begun:
        raise ValueError(
            f"{url}: what came is not the course's file: {fault}. Nothing of it was kept. A "
            "proxy or log-in page may stand between; open the address in a browser, or change "
            "--base-url."
        )
    fetch_verified(url, part, expected, wait)


def find_fault(path: Path, expected: str | None) -> str | None:
    """Return what is wrong with a downloaded file, or None.

    path: NAME or NAME.part of one of the course's files.
    expected: its SHA-256. None: its number of rows is checked instead.
    """
    if expected:
        digest = sha256_of(path)
        return None if digest == expected else f"SHA-256 {digest}, expected is {expected}"

    num_rows = count_rows(path)
    num_expected = NUM_ROWS[path.name.removesuffix(".part")]
    if abs(num_rows - num_expected) <= ROW_TOLERANCE:
        return None
    return f"{num_rows:,} rows, expected are about {num_expected:,}"


def fetch(url: str, part: Path, wait: float) -> None:
    """Fetch all of `url` to `part`, after what is there already.

    A dropped connection and a failing server get more attempts. Raises ValueError with what to do
    where all of them fail, where the address is wrong, and where `part` cannot be written.
    """
    for attempt in range(NUM_ATTEMPTS):
        if attempt > 0:
            time.sleep(wait * 2 ** (attempt - 1))
        try:
            return fetch_rest(url, part)
        except urllib.error.HTTPError as error:
            if error.code == 416:
                # Nothing lies beyond the part. It may be whole, which its checksum will tell.
                return None
            problem = f"the server answers {error.code} {error.reason}"
            if error.code < 500:
                # The address is wrong, and stays wrong.
                break
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EACCES, errno.EROFS):
                raise ValueError(
                    f"{part}: cannot be written ({error.strerror}). Free some space, or "
                    "change --out."
                ) from None
            problem = str(error) or type(error).__name__
        except HTTPException as error:
            problem = str(error) or type(error).__name__
    raise ValueError(
        f"{url}: {problem}. Check the address and the connection, then run the same command again: "
        "it goes on from what has come."
    )


def fetch_rest(url: str, part: Path) -> None:
    """Append to `part` the bytes of `url` that it lacks.

    A server that knows no ranges sends the file from its start, and `part` begins anew.
    Raises ConnectionError where the connection ends early.
    """
    num_bytes = part.stat().st_size if part.exists() else 0
    headers = {"Range": f"bytes={num_bytes}-"} if num_bytes else {}
    request = urllib.request.Request(url, headers=headers)
    received = 0
    with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
        # 206 is a part of the file, 200 all of it.
        mode = "ab" if response.status == 206 else "wb"
        length = response.headers["Content-Length"]
        with open(part, mode) as file:
            while block := response.read(1 << 16):
                received += file.write(block)
    if length is not None and received < int(length):
        raise ConnectionError(f"the connection ended after {received:,} of {int(length):,} bytes")


@exit_code(
    "python -m data.download", "Stopped. Run the same command again: it goes on from what is there."
)
def main(argv: Sequence[str] | None = None) -> None:
    """Download the files. Exit code 0: all are there. 2: bad input or no connection."""
    parser = Parser(
        prog="python -m data.download",
        description="Fetch the course's nine files; continue and verify them.",
    )
    parser.add_argument("--out", required=True, type=Path, help="folder for the files")
    parser.add_argument(
        "--cfimdb", action="store_true", help="also the three files of CFIMDB, for part 1"
    )
    parser.add_argument(
        "--from",
        dest="source",
        metavar="FOLDER",
        type=Path,
        help="take the files that are in this folder, and download only the others",
    )
    parser.add_argument(
        "--base-url", default=BASE_URL, help=f"where the files lie (default {BASE_URL})"
    )
    arguments = parser.parse_args(argv)
    download_course(
        arguments.out,
        arguments.base_url,
        has_cfimdb=arguments.cfimdb,
        source=arguments.source,
    )


if __name__ == "__main__":
    sys.exit(main())
