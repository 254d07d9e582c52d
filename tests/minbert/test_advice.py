"""Advice in the messages about the files of a model works: each is followed, and the model opens.

A case damages a copy of a small model. The message asks for an edit of the folder, or for another
folder. Where the advice is to fetch a file, another test says what is missing.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from safetensors.torch import load_file, save_file

from minbert import BertModel
from minbert.commands.digests import RECORD_FILE
from minbert.pooling import check_pooling, save_pooling
from tests.advice import shown

CONFIG = "config.json"
ADAPTER = "adapter_config.json"
WEIGHTS = "model.safetensors"


def edit(path: Path, **changes: Any) -> None:
    """Change or add entries of a file of JSON; None removes one."""
    content = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    content |= changes
    kept = {name: value for name, value in content.items() if value is not None}
    path.write_text(json.dumps(kept), encoding="utf-8")


def remove(*names: str) -> Callable[[Path], None]:
    """A function that removes files of a folder."""

    def of(folder: Path) -> None:
        for name in names:
            (folder / name).unlink()

    return of


def rename(old: str, new: str) -> Callable[[Path], None]:
    """A function that renames a file of a folder."""

    def of(folder: Path) -> None:
        (folder / new).parent.mkdir(exist_ok=True)
        (folder / old).rename(folder / new)

    return of


def change(name: str, **changes: Any) -> Callable[[Path], None]:
    """A function that edits a file of JSON in a folder."""
    return lambda folder: edit(folder / name, **changes)


def add_adapter(kind: str | None) -> Callable[[Path], None]:
    """A function that writes an adapter beside a model."""

    def of(folder: Path) -> None:
        edit(folder / ADAPTER, peft_type=kind)
        save_file({"a": torch.ones(1)}, folder / "adapter_model.safetensors")

    return of


def make_adapter_alone(folder: Path) -> None:
    """The model goes into the folder `base`, and an adapter of LoRA that changes nothing stays."""
    (folder / "base").mkdir()
    for path in sorted(folder.iterdir()):
        if path.is_file():
            path.rename(folder / "base" / path.name)
    targets = {"target_modules": ["query"], "r": 1, "lora_alpha": 1}
    edit(folder / ADAPTER, peft_type="LORA", **targets)
    name = "base_model.model.encoder.layer.0.attention.self.query.lora_{}.weight"
    tensors = {name.format("A"): torch.zeros(1, 32), name.format("B"): torch.zeros(32, 1)}
    save_file(tensors, folder / "adapter_model.safetensors")


def revision_of_base(folder: Path) -> None:
    make_adapter_alone(folder)
    edit(folder / ADAPTER, base_model_name_or_path="someone/model", revision="v2")


def incomplete_base(folder: Path) -> None:
    make_adapter_alone(folder)
    (folder / "empty").mkdir()
    edit(folder / ADAPTER, base_model_name_or_path=str(folder / "empty"))


def name_base(folder: Path) -> None:
    edit(folder / ADAPTER, base_model_name_or_path=str(folder / "base"))


def double(folder: Path) -> None:
    """Two names of one tensor, with different values."""
    tensors = load_file(folder / WEIGHTS)
    name = "embeddings.LayerNorm.weight"
    twin = {"embeddings.LayerNorm.gamma": tensors[name] + 1}
    save_file(tensors | twin, folder / WEIGHTS)


def halve(folder: Path) -> None:
    tensors = load_file(folder / WEIGHTS)
    del tensors["embeddings.LayerNorm.gamma"]
    save_file(tensors, folder / WEIGHTS)


def store(content: Callable[[dict[str, torch.Tensor]], Any]) -> Callable[[Path], None]:
    """A function that stores the weights, or something that is made of them, with torch.save."""

    def of(folder: Path) -> None:
        torch.save(content(load_file(folder / WEIGHTS)), folder / "pytorch_model.bin")
        (folder / WEIGHTS).rename(folder.parent / WEIGHTS)

    return of


def convert(folder: Path) -> None:
    """Only whoever trusts a pickle opens it. Here its tensors are at hand."""
    (folder / "pytorch_model.bin").unlink()
    (folder.parent / WEIGHTS).rename(folder / WEIGHTS)


def store_state(folder: Path) -> None:
    path = folder / "pytorch_model.bin"
    torch.save(torch.load(path, weights_only=True)[0], path)


def two_variants(folder: Path) -> None:
    shutil.copy(folder / WEIGHTS, folder / "first.safetensors")
    (folder / WEIGHTS).rename(folder / "second.safetensors")


def edit_recorded(folder: Path) -> None:
    """An edit by hand of a file that minBERT has written."""
    BertModel.from_pretrained(folder).save_pretrained(folder)
    edit(folder / CONFIG, note="mine")


def unlist_config(folder: Path) -> None:
    record = folder / RECORD_FILE
    lines = record.read_text().splitlines(keepends=True)
    record.write_text("".join(line for line in lines if not line.endswith(f" {CONFIG}\n")))


def early_layout(folder: Path) -> None:
    """A folder of an early sentence-transformers."""
    shutil.copytree(folder, folder / "0_BERT")
    (folder / CONFIG).write_text('{"__version__": "0.2.0"}')


def move_weights(folder: Path) -> None:
    """The folder of another program, which holds the whole model one level below."""
    shutil.copytree(folder, folder / "inner")
    (folder / WEIGHTS).unlink()


def in_folder(name: str) -> Callable[[Path], Path]:
    return lambda folder: folder / name


class Case(NamedTuple):
    """A damage, words of the message, and how to follow them.

    mend: what the message asks for. It may return another path to open.
    """

    damage: Callable[[Path], None]
    words: str
    mend: Callable[[Path], Path | None]
    opened: str = ""  # in the folder


CASES = {
    "an adapter of another library": Case(
        add_adapter(None),
        "Move it and its weights elsewhere",
        remove(ADAPTER, "adapter_model.safetensors"),
    ),
    "an adapter of another kind": Case(
        add_adapter("IA3"),
        "Move it and its weights elsewhere",
        remove(ADAPTER, "adapter_model.safetensors"),
    ),
    "an adapter without its settings": Case(
        rename(WEIGHTS, "adapter_model.safetensors"),
        "Fetch that file, too, or move",
        rename("adapter_model.safetensors", WEIGHTS),
    ),
    "settings of an adapter that is not there": Case(
        change(ADAPTER, peft_type="LORA"), "move {adapter_config.json} elsewhere", remove(ADAPTER)
    ),
    "an adapter that names no base": Case(
        make_adapter_alone, "names no base_model_name_or_path. Write the", name_base
    ),
    "a revision of the base": Case(
        revision_of_base, "write its folder as base_model_name_or_path", name_base
    ),
    "a base that is no model": Case(incomplete_base, "Write a complete model's folder", name_base),
    "two files of weights": Case(
        two_variants,
        "Rename the one that is meant to {model.safetensors}",
        rename("first.safetensors", WEIGHTS),
    ),
    "weights of another name": Case(
        rename(WEIGHTS, "weights.safetensors"),
        "rename it to {model.safetensors}",
        rename("weights.safetensors", WEIGHTS),
    ),
    "a file in the place of its folder": Case(
        lambda folder: None, "Give the folder that holds it", in_folder(""), opened=WEIGHTS
    ),
    "a folder without a model": Case(
        lambda folder: (folder / "none").mkdir(), "Check the path.", in_folder(""), opened="none"
    ),
    "weights in a folder of their own": Case(
        move_weights, "Give the folder {inner} in it, if that is the model.", in_folder("inner")
    ),
    "the folder above": Case(
        lambda folder: shutil.copytree(folder, folder / "inner" / "model"),
        "Did you mean",
        in_folder("inner/model"),
        opened="inner",
    ),
    "an early sentence-transformers": Case(early_layout, "Give that folder", in_folder("0_BERT")),
    "a class of another model": Case(
        change(CONFIG, architectures=["XModel"], model_type=None),
        'Add "model_type": {bert or distilbert}',
        change(CONFIG, model_type="bert"),
    ),
    "an edited file": Case(edit_recorded, "delete the line of {config.json}", unlist_config),
    "a tensor by two names": Case(
        double, "with different values. Delete the one that is not meant", halve
    ),
    "more than tensors": Case(
        store(lambda tensors: (tensors, Path("note"))), "Convert it to model.safetensors", convert
    ),
    "no table of tensors": Case(
        store(lambda tensors: [tensors]), "Store what model.state_dict() returns", store_state
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_advice_that_is_followed_works(tiny_model, tmp_path, name):
    case = CASES[name]
    folder = shutil.copytree(tiny_model, tmp_path / "model")
    case.damage(folder)
    with pytest.raises(ValueError) as caught:
        BertModel.from_pretrained(folder / case.opened)
    assert shown(case.words) in str(caught.value)

    mended = case.mend(folder) or folder
    tensors = BertModel.from_pretrained(mended).state_dict()
    for key, tensor in BertModel.from_pretrained(tiny_model).state_dict().items():
        assert torch.equal(tensors[key], tensor), key


def test_an_adapter_alone_leaves_no_model(tiny_model, tmp_path):
    folder = shutil.copytree(tiny_model, tmp_path / "model")
    make_adapter_alone(folder)
    edit(folder / ADAPTER, peft_type="IA3")
    with pytest.raises(ValueError, match="peft applies this one.$"):
        BertModel.from_pretrained(folder)


def test_advice_on_the_pooling_of_an_encoder(tmp_path):
    save_pooling(tmp_path, "mean")
    with pytest.raises(ValueError, match="Pass --pooling mean"):
        check_pooling(tmp_path, "cls")
    check_pooling(tmp_path, "mean")

    path = tmp_path / "sentence.json"
    path.write_text('{"pooling": "middle"}')
    (tmp_path / RECORD_FILE).unlink()
    with pytest.raises(ValueError, match="Delete the file to use the model with any pooling"):
        check_pooling(tmp_path, "cls")
    path.unlink()
    check_pooling(tmp_path, "cls")


def test_a_model_is_not_saved_beside_an_adapter(tiny_model, tmp_path):
    model = BertModel.from_pretrained(tiny_model)
    add_adapter("LORA")(tmp_path)
    with pytest.raises(ValueError, match="Save them into another folder"):
        model.save_pretrained(tmp_path)
    model.save_pretrained(tmp_path / "other")
    BertModel.from_pretrained(tmp_path / "other")
