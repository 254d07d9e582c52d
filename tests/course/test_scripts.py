"""Scripts in the shape of a course's starter run with only their import lines changed.

tests/course/scripts holds them. tests/lessons/test_layers.py and test_optimizer.py compare the
numbers more closely.
"""

from __future__ import annotations

import runpy
import sys
import zipfile
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from course import cs224n_2023, cs224n_2024
from course.datasets import (
    SentenceClassificationDataset,
    SentencePairDataset,
    load_multitask_data,
)
from course.evaluation import answer
from minbert import BertConfig, BertModel, BertTokenizer
from multitask.prediction_files import read_predictions
from multitask.tasks import TASKS
from tests.conftest import sample_vocabulary, write_cut

SCRIPTS = Path(__file__).parent / "scripts"
NAME = "bert-base-uncased"
OPTIMIZER_REFERENCE = [[0.55482787, 0.86665666, 0.07291982], [-0.44724506, -0.2951228, -0.2717272]]


def run(name: str, *flags: str) -> dict:
    """Run a script in the working folder. Returns its names."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [name, *flags])
        return runpy.run_path(str(SCRIPTS / name), run_name="__main__")


# --- the two checks -------------------------------------------------------------------------------


def small_model(folder: Path):
    """A folder called bert-base-uncased, made by transformers: 2 layers, 24 units, dropout."""
    import transformers

    config = transformers.BertConfig(
        hidden_size=24, num_hidden_layers=2, num_attention_heads=4, intermediate_size=40
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = transformers.BertModel(config)
    model.save_pretrained(folder / NAME)
    return model


def cached_model(folder: Path):
    """The real one, as transformers loads it."""
    import transformers
    from huggingface_hub import try_to_load_from_cache

    if not isinstance(try_to_load_from_cache(NAME, "config.json"), str):
        pytest.skip(f"{NAME} is not in the Hugging Face cache of this machine")
    return transformers.BertModel.from_pretrained(NAME, attn_implementation="eager")


@pytest.fixture
def make_model():
    return small_model


@pytest.fixture
def reference(make_model, tmp_path, monkeypatch):
    """The outputs of a model of transformers, which sanity_check.data holds, too."""
    reason = "transformers is the reference; run setup.sh --dev"
    pytest.importorskip("transformers", reason=reason)
    model = make_model(tmp_path).eval()
    ids = torch.tensor(
        [[101, 7592, 2088, 102, 0, 0, 0, 0], [101, 7592, 15756, 2897, 2005, 17953, 2361, 102]]
    )
    with torch.no_grad():
        outputs = dict(model(ids, (ids > 0).long()))
    torch.save(outputs, tmp_path / "sanity_check.data")
    monkeypatch.chdir(tmp_path)
    return outputs


@pytest.mark.parametrize("make_model", [small_model, cached_model])
def test_sanity_check(reference):
    """The script never calls eval(), and assigns the masked output by its key. Both must work.

    The assertions are those of the script. The next two tests show that they can fail.
    """
    run("sanity_check.py")


def test_a_model_in_training_mode_would_fail_the_sanity_check(reference, monkeypatch):
    """Negative control: with dropout the same call is far off."""
    load = BertModel.from_pretrained
    monkeypatch.setattr(BertModel, "from_pretrained", lambda name: load(name).train())
    with pytest.raises(AssertionError, match=r"last_hidden_state"):
        run("sanity_check.py")


def test_the_sanity_check_fails_on_other_numbers(reference):
    """Negative control."""
    reference["pooler_output"][0, 0] += 0.01
    torch.save(reference, "sanity_check.data")
    with pytest.raises(AssertionError, match="pooler_output"):
        run("sanity_check.py")


def test_optimizer_test(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("optimizer_test.npy", np.array(OPTIMIZER_REFERENCE, dtype=np.float32))
    names = run("optimizer_test.py")

    def uncorrected(*arguments, **options):
        return cs224n_2024.AdamW(*arguments, **{**options, "correct_bias": False})

    # Negative control: the tolerance does tell two optimizers apart.
    weight = names["test_optimizer"](uncorrected)
    assert not torch.allclose(names["ref"], weight, atol=1e-6, rtol=1e-4)


# --- the multitask script -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def project(controlled_data, tmp_path_factory):
    """A student's folder after the script has trained: data, a model of 768 units, predictions."""
    folder = tmp_path_factory.mktemp("project")
    write_cut(controlled_data, folder / "data", 8, 16)
    (folder / "predictions").mkdir()
    tokens = sample_vocabulary(controlled_data)
    config = BertConfig(
        vocab_size=len(tokens),
        hidden_size=768,
        num_hidden_layers=1,
        num_attention_heads=12,
        intermediate_size=16,
        max_position_embeddings=64,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        BertModel(config).save_pretrained(folder / NAME)
        BertTokenizer(dict(zip(tokens, range(len(tokens)), strict=True))).save_pretrained(
            folder / NAME
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            names = run("multitask_classifier.py", "--epochs", "1", "--lr", "1e-3")
    return folder, names


@pytest.fixture
def in_project(project, monkeypatch):
    folder, names = project
    monkeypatch.chdir(folder)
    return SimpleNamespace(folder=folder, **names)


def loaders_of(script) -> list[DataLoader]:
    """The three dev loaders of the script."""
    sst, _, para, sts = load_multitask_data(
        script.args.sst_dev, script.args.para_dev, script.args.sts_dev, split="dev"
    )
    return [
        script.loader_of(script.SentenceClassificationDataset(sst, script.args), script.args),
        script.loader_of(script.SentencePairDataset(para, script.args), script.args),
        script.loader_of(SentencePairDataset(sts, script.args, isRegression=True), script.args),
    ]


def model_of(script) -> torch.nn.Module:
    """The model that the script has saved."""
    saved = torch.load(script.args.filepath, weights_only=True)
    model = script.MultitaskBERT(saved["model_config"])
    model.load_state_dict(saved["model"])
    return model


def test_the_script_writes_six_files_that_the_leaderboard_reads(in_project):
    for task in TASKS.values():
        for split in ("dev", "test"):
            path = in_project.folder / "predictions" / f"{task.name}-{split}-output.csv"
            assert len(read_predictions(path, task)) == 8


def test_the_checkpoint_holds_all_that_the_script_saved(in_project):
    saved = torch.load(in_project.args.filepath, weights_only=True)
    assert saved["args"].seed == 11711 and isinstance(saved["args"], Namespace)
    assert saved["model_config"].fine_tune_mode == "last-linear-layer"
    assert len(saved["numpy_rng"][1]) == 624


def test_our_evaluation_agrees_with_plain_loops(in_project, monkeypatch):
    """scripts/evaluation.py computes the same with numpy alone."""
    plain = runpy.run_path(str(SCRIPTS / "evaluation.py"))["model_eval_multitask"]
    model = model_of(in_project)
    loaders = loaders_of(in_project)
    expected = plain(*loaders, model, "cpu")
    of_2024 = cs224n_2024.model_eval_multitask(*loaders, model, "cpu")
    of_2023 = cs224n_2023.model_eval_multitask(*loaders, model, "cpu")
    for position, number in enumerate(expected):
        other = (position + 3) % 6 if position < 6 else position
        for actual in (of_2024[position], of_2023[other]):
            if position % 3 == 2:
                assert list(actual) == list(number)
            else:
                np.testing.assert_allclose(actual, number, rtol=1e-5)


def test_the_order_of_2023_for_test_files(in_project):
    model = model_of(in_project)
    loaders = loaders_of(in_project)
    of_2024 = cs224n_2024.model_eval_test_multitask(*loaders, model, "cpu")
    of_2023 = cs224n_2023.model_eval_test_multitask(*loaders, model, "cpu")
    assert of_2023[1] == of_2024[3] and of_2023[3] == of_2024[1] and of_2023[5] == of_2024[5]


def test_the_function_of_2023_writes_the_same_six_files(in_project, tmp_path):
    """test_model_multitask(args, model, device) of 2023."""
    args = Namespace(**vars(in_project.args))
    for task in TASKS:
        for split in ("dev", "test"):
            setattr(args, f"{task}_{split}_out", str(tmp_path / f"{task}-{split}-output.csv"))
    cs224n_2023.test_model_multitask(args, model_of(in_project), "cpu")
    for task in TASKS.values():
        for split in ("dev", "test"):
            name = f"{task.name}-{split}-output.csv"
            ours = read_predictions(tmp_path / name, task)
            theirs = read_predictions(in_project.folder / "predictions" / name, task)
            assert ours == pytest.approx(theirs, rel=1e-5)


def test_our_zip_is_that_of_prepare_submit(in_project):
    from course.submit import main

    (in_project.folder / "bert.py").write_text("# mine\n")
    run("prepare_submit.py")
    name = "cs224n_default_final_project_submission.zip"
    assert main([".", "--data-dir", "data", "--out", "ours.zip"]) == 0
    with zipfile.ZipFile(name) as theirs, zipfile.ZipFile("ours.zip") as ours:
        assert sorted(theirs.namelist()) == sorted(ours.namelist())
        assert all(theirs.read(name) == ours.read(name) for name in ours.namelist())


# --- the data sets --------------------------------------------------------------------------------


def test_blanks_around_marks_change_no_token(in_project):
    """The course puts blanks around marks. Our rows leave them as they are."""
    tokenizer = BertTokenizer.from_pretrained(NAME)
    text = "is it good, or isn't it? yes."
    spaced = "is it good , or isn 't it ? yes ."
    assert tokenizer(text).input_ids.tolist() == tokenizer(spaced).input_ids.tolist()


def test_a_batch_of_pairs(in_project):
    rows = [("one", "two three", 2.5, "a"), ("four five six", "one", 4.0, "b")]
    batch = SentencePairDataset(rows, isRegression=True).collate_fn(rows)
    assert batch["labels"].dtype == torch.float64 and batch["labels"].tolist() == [2.5, 4.0]
    assert batch["sent_ids"] == ["a", "b"]
    names = ("token_ids", "token_type_ids", "attention_mask")
    for number in (1, 2):
        shapes = {batch[f"{name}_{number}"].shape for name in names}
        assert len(shapes) == 1
    with pytest.raises(ValueError, match="isRegression=True"):
        SentencePairDataset(rows).collate_fn(rows)


def test_the_rows_of_a_file(in_project):
    args = in_project.args
    sst, num_labels, para, sts = load_multitask_data(args.sst_dev, args.para_dev, args.sts_dev)
    sentence, label, row_id = sst[0]
    assert sentence == sentence.lower() and type(label) is int and row_id
    assert sorted(num_labels.values()) == list(range(len(num_labels)))
    assert set(num_labels) == {row[1] for row in sst}
    assert type(para[0][2]) is int and type(sts[0][2]) is float
    test_rows, none, *_ = load_multitask_data(
        args.sst_test, args.para_test, args.sts_test, split="test"
    )
    assert not none and len(test_rows[0]) == 2


def test_the_texts_of_the_test_files_of_2023(in_project):
    args = in_project.args
    sst, _, para, sts = load_multitask_data(args.sst_test, args.para_test, args.sts_test, "test")
    sentences, pairs, similar = cs224n_2023.load_multitask_test_data()
    assert sentences == [row[0] for row in sst] and len(sentences) == 8
    assert pairs == [row[:-1] for row in para] and similar == [row[:-1] for row in sts]


def test_args_name_the_encoder_whose_tokenizer_is_opened(in_project):
    """Ids of another vocabulary would be words of their own, without any error."""
    rows = [("a lovely film", 4, "a")]
    args = Namespace(**vars(in_project.args), model_name_or_path="minbert-mini")
    batch = SentenceClassificationDataset(rows, args).collate_fn(rows)
    expected = BertTokenizer.from_pretrained("minbert-mini")(["a lovely film"]).input_ids
    assert batch["token_ids"].tolist() == expected.tolist()
    # The negative control: without the name, the folder bert-base-uncased beside the script.
    batch = SentenceClassificationDataset(rows, in_project.args).collate_fn(rows)
    assert batch["token_ids"].tolist() != expected.tolist()
    args.model_name_or_path = "./no-such-folder"
    with pytest.raises(ValueError, match=r"no such folder.* set args\.model_name_or_path"):
        SentenceClassificationDataset(rows, args)


def test_the_model_stays_in_evaluation_mode(in_project):
    model = model_of(in_project).train()
    answer("sst", loaders_of(in_project)[0], model, "cpu")
    assert not model.training
