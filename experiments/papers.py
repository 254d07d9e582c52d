"""Trains and measures rows of the papers over seeds: `python -m experiments.papers NAME...`.

A row is a recipe in paper_recipes.py. For each recipe and seed, contrastive.train trains its
stage in OUT/NAME-seedSEED, and contrastive.quality measures the encoder. Both run in a process of
their own, whose output goes to a .log file beside the folder. `python -m experiments NAME...` does
the same where NAME is one of these recipes.

What is finished is not done again, so the same command continues a series that was stopped. At the
end it prints n, the mean, its interval over the seeds, and the published figure in brackets.
It writes this table to OUT/papers.md.
"""

from __future__ import annotations

import itertools
import json
import shlex
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from contrastive.train.parser import new_run
from data.options import SAMPLE
from experiments.paper_recipes import (
    AVERAGE,
    RECIPES,
    PaperRecipe,
    find_recipe,
    paper_name,
)
from experiments.recipes import COMPARISONS
from experiments.recipes import RECIPES as RECIPES_OF_TASKS
from experiments.records import RECORDS, add_records, without_folders
from experiments.series import advice_after, parse_seeds, run_process
from experiments.tables import format_head, format_row
from minbert.commands.ending import exit_code
from minbert.commands.files import digest_of_file, read_json, write_json, write_text
from minbert.commands.flags import parse_command
from minbert.commands.options import CommandOptions, argument, positional
from minbert.commands.outputs import Output, begins_with, check_outputs
from minbert.options import EncoderOptions
from minbert.reporting import terminal
from minbert.training.code_version import code_version
from multitask.differences import estimate_over_seeds

PROGRAM = "python -m experiments.papers"
DESCRIPTION = "Trains and measures rows of the papers [BSC], [CT] and [SG] over several seeds."
RECORD_FILE = "papers"
COPIES = ("first", "second")
# The kinds of sentence vectors that are a pooling of contrastive.quality.
POOLINGS = {"[CLS]": "cls", "mean": "mean"}
SWITCHES = ("--record", "--layers")
TABLE_START = "| recipe |"
WEIGHTS_SUFFIXES = (".safetensors", ".bin")
ABOUT_TABLE = (
    "Each number is the mean over the seeds with its interval. In round brackets: the "
    "published figure. STS sets have Spearman's correlation over all rows."
)


