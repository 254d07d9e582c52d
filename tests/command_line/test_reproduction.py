"""command_line/reproduction.py: the command of a finished run gives its options again."""

import shlex

import pytest

from command_line.automatic import Choice, resolve
from command_line.options import Options
from command_line.parser import options_of, parse
from command_line.reproduction import command_of
from experiments.recipes import RECIPES

TICKETS = "name=tickets,train=a b.csv,text=message,label=team,labels=no|it's"
FLAGS = {
    "default": {"pretrain": "simcse"},
    "rows": {"train_rows": "sst=3", "drop_bad_rows": True, "layer_decay": 0.9},
    "task": {"task": (TICKETS, "name=b,train=b.csv"), "tasks": "sst,tickets,b"},
    "files": {"sst_dev": "-1.csv", "data_dir": "my data", "tasks": "sst"},
    "fusion": {"pretrain": "mlm,simcse", "contrastive_order": "fusion"},
    "frozen": {"option": "pretrain", "sampling": "joint", "surgery": "pcgrad"},
    "cosine": {"head": "cosine", "para_head": "features", "sts_range": "fitted"},
    "one task": {"tasks": "sts", "untrained_tasks": "sst"},
}


def resolved(options: Options) -> Options:
    """What a run on a CPU makes of the options."""
    return resolve(options, 192, Choice("cpu", ""), Choice("fp32", ""))[0]


def parsed(command: str) -> Options:
    program, script, *flags = shlex.split(command.replace("\\\n", " "))
    assert (program, script) == ("python", "run_multitask.py")
    options, folder = parse(flags)
    assert folder is None
    return options


@pytest.mark.parametrize("name", FLAGS)
def test_the_command_gives_the_same_options(name):
    options = resolved(options_of(FLAGS[name]))
    again = parsed(command_of(options))
    assert again == options
    assert resolved(again) == options, "nothing is left to choose"


@pytest.mark.parametrize("recipe", [*RECIPES][:4])
def test_a_recipe_is_written_out(recipe):
    """A flag beside the recipe that has the default's value would be lost otherwise."""
    options = resolved(
        options_of({"recipe": recipe, "epochs": Options().multitask.fine_tuning.epochs})
    )
    assert parsed(command_of(options)) == options.with_values(recipe="none")


def test_the_place_and_the_usual_files_are_left_out():
    options = options_of({"name": "mine", "output_dir": "there", "data_dir": "d", "seed": 5})
    assert command_of(options) == "python run_multitask.py \\\n    --data_dir d \\\n    --seed 5"
