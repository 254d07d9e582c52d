"""The fixtures of tests/ that the tests of the tools use, too, and records of their own."""

from __future__ import annotations

import pytest

from tests.conftest import (
    _no_fsync,
    _no_network,
    _no_reports,
    _one_thread,
    _quick_pretraining,
    _records_of_edited_code,
    controlled_data,
    cut_sample,
    hugging_face_folder,
    minilm_folder,
    model_copy,
    reports,
    sample_data,
    tiny_model,
    two_runs,
)
from tools.tables import generic

__all__ = [
    "_no_fsync",
    "_no_network",
    "_no_reports",
    "_one_thread",
    "_quick_pretraining",
    "_records_of_edited_code",
    "controlled_data",
    "cut_sample",
    "hugging_face_folder",
    "minilm_folder",
    "model_copy",
    "reports",
    "sample_data",
    "tiny_model",
    "two_runs",
]


@pytest.fixture
def record_files(tmp_path, monkeypatch):
    """An empty folder that the tables read in the place of experiments/records/."""
    folder = tmp_path / "records"
    monkeypatch.setattr(generic, "RECORDS", folder)
    return folder