@dataclass(frozen=True)
class PapersOptions(CommandOptions):
    """The command line of this command."""

    names: tuple[str, ...] = positional("NAME...", "recipes; --list shows all", is_required=False)
    list_: bool = argument(False, "show all recipes, and stop")
    model: str = argument(
        EncoderOptions().model, "the encoder to start from; the papers took bert-base-uncased"
    )
    seeds: str = argument("0,1,2", "separated by commas")
    sets: tuple[Path, ...] = argument((), "STS files, as in contrastive.quality", "FILE...")
    pairs: tuple[Path, ...] = argument((), "labelled pairs to classify, as there", "FILE...")
    pairs_dev: tuple[Path, ...] = argument((), "pairs for their thresholds, as there", "FILE...")
    ranking: tuple[Path, ...] = argument((), "answers to rank, as there", "FILE...")
    senteval: Path | None = argument(None, "data folder of SentEval, as there", "DIR")
    classifier: str = argument("logistic", "of --senteval", choices=("logistic", "mlp"))
    rows: int = argument(0, "rows of each measured file at most, as there. 0: all", low=0)
    layers: bool = argument(
        False, "also every hidden state, on the first of --sets, as there; a record keeps them"
    )
    text: tuple[str, ...] = argument(
        (), "the text of recipes that need one: files, as in contrastive.train", "TEXT..."
    )
    data_dir: Path = argument(Path(SAMPLE), "folder of the course's files", "DIR")
    out: Path = argument(Path("runs/papers"), "folder of all runs", "DIR")
    with_: str = argument(
        "",
        "flags of contrastive.train for every run, in quotes and after an equals sign: "
        "--with='--steps 2000'",
        "'FLAGS'",
    )
    record: bool = argument(False, f"add each result to experiments/records/{RECORD_FILE}.jsonl")

    @property
    def recipes(self) -> dict[str, PaperRecipe]:
        """The recipes of NAME."""
        return {name: find_recipe(name) for name in self.names}

    @property
    def train_flags(self) -> list[str]:
        """The words of --with."""
        return shlex.split(self.with_)

    def quality_flags(self) -> list[str]:
        """What is measured, as flags of contrastive.quality."""
        words: list[str] = []
        files = {
            "--sets": self.sets,
            "--pairs": self.pairs,
            "--pairs-dev": self.pairs_dev,
            "--ranking": self.ranking,
        }
        for name, paths in files.items():
            words += [name, *map(str, paths)] if paths else []
        if self.rows and (self.sets or self.pairs):
            words += ["--rows", str(self.rows)]
        words += ["--layers"] if self.layers else []
        if self.senteval is not None:
            words += ["--senteval", str(self.senteval), "--classifier", self.classifier]
        return words

    def measured_files(self) -> list[Path]:
        """The files on which the encoders are measured."""
        return [*self.sets, *self.pairs, *self.pairs_dev, *self.ranking]

    def check(self) -> None:
        if self.list_:
            return
        if not self.names:
            raise ValueError("NAME is missing; --list shows all recipes.")
        if len(set(self.names)) < len(self.names):
            raise ValueError("a recipe is given twice, and would count twice. Name each one once.")
        for name in self.names:
            if name in RECIPES_OF_TASKS or name in COMPARISONS:
                raise ValueError(
                    f"{name} is a recipe of run_multitask.py. Give it in a command of its own: "
                    f"python -m experiments {name}."
                )
        recipes = self.recipes
        self.check_measured()
        needing = [name for name, recipe in recipes.items() if recipe.needs_text]
        if needing and not self.text:
            raise ValueError(
                f"{needing[0]} is trained on text of your choice: {recipes[needing[0]].about}. Add "
                "--text FILE."
            )
        if self.text and not needing:
            raise ValueError("--text has no effect: these recipes name their text. Drop it.")

    def check_measured(self) -> None:
        """Raise ValueError where the encoders cannot be measured on these files."""
        if not self.quality_flags():
            raise ValueError(
                "there is nothing to measure on; pass --sets FILE..., --pairs FILE..., --ranking "
                "FILE... or --senteval DIR."
            )
        if self.rows and not (self.sets or self.pairs):
            raise ValueError(
                "--rows has no effect without --sets or --pairs. Add one of them, or drop it."
            )
        if self.layers and not self.sets:
            raise ValueError("--layers has no effect without --sets. Add that, or drop it.")
        if self.sets and self.senteval is not None:
            raise ValueError(
                "--sets and --senteval have averages of their own. Measure them in two commands."
            )
        others = [*self.pairs, *self.ranking, *([self.senteval] if self.senteval else [])]
        for name, recipe in self.recipes.items():
            if recipe.vector and recipe.vector not in POOLINGS and (others or not self.sets):
                raise ValueError(
                    f"{name} is a kind of sentence vector that only --sets measures. Measure it in "
                    "a command of its own, with --sets alone."
                )


# --- one run --------------------------------------------------------------------------------------


class Job(NamedTuple):
    """A recipe with a seed. A model that is not trained has only the seed 0."""

    name: str
    recipe: PaperRecipe
    seed: int
    folder: Path

    def train_words(self, options: PapersOptions) -> list[str]:
        """The words of contrastive.train."""
        words = self.recipe.words(options.data_dir, options.text)
        words += ["--model", options.model, "--seed", str(self.seed), "--out", str(self.folder)]
        return [*words, *options.train_flags]

    def encoders(self, options: PapersOptions) -> dict[str, str]:
        """The models to measure, by the name of the copy."""
        if not self.recipe.method:
            return {"": options.model}
        if self.recipe.has_copies:
            return {copy: str(self.folder / f"encoder-{copy}") for copy in COPIES}
        return {"": str(self.folder / "encoder")}


