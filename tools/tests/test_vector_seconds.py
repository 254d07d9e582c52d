"""tools/benchmarks/vector_seconds.py: the record of a small measurement."""

from experiments.records import read_records
from tests.toy_sets import write_sts_file
from tools.benchmarks import vector_seconds


def test_each_kind_of_vector_has_its_seconds(tiny_model, sample_data, tmp_path, monkeypatch):
    """Only a trained encoder has seconds of training."""
    monkeypatch.setattr("contrastive.methods.GUIDED_WIDTH", 64)
    monkeypatch.setattr(vector_seconds, "SECONDS", tmp_path / "vector-seconds.jsonl")
    # Whitening needs more sentences than a vector has coordinates.
    sets = write_sts_file(tmp_path / "sts.tsv", sample_data)
    words = ["--sets", sets, "--data-dir", sample_data, "--model", tiny_model, "--record"]
    words += ["--rows", "40", "--steps", "1", "--rounds", "1"]
    assert vector_seconds.main([str(word) for word in words]) == 0
    (record,) = read_records(tmp_path / "vector-seconds.jsonl")
    kinds = {item["kind"]: item for item in record["kinds"]}
    assert list(kinds) == [
        "mean",
        "first-last mean",
        vector_seconds.WHITENED,
        "WK",
        vector_seconds.TRAINED,
    ]
    assert all(item["inference"] > 0 for item in kinds.values())
    trained = [name for name, item in kinds.items() if item["training"] != "-"]
    assert trained == [vector_seconds.TRAINED]
