"""The flags of the courses' own scripts, in our words. No torch here.

Most of them are flags of run_multitask.py already: --option, --use_gpu, --hidden_dropout_prob,
--sst_train and so on. The others are translated before the command line is parsed. A flag that
cannot do here what it does there is refused with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from data.task_specs import BUILT_IN

# CS224N 2024 and later, and the course of CMU, have other words for --option.
FINE_TUNE_MODES = {"last-linear-layer": "pretrain", "full-model": "finetune"}
OPTIONS_OF_CMU = {"freeze": "pretrain"}
# The tasks of the course of Goettingen.
TASKS_OF_GOETTINGEN = {"sst": "sst", "qqp": "para", "sts": "sts", "multitask": "sst,para,sts"}
# Flags of classifier.py, which trains one task. Ours begin with its name, such as --sst_train.
SINGLE_TASK_FLAGS = ("train", "dev", "test", "dev_out", "test_out")

# Flags that have no counterpart, and what to do instead.
REFUSED = {
    "local_files_only": "the model is looked up in the cache first, and nothing is downloaded with "
    "HF_HUB_OFFLINE=1 before the command. Drop the flag.",
    "lr_pretrain": "there is one learning rate, for the mode of --option. Pass --lr.",
    "lr_finetune": "there is one learning rate, for the mode of --option. Pass --lr.",
    "cuda": "the number of a GPU is chosen by CUDA_VISIBLE_DEVICES before the command. Pass "
    "--use_gpu, or --device cpu for a negative number.",
    "etpc_train": "paraphrase types (ETPC) are a task of BART, which is not part of minBERT.",
    "etpc_dev": "paraphrase types (ETPC) are a task of BART, which is not part of minBERT.",
    "etpc_test": "paraphrase types (ETPC) are a task of BART, which is not part of minBERT.",
    "model_size": "GPT-2, the project of CS224N 2025, is another task. minBERT has encoders only.",
}


def translate(words: Sequence[str]) -> list[str]:
    """A command line with our flags in place of those of a course.

    words: such as --fine-tune-mode full-model. Raises ValueError for a flag that is refused, with
    the reason and what to do.
    """
    translated: list[str] = []
    position = 0
    while position < len(words):
        word = words[position]
        name, equals, value = word.removeprefix("--").partition("=")
        name = name.replace("-", "_")
        has_next = not equals and position + 1 < len(words)
        if has_next:
            value = words[position + 1]
        replaced = replacement(word, name, value, words)
        if replaced is None:
            translated.append(word)
            position += 1
        else:
            translated += replaced
            position += 2 if has_next else 1
    return translated


def replacement(word: str, name: str, value: str, words: Sequence[str]) -> list[str] | None:
    """Our words for a flag of a course and its value, or None where it is no such flag.

    name: of the flag, with _. words: the whole command line.
    """
    if not word.startswith("--"):
        return None
    if name in REFUSED:
        raise ValueError(f"--{name} is a flag of a course's script; {REFUSED[name]}")
    readers: dict[str, Callable[[str], list[str] | None]] = {
        "fine_tune_mode": lambda value: fine_tune_mode(value, words),
        "option": option,
        "task": lambda value: task(value, words),
    }
    if name in readers:
        return readers[name](value)
    if name in SINGLE_TASK_FLAGS:
        trained = only_task(name, words)
        return [f"--{trained}_{name}", value]
    # Goettingen calls PARA by the name of its source.
    if name.startswith("quora_"):
        return [f"--para_{name.removeprefix('quora_')}", value]
    return None


def fine_tune_mode(value: str, words: Sequence[str]) -> list[str]:
    """--fine-tune-mode of CS224N 2024 as --option."""
    if value not in FINE_TUNE_MODES:
        raise ValueError(
            f"--fine-tune-mode is '{value}'; it is one of {', '.join(FINE_TUNE_MODES)}."
        )
    if any(flag_of(word) == "option" for word in words):
        raise ValueError("--option and --fine-tune-mode say the same thing; pass only one of them.")
    return ["--option", FINE_TUNE_MODES[value]]


def option(value: str) -> list[str] | None:
    """--option freeze of CMU."""
    return ["--option", OPTIONS_OF_CMU[value]] if value in OPTIONS_OF_CMU else None


def task(value: str, words: Sequence[str]) -> list[str] | None:
    """--task of Goettingen. Our own --task has key=value."""
    if value == "etpc":
        raise ValueError(f"--task etpc: {REFUSED['etpc_train']}")
    if value not in TASKS_OF_GOETTINGEN:
        return None
    if any(flag_of(word) == "tasks" for word in words):
        raise ValueError(
            f"--task {value} means --tasks {TASKS_OF_GOETTINGEN[value]}, and --tasks is there, "
            "too. Pass only one of them."
        )
    return ["--tasks", TASKS_OF_GOETTINGEN[value]]


def only_task(name: str, words: Sequence[str]) -> str:
    """The one task that a command line trains, for --train and its like of classifier.py.

    Raises ValueError where --tasks does not name one built-in task.
    """
    tasks = ""
    for position, word in enumerate(words):
        if flag_of(word) == "tasks":
            following = [*words[position + 1 :], ""][0]
            tasks = word.partition("=")[2] or following
    if tasks not in BUILT_IN:
        raise ValueError(
            f"--{name} is a flag of classifier.py, which trains one task. Add --tasks sst or "
            f"--tasks cfimdb, or name the task in the flag: --sst_{name}."
        )
    return tasks


def flag_of(word: str) -> str:
    """The name of a flag with _, or "" for a word that is none."""
    if not word.startswith("--"):
        return ""
    return word.removeprefix("--").partition("=")[0].replace("-", "_")