def jobs_of(options: PapersOptions) -> list[Job]:
    """All jobs, seed by seed, so that a series that is stopped has something of every recipe."""
    jobs = []
    for number, seed in enumerate(parse_seeds(options.seeds)):
        for name, recipe in options.recipes.items():
            if recipe.method:
                jobs.append(Job(name, recipe, seed, options.out / f"{name}-seed{seed}"))
            elif number == 0:
                jobs.append(Job(name, recipe, 0, options.out / name))
    return jobs


def train_command(job: Job, options: PapersOptions) -> list[str] | None:
    """The command that brings a training to its end; None where it is finished.

    ValueError where the folder holds a run with other options.
    """
    words = job.train_words(options)
    start = [sys.executable, "-m", "contrastive.train"]
    if not (job.folder / "options.json").is_file():
        return [*start, *words]
    stored = read_json(job.folder / "options.json")["options"]
    asked = json.loads(json.dumps(new_run(words).stored()))
    differing = [name for name in asked if name != "out" and stored.get(name) != asked[name]]
    if differing:
        name = differing[0]
        raise ValueError(
            f"{job.folder} was trained with {name} {stored.get(name)}, and this command asks for "
            f"{asked[name]}. Pass another --out, or the same flags."
        )
    is_finished = (job.folder / "run.json").is_file()
    return None if is_finished else [*start, "--resume", str(job.folder)]


def measure(job: Job, copy: str, model: str, options: PapersOptions) -> dict[str, Any]:
    """The record of contrastive.quality of one encoder. What is measured is not measured again."""
    folder = options.out / "measured" / (f"{job.folder.name}-{copy}" if copy else job.folder.name)
    words = [model, *options.quality_flags()]
    vector = job.recipe.vector
    if vector in POOLINGS:
        words += ["--pooling", POOLINGS[vector]]
    elif vector:
        words.append("--baselines")
    files = {str(path): digest_of_file(path) for path in options.measured_files()}
    # An encoder that was trained again has the same path.
    weights = {}
    for file in sorted(Path(model).glob("*")):
        if file.suffix in WEIGHTS_SUFFIXES:
            weights[file.name] = digest_of_file(file)
    request = {"words": words, "files": files, "weights": weights}
    path = folder / "request.json"
    if not path.is_file() or read_json(path) != request:
        command = [sys.executable, "-m", "contrastive.quality", *words, "--out", str(folder)]
        run(command, folder.with_name(f"{folder.name}.log"))
        # Written last: a measurement that was cut short does not count.
        write_json(path, request)
    return read_json(folder / "quality.json")


def run(command: list[str], log: Path) -> None:
    """Run a command to its end. ValueError where it fails."""
    terminal.doing(f"running, its output in {log}")
    code = run_process(command, log)
    if code:
        raise ValueError(
            f"{shlex.join(command[:4])} ended with code {code}; its message is above, and {log} "
            f"has its output. {advice_after(code)}"
        )


# --- scores ---------------------------------------------------------------------------------------


def scores_in(record: Mapping[str, Any], vector: str) -> dict[str, float]:
    """The scores of a record of contrastive.quality, by the name of the set or task.

    vector: the kind of sentence vector; "" for the encoder's own. ValueError where a set has none.
    """
    scores = {}
    for name, of_set in record["sets"].items():
        kind = vector or next(iter(of_set["vectors"]))
        if kind not in of_set["vectors"]:
            reason = of_set["left_out"].get(kind, "it is no kind of vector there")
            file = of_set["file"]
            raise ValueError(
                f"{file}: there is no {kind} ({reason}). Pass a larger file, or more --rows."
            )
        scores[paper_name(name)] = of_set["vectors"][kind]["all"]["spearman"]
    for name, task in record.get("senteval", {}).items():
        scores[name] = task["accuracy"]
    if len(scores) > 1:
        scores[AVERAGE] = statistics.fmean(scores.values())
    for name, pairs in record.get("pairs", {}).items():
        for title in ("average_precision", "accuracy", "f1"):
            if title in pairs:
                scores[f"{name} {title.replace('_', ' ')}"] = pairs[title]
    for name, ranking in record.get("ranking", {}).items():
        for title in ("MAP", "MRR", "P@1", "nDCG@10"):
            scores[f"{name} {title}"] = ranking[title]
    return scores


