"""A log for TensorBoard: numbers over steps, which `tensorboard --logdir FOLDER` draws as curves.

The writer of tensorboard itself works in a thread of its own. On a full disk that thread prints a
traceback. Here the numbers are collected and appended in one piece.
"""

from __future__ import annotations

import io
import os
import socket
import time
from pathlib import Path
from typing import Any

SECONDS_BETWEEN_WRITES = 10.0
FORMAT = "brain.Event:2"  # what the first event of each file says


class EventFile:
    """A file of TensorBoard's format in a folder. It is made when the first numbers are written."""

    def __init__(self, folder: Path) -> None:
        # Imported late: they take half a second, and tensorboard may be missing.
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        self.event_type = Event
        self.summary_type = Summary
        # TensorBoard looks for this start of the name. The rest tells files apart.
        name = f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}.{os.getpid()}"
        self.path = folder / name
        self.events: list[Any] = [Event(wall_time=time.time(), file_version=FORMAT)]
        self.last_write = time.monotonic()

    def add_scalar(self, name: str, value: float, step: int) -> None:
        """Add a point to a curve. It is written within some seconds, or by `flush`."""
        summary = self.summary_type(value=[self.summary_type.Value(tag=name, simple_value=value)])
        self.events.append(self.event_type(wall_time=time.time(), step=step, summary=summary))
        if time.monotonic() > self.last_write + SECONDS_BETWEEN_WRITES:
            self.flush()

    def flush(self) -> None:
        """Append all points that are not written yet. ValueError where that is not possible."""
        # Each record has its length and two checksums.
        from tensorboard.summary.writer.record_writer import RecordWriter

        records = io.BytesIO()
        writer = RecordWriter(records)
        for event in self.events:
            writer.write(event.SerializeToString())
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with open(self.path, "ab") as file:
                file.write(records.getvalue())
        except OSError as error:
            raise ValueError(
                f"{self.path}: cannot be written ({error.strerror}). Check the disk and the "
                "folder, then resume."
            ) from error
        self.events = []
        self.last_write = time.monotonic()
