"""The course's nine files, from their public repository: `python -m data.download --out DIR`.

A file is written to NAME.part, continued there after an interruption, compared with its SHA-256 and only then
renamed, so that a file of the right name is always whole. Read next: data/readers.py.
"""

import argparse
import errno
import sys
import time
import urllib.error
import urllib.request
from http.client import HTTPException
from pathlib import Path

from data.readers import COURSE_FILES, sha256_of

BASE_URL = "https://raw.githubusercontent.com/gpoesia/minbert-default-final-project/HEAD/data/"
NUM_ATTEMPTS = 4
TIMEOUT = 30.0  # seconds without a byte
CHECKSUMS = {
    "ids-sst-train.csv": "03b2b625c090f94a6afd59f114cde5282e2053aab0b101e87ed695d8a0c5b1df",
    "ids-sst-dev.csv": "a186ce94577635fbe10beaaddd50f16cccf6c30973221cefdf90deed2a584bfe",
    "ids-sst-test-student.csv": "bdd5a767faa0c26782117e37767ece154c30d5d04fb8727d09c71e3850a55c7b",
    "quora-dev.csv": "bfa3cc954a9ba300ae776a980141de65f622a3c1b97e3fd905d63245bc36d5ad",
    "sts-train.csv": "15d12efc2d656fffb1d61ac1f08ec4227f43925fd16f420c037cbd063699c21b",
    "sts-dev.csv": "ce3cad6f16062586ac7ba462c28b010a9be10c530fd5074165860d7b7ab4e93d",
    "sts-test-student.csv": "dee455745b72e9ca3ff74e7c056bd73e34bad5b8d5641045a2c1e7e131866f47",
}
# No checksum of these two is published: their first download is trusted if it has about as many rows as the course's
# reports say, which for other files count the header too.
NUM_ROWS, ROW_TOLERANCE = {"quora-train.csv": 141_506, "quora-test-student.csv": 40_431}, 10


def download_course(folder: Path, base_url: str = BASE_URL, wait: float = 1.0) -> None:
    """Bring what is not in `folder` yet, `wait` seconds (doubling) between attempts; ValueError says what to do."""
    folder.mkdir(parents=True, exist_ok=True)
    sums = folder / "SHA256SUMS"
    recorded = (
        dict(line.split()[::-1] for line in sums.read_text().splitlines() if line)
        if sums.exists()
        else {}
    )
    for name in (name for files in COURSE_FILES.values() for name in files.values()):
        path, part, url = folder / name, folder / f"{name}.part", f"{base_url.rstrip('/')}/{name}"
        expected = CHECKSUMS.get(name, recorded.get(name))
        is_here = path.exists()
        if not is_here:
            fetch_verified(url, part, expected, wait)
        elif fault := find_fault(path, expected):
            raise ValueError(
                f"{path}: this is not the course's file: {fault}. Move it away, or choose another --out."
            )
        recorded[name] = sha256_of(path if is_here else part)
        sums.with_suffix(".part").write_text(
            "".join(f"{digest}  {key}\n" for key, digest in sorted(recorded.items()))
        )
        sums.with_suffix(".part").replace(sums)
        if not is_here:
            part.replace(path)
        num_rows = (
            path.read_bytes().count(b"\n") - 1
        )  # no sentence of the course holds a line break
        note = (
            "SHA-256 verified"
            if expected
            else f"no published checksum; {num_rows:,} rows; SHA-256 recorded"
        )
        print(
            f"{path}: {'here already' if is_here else f'{path.stat().st_size:,} bytes'}; {note}",
            flush=True,
        )


def fetch_verified(url: str, part: Path, expected: str | None, wait: float) -> None:
    """Fetch to `part`; one that was continued may mix two versions of a file and gets a second try from the start."""
    was_begun = part.exists()
    fetch(url, part, wait)
    fault = find_fault(part, expected)
    if fault:
        part.unlink()
        if not was_begun:
            raise ValueError(
                f"{url}: what came is not the course's file: {fault}. Nothing of it was kept. A proxy or "
                "log-in page may stand between; open the address in a browser, or change --base-url."
            )
        fetch_verified(url, part, expected, wait)


def find_fault(path: Path, expected: str | None) -> str | None:
    """What is wrong with a file whose name, less `.part`, is a course file's: its checksum, or its number of rows."""
    if expected:
        found = sha256_of(path)
        return None if found == expected else f"SHA-256 {found}, needed is {expected}"
    found, needed = path.read_bytes().count(b"\n") - 1, NUM_ROWS[path.name.removesuffix(".part")]
    return (
        None
        if abs(found - needed) <= ROW_TOLERANCE
        else f"{found:,} rows, needed are about {needed:,}"
    )


def fetch(url: str, part: Path, wait: float) -> None:
    """Fetch all of `url` to `part`, continuing what is there; a dropped connection gets more attempts."""
    for attempt in range(NUM_ATTEMPTS):
        time.sleep(wait * 2 ** (attempt - 1) if attempt else 0)
        try:
            return fetch_rest(url, part)
        except urllib.error.HTTPError as error:
            if (
                error.code == 416
            ):  # nothing lies beyond the part: it may be whole, which its checksum will tell
                return None
            problem = f"the server answers {error.code} {error.reason}"
            if error.code < 500:
                break
        except (OSError, HTTPException) as error:
            if getattr(error, "errno", None) in (errno.ENOSPC, errno.EACCES, errno.EROFS):
                raise ValueError(
                    f"{part}: cannot be written ({error.strerror}). Make room or change --out."
                ) from None
            problem = str(error) or type(error).__name__
    raise ValueError(
        f"{url}: {problem}. Check the address and the connection, then run the same command again: it "
        "goes on from what has come."
    )


def fetch_rest(url: str, part: Path) -> None:
    """Append to `part` what it lacks of `url`, or begin anew where the server knows no ranges; OSError if cut off."""
    num_bytes = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(
        url, headers={"Range": f"bytes={num_bytes}-"} if num_bytes else {}
    )
    with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
        is_rest = (
            response.status == 206
        )  # 200: the server knows no ranges and sends the file from its start
        length, received = response.headers["Content-Length"], 0
        with open(part, "ab" if is_rest else "wb") as file:
            while block := response.read(1 << 16):
                received += file.write(block)
    if length is not None and received < int(length):
        raise ConnectionError(f"the connection ended after {received:,} of {int(length):,} bytes")


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Fetch the course's nine files; continue and verify them."
    )
    parser.add_argument("--out", required=True, type=Path, help="folder for the files")
    parser.add_argument(
        "--base-url", default=BASE_URL, help=f"where the files lie (default {BASE_URL})"
    )
    arguments = parser.parse_args()
    try:
        download_course(arguments.out, arguments.base_url)
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(
            f"Stopped. Run the same command again: it goes on from what is in {arguments.out}.",
            file=sys.stderr,
        )
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