def states_in(record: Mapping[str, Any]) -> dict[str, Any]:
    """What --layers adds to a record, of the first set of contrastive.quality.

    "layers": Spearman's correlation of each hidden state, by pooling. "buckets": the mean cosine of
    the sentence vectors in each bucket of labels, None in an empty one.
    """
    of_set = next(iter(record["sets"].values()))
    buckets = []
    for bucket in of_set["buckets"]:
        buckets.append({name: bucket[name] for name in ("low", "high", "rows", "mean")})
    return {"layers": of_set["layers"], "buckets": buckets}


def copies_in_order(scores: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """The scores of two copies as [CT] prints them: the worse one, the better one, their mean.

    The average of the first score's kind decides which copy is the worse one. "difference" is that
    of the pair ([CT] table 7).
    """
    key = AVERAGE if AVERAGE in scores[COPIES[0]] else next(iter(scores[COPIES[0]]))
    worse, better = sorted(scores.values(), key=lambda of_copy: of_copy[key])
    rows: dict[str, dict[str, float]] = {"worse copy": dict(worse), "better copy": dict(better)}
    rows["mean of both"] = {name: (worse[name] + better[name]) / 2 for name in worse}
    rows["difference"] = {name: better[name] - worse[name] for name in worse}
    return rows


@dataclass
class Results:
    """The scores of each row of the table, seed by seed."""

    rows: dict[tuple[str, str], list[dict[str, float]]] = field(default_factory=dict)

    def add(self, name: str, scores: Mapping[str, dict[str, float]]) -> None:
        """Add the scores of one seed of a recipe. scores: by the name of the copy."""
        of_rows = {"": scores[""]} if "" in scores else copies_in_order(scores)
        for copy, row in of_rows.items():
            self.rows.setdefault((name, copy), []).append(row)

    def table(self) -> str:
        """All rows as a Markdown table."""
        titles: dict[str, None] = {}
        for seeds in self.rows.values():
            titles |= dict.fromkeys(seeds[0])
        lines = format_head(["recipe", "n", *titles])
        for (name, copy), seeds in self.rows.items():
            recipe = find_recipe(name)
            # [CT] reports the worse copy.
            published = published_of(recipe, list(seeds[0])) if copy in ("", "worse copy") else {}
            cells = []
            for title in titles:
                values = [scores[title] for scores in seeds if title in scores]
                cells.append(cell_of(values, published.get(title)))
            label = f"`{name}`, {copy}" if copy else f"`{name}`"
            lines.append(format_row([label, str(len(seeds)), *cells]))
        return "\n".join(lines)


def published_of(recipe: PaperRecipe, measured: Sequence[str]) -> dict[str, float]:
    """The published figures of what was measured. An average counts only over the same sets."""
    published = {name: recipe.published[name] for name in measured if name in recipe.published}
    averaged = {name for name in measured if name != AVERAGE and " " not in name}
    if averaged != set(recipe.sets):
        published.pop(AVERAGE, None)
    return published


def cell_of(values: Sequence[float], published: float | None) -> str:
    """The mean, its interval over two seeds or more, and the published figure."""
    if not values:
        return "-"
    text = f"{statistics.fmean(values):.3f}"
    if len(values) > 1:
        low, high = estimate_over_seeds(values).interval
        text += f" [{low:.3f}, {high:.3f}]"
    return text if published is None else f"{text} ({published:.3f})"


# --- the series -----------------------------------------------------------------------------------


def record_of(
    job: Job,
    options: PapersOptions,
    scores: Mapping[str, dict[str, float]],
    states: Mapping[str, dict[str, Any]],
) -> dict[str, Any]:
    """The record of one recipe and seed.

    scores: by the name of the copy. states: what --layers has measured, in the same way.
    """
    files = {path.name: digest_of_file(path)[:16] for path in options.measured_files()}
    by_copy = {copy or "encoder": of_copy for copy, of_copy in states.items()}
    trained: dict[str, Any] = {}
    if job.recipe.method:
        content = read_json(job.folder / "run.json")
        trained = {name: content[name] for name in ("machine", "versions", "code")}
        trained["minutes"] = round(content["actual"]["seconds"] / 60, 2)
        trained["command"] = without_folders(job.train_words(options))
    return {
        "paper_recipe": job.name,
        "model": Path(options.model).name,
        "seed": job.seed,
        "scores": {copy or "encoder": of_copy for copy, of_copy in scores.items()},
        "measured": without_folders(options.quality_flags()),
        "data": files,
        **({"states": by_copy} if by_copy else {}),
        "code": code_version(),
        **trained,
        "date": date.today().isoformat(),
    }


def run_series(options: PapersOptions) -> None:
    """Train and measure what is missing, and print the table."""
    results = Results()
    for job in jobs_of(options):
        if job.recipe.method:
            command = train_command(job, options)
            if command is not None:
                terminal.say(f"{job.folder}: training")
                run(command, job.folder.with_name(f"{job.folder.name}.log"))
        scores = {}
        states = {}
        for copy, model in job.encoders(options).items():
            record = measure(job, copy, model, options)
            scores[copy] = scores_in(record, job.recipe.vector)
            if options.layers:
                states[copy] = states_in(record)
            listed = ", ".join(f"{name} {value:.4f}" for name, value in scores[copy].items())
            terminal.say(f"{job.folder}{f', {copy} copy' if copy else ''}: {listed}")
        results.add(job.name, scores)
        # At once, so that a series that is stopped keeps what it has measured.
        if options.record:
            add_records(RECORDS / f"{RECORD_FILE}.jsonl", [record_of(job, options, scores, states)])
    path = options.out / "papers.md"
    table = results.table()
    text = f"{table}\n\n{ABOUT_TABLE} Model: {options.model}. Flags of --with: {options.with_}."
    if options.rows:
        text += f" Of each file, at most {options.rows:,} rows were measured."
    write_text(path, text + "\n")
    terminal.say(f"\n{text}\n\nThis table is also in {path}.")


def is_for_papers(words: Sequence[str]) -> bool:
    """Whether a command line of `python -m experiments` names a recipe of a paper, or nearly."""
    known = [*RECIPES, *RECIPES_OF_TASKS, *COMPARISONS]
    for before, word in itertools.pairwise(["", *words]):
        # --record and --layers have no value there.
        is_value = before.startswith("--") and "=" not in before and before not in SWITCHES
        if word in RECIPES and not is_value:
            return True
        similar = [] if before.startswith("--") else get_close_matches(word, known, n=1)
        if similar and similar[0] in RECIPES:
            return True
    return False


@exit_code(PROGRAM, "Stopped. The same command goes on from here.")
def main(argv: Sequence[str] | None = None) -> None:
    """Run a series, or list the recipes."""
    options = parse_command(PapersOptions, PROGRAM, DESCRIPTION, argv)
    if options.list_:
        for name, recipe in RECIPES.items():
            print(f"{name:28} {recipe.about}")
        return
    for job in jobs_of(options):
        # A wrong flag is reported before anything is trained.
        if job.recipe.method:
            new_run(job.train_words(options))
    table = Output("--out", options.out / "papers.md", begins_with(TABLE_START))
    check_outputs([table], options.measured_files(), overwrite=None)
    with terminal.session("reading the recipes", has_bar=False):
        run_series(options)


if __name__ == "__main__":
    sys.exit(main())
