"""Trains and measures rows of the papers over seeds: `python -m experiments.papers NAME...`.

A row is a recipe in paper_recipes.py. For each recipe and seed, contrastive.train trains its
stage in OUT/NAME-seedSEED, and contrastive.quality measures the encoder. Both run in a process of
their own, whose output goes to a .log file beside the folder. `python -m experiments NAME...` does
the same where NAME is one of these recipes.

What is finished is not done again, so the same command continues a series that was stopped. At the
end it prints n, the mean, its interval over rows and seeds, and the published figure in brackets.
It writes this table to OUT/papers.md.
"""

from __future__ import annotations

import itertools
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from contrastive.train.parser import new_run
from data.options import SAMPLE
from data.senteval import sts_files, task_files
from experiments.flags import differing_option
from experiments.paper_recipes import (
    AVERAGE,
    PEARSON,
    RECIPES,
    PaperRecipe,
    find_recipe,
)
from experiments.paper_scores import (
    COPIES,
    Score,
    cell_of,
    copies_in_order,
    recorded,
    scores_in,
    scores_without_encoder,
    states_in,
)
from experiments.recipes import COMPARISONS
from experiments.recipes import RECIPES as RECIPES_OF_TASKS
from experiments.records import RECORDS, add_records, check_committed, without_folders
from experiments.series import advice_after, parse_seeds, run_process
from experiments.tables import format_head, format_row
from minbert.commands.ending import exit_code
from minbert.commands.files import digest_of_file, read_json, write_json, write_text
from minbert.commands.flags import parse_command
from minbert.commands.options import CommandOptions, argument, positional
from minbert.commands.outputs import Output, begins_with, check_outputs
from minbert.options import EncoderOptions
from minbert.reporting import terminal

