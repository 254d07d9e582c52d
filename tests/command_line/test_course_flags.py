"""command_line/course_flags.py: each flag of a course does what it says, or is refused."""

from __future__ import annotations

import pytest

from command_line.course_flags import translate
from command_line.options import Options
from command_line.parser import parse
from tests.toy_options import SPLITS, options_of, refusal


@pytest.mark.parametrize(
    "line, ours",
    [
        ("--fine-tune-mode full-model", "--option finetune"),
        ("--fine_tune_mode=last-linear-layer", "--option pretrain"),
        ("--option freeze", "--option pretrain"),
        ("--option finetune", "--option finetune"),
        ("--task multitask", "--tasks sst,para,sts"),
        ("--task=qqp", "--tasks para"),
        ("--quora_train a.csv --quora-dev-out=b.csv", "--para_train a.csv --para_dev_out b.csv"),
        (
            "--tasks cfimdb --train a --dev_out b",
            "--tasks cfimdb --cfimdb_train a --cfimdb_dev_out b",
        ),
        ("--dev a --tasks=sst", "--sst_dev a --tasks=sst"),
    ],
)
def test_a_flag_in_our_words(line, ours):
    assert translate(line.split()) == ours.split()


@pytest.mark.parametrize(
    "line",
    [
        "--option finetune --use_gpu --hidden_dropout_prob 0.3 --lr 1e-5 --seed 3 --epochs 2",
        "--train_rows sst=20 --task name=a,train=b.csv --tasks a --model full-model",
        "--resume runs/a",
        "--no-such-flag 3",
    ],
)
def test_other_words_stay_as_they_are(line):
    assert translate(line.split()) == line.split()


def test_a_whole_command_line_of_2024():
    files = {name: f"my/{name}.csv" for name in SPLITS}
    words = [
        "--fine-tune-mode",
        "last-linear-layer",
        "--use_gpu",
        "--batch_size",
        "8",
        "--lr",
        "1e-3",
    ]
    for name, path in files.items():
        words += [f"--{name}", path]
    values = options_of(*words).flat()
    assert values["option"] == "pretrain" and values["use_gpu"] and values["lr"] == 1e-3
    assert {name: values[name] for name in files} == files


def test_a_whole_command_line_of_goettingen():
    words = "--task sts --option finetune --sts_dev_out mine.csv --hidden_dropout_prob 0.3"
    assert (
        options_of(*words.split())
        == Options.of(
            tasks="sts", option="finetune", sts_dev_out="mine.csv", hidden_dropout_prob=0.3
        ).with_files()
    )


@pytest.mark.parametrize(
    "line, cause",
    [
        ("--fine-tune-mode all", "--fine-tune-mode is 'all'; it is one of last-linear-layer"),
        ("--fine-tune-mode full-model --option finetune", "say the same thing"),
        ("--train a.csv", "classifier.py, which trains one task. Add --tasks sst"),
        ("--tasks sst,sts --test a.csv", "or name the task in the flag: --sst_test"),
        ("--task qqp --tasks sst", "--task qqp means --tasks para"),
        ("--task etpc", "a task of BART"),
        ("--local_files_only", "HF_HUB_OFFLINE=1"),
        ("--lr_finetune 1e-5", "Pass --lr"),
        ("--cuda 1", "Pass --use_gpu"),
        ("--etpc_train a.csv", "a task of BART"),
        ("--model_size gpt2", "GPT-2, the project of CS224N 2025, is another task"),
    ],
)
def test_a_refusal_names_the_cause(line, cause, capsys):
    assert cause in refusal(capsys, *line.split())


def test_the_words_of_the_process_are_read(monkeypatch):
    monkeypatch.setattr("sys.argv", ["run_multitask.py", "--fine-tune-mode", "last-linear-layer"])
    options, _ = parse()
    assert options.multitask.fine_tuning.option == "pretrain"
