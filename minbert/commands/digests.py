"""The record of a model's files: SHA256SUMS, which every reader of such a file compares.

The record holds the SHA-256 of each file that minBERT wrote into the folder. Its format is that of
the program sha256sum, so `sha256sum -c SHA256SUMS` checks a folder, too. Models of other libraries
and of older versions have no record, and files that it does not name are not compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from minbert.commands.files import DamagedFile, digest_of_file, write_text

RECORD_FILE = "SHA256SUMS"

# A digest, two signs of which the second may be "*", and the name.
LINE = re.compile(r"(\S{64}) [ *](.+)")


@contextmanager
def recording(folder: Path) -> Iterator[dict[str, str]]:
    """Yield the digests of a folder by name, to which new ones are added. Then write its record.

    Within it the folder has no record. After a kill its files are not compared, and none of them
    is taken for a damaged one.
    """
    digests = read_record(folder)
    (folder / RECORD_FILE).unlink(missing_ok=True)
    yield digests
    lines = [f"{digest}  {name}\n" for name, digest in sorted(digests.items())]
    write_text(folder / RECORD_FILE, "".join(lines))


def read_record(folder: Path) -> dict[str, str]:
    """The recorded digests of a folder's files, by name. None where it has no record.

    Lines of another form are left out. OSError if the record cannot be read.
    """
    path = folder / RECORD_FILE
    if not path.is_file():
        return {}
    digests = {}
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        match = LINE.fullmatch(line)
        if match:
            digests[match[2]] = match[1]
    return digests


def check_recorded(path: Path) -> None:
    """Raise DamagedFile if a file is not as its record says. A file without a record passes.

    The record is beside the file, or one folder above it, as for 1_Pooling/config.json. OSError if
    one of them cannot be read.
    """
    inner = path.parent
    places = {inner: path.name, inner.parent: f"{inner.name}/{path.name}"}
    for folder, name in places.items():
        expected = read_record(folder).get(name)
        if expected is not None and digest_of_file(path) != expected:
            record = folder / RECORD_FILE
            raise DamagedFile(
                f"{path}: this file is damaged, or was changed after minBERT wrote it: its SHA-256 "
                f"is not the one in {record}. Bring the file back. If the change was meant, delete "
                f"the line of {name} in {record}."
            )