PROGRAM = "python -m experiments.papers"
DESCRIPTION = "Trains and measures rows of the papers [BSC], [CT] and [SG] over several seeds."
RECORD_FILE = "papers"
# The kinds of sentence vectors that are a pooling of contrastive.quality.
POOLINGS = {"[CLS]": "cls", "mean": "mean"}
SWITCHES = ("--record", "--layers")
TABLE_START = "| recipe |"
WEIGHTS_SUFFIXES = (".safetensors", ".bin")
ABOUT_TABLE = (
    "Each number is the mean over the seeds. Its interval holds the chance in the rows and in the "
    "seeds. In round brackets: the published figure, of the paper's encoder. STS sets have "
    "Spearman's correlation over all rows, and Pearson's where the title says so."
)
RECEIPTS = ("code", "versions", "machine")  # of a training, or of a measurement
FIELDS = "with errors over the rows"  # of what contrastive.quality writes


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
    word_vectors: Path | None = argument(
        None,
        "text file of word vectors, for the recipes of GloVe, as in contrastive.quality",
        "FILE",
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
        of_tasks = [] if self.senteval is None else task_files(self.senteval)
        sets: list[Path] = []
        for path in self.sets:
            if not path.is_dir():
                sets.append(path)
                continue
            for both in sts_files(path).values():
                sets += both
        return [*sets, *self.pairs, *self.pairs_dev, *self.ranking, *of_tasks]

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
        self.check_word_vectors()

    def check_word_vectors(self) -> None:
        """Raise ValueError where word vectors are missing, or measured by no recipe."""
        of_words = [name for name, recipe in self.recipes.items() if recipe.has_word_vectors]
        if of_words and self.word_vectors is None:
            raise ValueError(
                f"{of_words[0]} measures word vectors, which are not part of minBERT. Add "
                "--word-vectors FILE, such as glove.6B.300d.txt."
            )
        if self.word_vectors is not None and not of_words:
            raise ValueError("--word-vectors has no effect: no recipe here is of GloVe. Drop it.")
        if self.word_vectors is not None and not self.word_vectors.is_file():
            raise ValueError(f"{self.word_vectors}: there is no such file. Check the path.")
        if of_words and self.layers:
            raise ValueError(
                f"--layers needs an encoder, and {of_words[0]} measures word vectors. Drop one of "
                "the two."
            )

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

    def quality_words(self, model: str, options: PapersOptions) -> list[str]:
        """The words of contrastive.quality. model: the encoder to measure."""
        words = [model, *options.quality_flags()]
        if self.recipe.vector in POOLINGS:
            return [*words, "--pooling", POOLINGS[self.recipe.vector]]
        return [*words, "--baselines"] if self.recipe.vector else words

    def start(self, options: PapersOptions) -> str:
        """What is trained, or measured as it is: a model, or a file of word vectors."""
        return str(options.word_vectors) if self.recipe.has_word_vectors else options.model

    def encoders(self, options: PapersOptions) -> dict[str, str]:
        """The models to measure, by the name of the copy."""
        if not self.recipe.method:
            return {"": self.start(options)}
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
    asked = new_run(words).stored()
    name = differing_option(stored, asked, free={"out"})
    if name is not None:
        raise ValueError(
            f"{job.folder} was trained with {name} {stored.get(name)}, and this command asks for "
            f"{asked[name]}. Pass another --out, or the same flags."
        )
    is_finished = (job.folder / "run.json").is_file()
    return None if is_finished else [*start, "--resume", str(job.folder)]


def measure(job: Job, copy: str, model: str, options: PapersOptions) -> dict[str, Any]:
    """The record of contrastive.quality of one encoder. What is measured is not measured again."""
    folder = options.out / "measured" / (f"{job.folder.name}-{copy}" if copy else job.folder.name)
    words = job.quality_words(model, options)
    files = {str(path): digest_of_file(path) for path in options.measured_files()}
    # An encoder that was trained again has the same path.
    weights = {}
    if job.recipe.has_word_vectors:
        weights[Path(model).name] = digest_of_file(model)
    for file in sorted(Path(model).glob("*")):
        if file.suffix in WEIGHTS_SUFFIXES:
            weights[file.name] = digest_of_file(file)
    # A measurement by an older version has other fields.
    request = {"words": words, "files": files, "weights": weights, "fields": FIELDS}
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


# --- results --------------------------------------------------------------------------------------


@dataclass
class Results:
    """The scores of each row of the table, seed by seed."""

    rows: dict[tuple[str, str], list[dict[str, Score]]] = field(default_factory=dict)

    def add(self, name: str, scores: Mapping[str, dict[str, Score]]) -> None:
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
        published.pop(AVERAGE + PEARSON, None)
    return published


# --- the series -----------------------------------------------------------------------------------


def record_of(
    job: Job, options: PapersOptions, measured: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """The record of one recipe and seed.

    measured: the record of contrastive.quality, by the name of the copy. "command", "code",
    "versions" and "machine" are those of the training, or of the measurement of an encoder that is
    not trained. "measured_by" has those of the measurement. "without_encoder" has the scores of
    labelled pairs that need no encoder.
    """
    scores = {copy: scores_in(of_copy, job.recipe.vector) for copy, of_copy in measured.items()}
    states = {}
    if options.layers:
        for copy, of_copy in measured.items():
            states[copy or "encoder"] = states_in(of_copy)
    # The folders of SentEval have files of equal names.
    paths = options.measured_files()
    names = [path.name for path in paths]
    files = {}
    for path in paths:
        is_alone = names.count(path.name) == 1
        name = path.name if is_alone else f"{path.parent.name}/{path.name}"
        files[name] = digest_of_file(path)[:16]
    first = next(iter(measured.values()))
    without_encoder = scores_without_encoder(first)
    # The copies are measured by the same flags.
    model = next(iter(job.encoders(options).values()))
    measured_by = {
        "command": without_folders(job.quality_words(model, options)),
        **{name: first[name] for name in RECEIPTS},
    }
    made_by = measured_by
    if job.recipe.method:
        content = read_json(job.folder / "run.json")
        made_by = {
            "command": without_folders(job.train_words(options)),
            **{name: content[name] for name in RECEIPTS},
            "minutes": round(content["actual"]["seconds"] / 60, 2),
        }
    return {
        "paper_recipe": job.name,
        "model": Path(job.start(options)).name,
        "seed": job.seed,
        **recorded(scores),
        "measured": without_folders(options.quality_flags()),
        "data": files,
        **({"states": states} if states else {}),
        **({"without_encoder": recorded({"": without_encoder})} if without_encoder else {}),
        **made_by,
        "measured_by": measured_by,
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
        measured = {}
        for copy, model in job.encoders(options).items():
            measured[copy] = measure(job, copy, model, options)
            scores[copy] = scores_in(measured[copy], job.recipe.vector)
            listed = ", ".join(f"{name} {score.value:.4f}" for name, score in scores[copy].items())
            terminal.say(f"{job.folder}{f', {copy} copy' if copy else ''}: {listed}")
        results.add(job.name, scores)
        # At once, so that a series that is stopped keeps what it has measured.
        if options.record:
            record = record_of(job, options, measured)
            check_committed(record["measured_by"]["code"])
            add_records(RECORDS / f"{RECORD_FILE}.jsonl", [record])
    path = options.out / "papers.md"
    table = results.table()
    about = f"{ABOUT_TABLE} Model: {options.model}. Flags of --with: {options.with_ or 'none'}."
    if options.word_vectors is not None:
        about += f" Word vectors: {options.word_vectors}."
    if options.rows:
        about += f" Of each file, at most {options.rows:,} rows were measured."
    write_text(path, f"{table}\n\n{about}\n")
    terminal.say(f"\n{about} This table is also in {path}.\n\n{table}")


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
    inputs = options.measured_files()
    if options.word_vectors is not None:
        inputs.append(options.word_vectors)
    check_outputs([table], inputs, overwrite=None)
    with terminal.session("reading the recipes", has_bar=False):
        run_series(options)


if __name__ == "__main__":
    sys.exit(main())
