"""minbert/commands/digests.py: damaged or changed files of a model are named, others are opened."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

from command_line.folders import load
from minbert import BertConfig, BertModel, BertTokenizer, hub
from minbert.commands.digests import RECORD_FILE, check_recorded, read_record, recording
from minbert.commands.files import DamagedFile, digest_of_file, write_json, write_text
from minbert.pooling import save_pooling, stored_pooling
from multitask.user_rows import BUNDLED_RUN

TINY = BertConfig(
    vocab_size=5,
    hidden_size=4,
    num_hidden_layers=1,
    num_attention_heads=1,
    intermediate_size=4,
    max_position_embeddings=8,
)


@pytest.fixture
def folder(tmp_path):
    """A model that minBERT wrote."""
    names = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    BertModel(TINY).save_pretrained(tmp_path)
    BertTokenizer({name: number for number, name in enumerate(names)}).save_pretrained(tmp_path)
    save_pooling(tmp_path, "mean")
    return tmp_path


def open_all(folder):
    """Read every file of the folder."""
    BertModel.from_pretrained(folder)
    BertTokenizer.from_pretrained(folder)
    stored_pooling(folder)


def test_the_record_is_that_of_sha256sum(folder):
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    del files[RECORD_FILE]
    assert len(files) == 5
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    assert read_record(folder) == digests
    if shutil.which("sha256sum"):
        command = ["sha256sum", "--check", "--strict", RECORD_FILE]
        assert subprocess.run(command, cwd=folder, capture_output=True).returncode == 0


@pytest.mark.parametrize(
    "name",
    ["model.safetensors", "config.json", "vocab.txt", "tokenizer_config.json", "sentence.json"],
)
def test_a_changed_file_is_named(folder, name):
    """A blank at the end, which the readers of these files would not notice."""
    open_all(folder)
    with open(folder / name, "ab") as file:
        file.write(b" ")
    with pytest.raises(ValueError, match=rf"{name}: this file is damaged, or was changed"):
        open_all(folder)


def test_a_change_that_was_meant(folder):
    """The message says what to do, and that helps. Other files never counted."""
    (folder / "README.md").write_text("my own words")
    path = folder / "tokenizer_config.json"
    path.write_text(path.read_text() + "\n")
    with pytest.raises(ValueError, match=rf"delete the line of {path.name} in .*{RECORD_FILE}"):
        open_all(folder)
    record = folder / RECORD_FILE
    lines = record.read_text().splitlines(keepends=True)
    record.write_text("".join(line for line in lines if path.name not in line))
    open_all(folder)
    (folder / "vocab.txt").write_text((folder / "vocab.txt").read_text() + "\n")
    record.unlink()
    open_all(folder)


def test_a_file_that_is_written_again_gets_a_new_line(folder):
    before = read_record(folder)
    save_pooling(folder, "cls")
    after = read_record(folder)
    assert [name for name in after if after[name] != before[name]] == ["sentence.json"]
    open_all(folder)


def test_a_writer_that_is_stopped_leaves_no_wrong_record(tmp_path):
    write_text(tmp_path / "a.txt", "old")
    with recording(tmp_path) as digests:
        digests["a.txt"] = write_text(tmp_path / "a.txt", "old")
    with pytest.raises(KeyboardInterrupt), recording(tmp_path):
        write_text(tmp_path / "a.txt", "new")
        raise KeyboardInterrupt
    check_recorded(tmp_path / "a.txt")


def test_files_in_a_folder_below_and_lines_of_other_forms(tmp_path):
    path = tmp_path / "1_Pooling" / "config.json"
    digest = write_json(path, {})
    (tmp_path / RECORD_FILE).write_text(f"# mine\n{digest} *1_Pooling/config.json\n")
    check_recorded(path)
    path.write_text("[]")
    with pytest.raises(DamagedFile, match="delete the line of 1_Pooling/config.json"):
        check_recorded(path)


@pytest.mark.parametrize("folder", [*hub.BUNDLED.values(), BUNDLED_RUN / "model"], ids=str)
def test_the_bundled_models_are_recorded(folder):
    names = {path.name for path in Path(folder).iterdir()} - {RECORD_FILE}
    remedy = f"write the record anew: cd {folder} && rm SHA256SUMS && sha256sum * > SHA256SUMS"
    assert read_record(folder).keys() == names, remedy
    for name in names:
        check_recorded(Path(folder) / name)


def test_options_that_were_edited(tmp_path):
    """A resumed run must not train with other options than run.json will state, without a word."""
    path = tmp_path / "options.json"
    write_json(path, {"options": {"lr": 0.5}, "files": {}}, has_checksum=True)
    path.write_text(path.read_text().replace("0.5", "0.25"))
    with pytest.raises(ValueError, match=r"options.json cannot be used: its checksum is wrong.*"):
        load(tmp_path)
    kept = [line for line in path.read_text().splitlines() if "checksum" not in line]
    path.write_text("\n".join(kept).replace("},\n}", "}\n}"))
    assert load(tmp_path).multitask.fine_tuning.lr == 0.25


def test_sha256_of_a_known_text(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"abc")
    expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert digest_of_file(path) == expected
