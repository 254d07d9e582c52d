"""The fixtures of tests/ that the tests of the tools use, too."""

from tests.conftest import (
    _no_network,
    _no_reports,
    _one_thread,
    controlled_data,
    cut_sample,
    hugging_face_folder,
    minilm_folder,
    model_copy,
    no_fsync,
    reports,
    sample_data,
    tiny_model,
    two_runs,
)

__all__ = [
    "_no_network",
    "_no_reports",
    "_one_thread",
    "controlled_data",
    "cut_sample",
    "hugging_face_folder",
    "minilm_folder",
    "model_copy",
    "no_fsync",
    "reports",
    "sample_data",
    "tiny_model",
    "two_runs",
]
