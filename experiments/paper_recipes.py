"""The rows of the papers [BSC], [CT] and [SG] as data: what is trained, and the published figures.

    [BSC]  Chernyavskiy et al. 2022    [CT]  Carlsson et al. 2021    [SG]  Kim et al. 2021

No torch here. They are Python and not TOML, which Python 3.10 cannot read without another package.
Next: papers.py, which trains and measures them.

A figure that is not here is not known here. Our source of [BSC] has no table, and that of [CT] has
only table 1. Where a paper has several models, the figures are those of bert-base.
"""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from contrastive.registry import METHODS
from data.examples import COURSE_FILES
from data.options import folder_of_data

AVERAGE = "average"
PEARSON = " Pearson"  # behind the name of a set, which alone means Spearman's correlation
# The sets that a paper averages, by the names that it gives them.
FIVE = ("STS12", "STS13", "STS14", "STS15", "STS16")
SEVEN = ("STS-B", "SICK-R", *FIVE)
TRANSFER = ("MR", "CR", "SUBJ", "MPQA", "SST", "TREC", "MRPC")
# How the test files of these sets are called, without their endings.
FILE_NAMES = {"sts-b": "STS-B", "stsb": "STS-B", "sick": "SICK-R", "sick-r": "SICK-R"}
TEST_ENDINGS = ("-en-test", "_test", "-test", ".test")  # the first one of SentEval

# [SG] section 4.2: the sentences of STS-B without their labels. The dev pairs decide when to stop.
ON_STS = {"text": "sts", "splits": "train,dev,test", "dev": "sts", "pooling": "cls"}


class PaperRecipe(NamedTuple):
    """A row of a paper.

    about: what the row is. method: of contrastive.train; "": the model is measured as it is, by the
    kind of sentence vector `vector`. flags: of contrastive.train. needs_text: the user passes the
    text. has_word_vectors: a file of word vectors is measured in place of a model. published:
    Spearman's correlation or accuracy by the name of the set, and "average" of `sets`. Pearson's
    correlation stands behind the name of the set with PEARSON.
    """

    about: str
    method: str = ""
    flags: dict[str, Any] = {}
    needs_text: bool = False
    has_word_vectors: bool = False
    vector: str = ""
    sets: tuple[str, ...] = ()
    published: dict[str, float] = {}

    @property
    def has_copies(self) -> bool:
        """Whether two copies of the encoder are trained, which are both measured."""
        return self.method in METHODS.readers("ct_copy")

    def words(self, data_dir: Path, text: tuple[str, ...]) -> list[str]:
        """The words of contrastive.train, without model, seed and folder.

        data_dir: of the course's files. text: what the user passes for a recipe that needs it.
        """
        words = [self.method]
        if self.needs_text:
            words += ["--text", *text]
        for name, value in self.flags.items():
            if name == "dev":
                value = folder_of_data(data_dir) / COURSE_FILES[value]["dev"]
            words += [f"--{name}", str(value)]
        return [*words, "--data-dir", str(data_dir)]


def seven_figures(*figures: float) -> dict[str, float]:
    """Published figures of the seven STS sets, and their average."""
    return dict(zip((*SEVEN, AVERAGE), figures, strict=True))


def five_figures(*figures: float) -> dict[str, float]:
    """Published figures of the five sets STS12 to STS16, and their average."""
    return dict(zip((*FIVE, AVERAGE), figures, strict=True))


def pearson_figures(*figures: float) -> dict[str, float]:
    """Published figures of the same sets and their average, in Pearson's correlation."""
    return {name + PEARSON: figure for name, figure in five_figures(*figures).items()}


def transfer_figures(*figures: float) -> dict[str, float]:
    """Published figures of the seven transfer tasks, and their average."""
    return dict(zip((*TRANSFER, AVERAGE), figures, strict=True))


RECIPES = {
    # [SG] table 1: seven STS sets, Spearman.
    "sg-table-1-glove": PaperRecipe(
        "mean of word vectors (GloVe)",
        has_word_vectors=True,
        vector="mean",
        sets=SEVEN,
        published=seven_figures(0.5802, 0.5376, 0.5514, 0.7066, 0.5973, 0.6825, 0.6366, 0.6132),
    ),
    "sg-table-1-cls": PaperRecipe(
        "no tuning, [CLS]",
        vector="[CLS]",
        sets=SEVEN,
        published=seven_figures(0.203, 0.4242, 0.2154, 0.3211, 0.2128, 0.3789, 0.4424, 0.314),
    ),
    "sg-table-1-mean": PaperRecipe(
        "no tuning, mean of the tokens",
        vector="mean",
        sets=SEVEN,
        published=seven_figures(0.4729, 0.5822, 0.3087, 0.5989, 0.4773, 0.6029, 0.6373, 0.5257),
    ),
    "sg-table-1-wk": PaperRecipe(
        "no tuning, WK pooling",
        vector="WK",
        sets=SEVEN,
        published=seven_figures(0.1607, 0.4154, 0.1601, 0.218, 0.1596, 0.3359, 0.3407, 0.2558),
    ),
    "sg-table-1-whitening": PaperRecipe(
        "no tuning, whitened first-last mean; it stands for the flow, which is not here",
        vector="first-last mean, whitened",
        sets=SEVEN,
        published=seven_figures(0.7135, 0.6495, 0.6432, 0.6972, 0.6367, 0.7777, 0.6959, 0.6877),
    ),
    "sg-table-1-bt": PaperRecipe(
        "a second wording as the positive (BT); the text has two wordings a line",
        method="mnr",
        flags={
            "pooling": "cls",
            "batch-size": 16,
            "temperature": 0.01,
            "projection": "mlp",
        },
        needs_text=True,
        sets=SEVEN,
        published=seven_figures(0.6327, 0.6691, 0.5426, 0.6403, 0.5428, 0.6819, 0.675, 0.6263),
    ),
    "sg-table-1-sg": PaperRecipe(
        "self-guided",
        method="sg",
        flags=ON_STS,
        sets=SEVEN,
        published=seven_figures(0.7508, 0.6819, 0.636, 0.7648, 0.6757, 0.7942, 0.7485, 0.7217),
    ),
    "sg-table-1-sg-opt": PaperRecipe(
        "self-guided, optimised",
        method="sg-opt",
        flags=ON_STS,
        sets=SEVEN,
        published=seven_figures(0.7723, 0.6816, 0.6684, 0.8013, 0.7123, 0.8156, 0.7717, 0.7462),
    ),
    # [SG] figure 4: trained on other text.
    "sg-figure-4-nli": PaperRecipe(
        "SG-OPT on sentences of NLI in place of those of STS-B",
        method="sg-opt",
        flags={"dev": "sts", "pooling": "cls"},
        needs_text=True,
        sets=SEVEN,
        # The paper prints what is lost beside training on STS-B.
        published={"average": 0.7299},
    ),
    # [SG] table 4: transfer.
    "sg-table-4-mean": PaperRecipe(
        "no tuning, mean of the tokens; SentEval",
        vector="mean",
        sets=TRANSFER,
        published=transfer_figures(0.8146, 0.8671, 0.9537, 0.879, 0.8583, 0.903, 0.7336, 0.8585),
    ),
    "sg-table-4-sg-opt": PaperRecipe(
        "SG-OPT on sentences of NLI, upper layers, mean pooling of the states; SentEval",
        method="sg-opt",
        flags={"dev": "sts", "pooling": "cls", "sg-layers": "upper", "sg-states": "mean"},
        needs_text=True,
        sets=TRANSFER,
        published=transfer_figures(0.8247, 0.8742, 0.954, 0.8892, 0.862, 0.916, 0.7421, 0.866),
    ),
    # [SG] table 5: ablations of SG-OPT, average of the seven sets.
    "sg-table-5-opt2": PaperRecipe(
        "loss opt2",
        method="sg",
        flags=ON_STS | {"sg-loss": "opt2"},
        sets=SEVEN,
        published={"average": 0.7314},
    ),
    "sg-table-5-opt1": PaperRecipe(
        "loss opt1",
        method="sg",
        flags=ON_STS | {"sg-loss": "opt1"},
        sets=SEVEN,
        published={"average": 0.7261},
    ),
    "sg-table-5-temperature-0_1": PaperRecipe(
        "SG-OPT, temperature 0.1",
        method="sg-opt",
        flags=ON_STS | {"temperature": 0.1},
        sets=SEVEN,
        published={"average": 0.7039},
    ),
    "sg-table-5-temperature-0_001": PaperRecipe(
        "SG-OPT, temperature 0.001",
        method="sg-opt",
        flags=ON_STS | {"temperature": 0.001},
        sets=SEVEN,
        published={"average": 0.7416},
    ),
    "sg-table-5-lambda-0": PaperRecipe(
        "SG-OPT without the regulariser",
        method="sg-opt",
        flags=ON_STS | {"sg-regulariser": 0},
        sets=SEVEN,
        published={"average": 0.7376},
    ),
    "sg-table-5-lambda-1": PaperRecipe(
        "SG-OPT, regulariser 1",
        method="sg-opt",
        flags=ON_STS | {"sg-regulariser": 1},
        sets=SEVEN,
        published={"average": 0.7318},
    ),
    "sg-table-5-no-head": PaperRecipe(
        "SG-OPT without the projection head",
        method="sg-opt",
        flags=ON_STS | {"projection": "none"},
        sets=SEVEN,
        published={"average": 0.7278},
    ),
    # [CT] tables 1, 6 and 7: a fixed number of steps, and no label.
    "ct-table-1-glove": PaperRecipe(
        "mean of word vectors (GloVe)",
        has_word_vectors=True,
        vector="mean",
        sets=FIVE,
        published=five_figures(0.5727, 0.5522, 0.6341, 0.6902, 0.6509, 0.62)
        | pearson_figures(0.5639, 0.5602, 0.6553, 0.6779, 0.641, 0.62),
    ),
    "ct-table-1-mean": PaperRecipe(
        "no tuning, mean of the tokens",
        vector="mean",
        sets=FIVE,
        published=five_figures(0.5007, 0.5291, 0.5491, 0.6337, 0.6496, 0.5724)
        | pearson_figures(0.4688, 0.5277, 0.5715, 0.6347, 0.6451, 0.5696),
    ),
    "ct-table-1": PaperRecipe(
        "contrastive tension on an encyclopedia; also tables 6 and 7",
        method="ct",
        flags={"steps": 50000, "max-length": 75, "ct-negatives": "paper"},
        needs_text=True,
        sets=FIVE,
        published=five_figures(0.6686, 0.7091, 0.7237, 0.7855, 0.7778, 0.7329)
        | pearson_figures(0.6719, 0.7077, 0.7564, 0.7786, 0.7665, 0.7362),
    ),
    # [CT] table 4: corpora. Pass an encyclopedia or books with --text.
    "ct-table-4-text": PaperRecipe(
        "on the text of --text",
        method="ct",
        flags={"steps": 50000, "max-length": 75},
        needs_text=True,
    ),
    "ct-table-4-random": PaperRecipe(
        "on random sequences of 20 to 75 words",
        method="ct",
        flags={"text": "random-words", "rows": 100000, "steps": 50000, "max-length": 75},
    ),
    # [CT]: what the paper prints, and its code.
    "ct-code-negatives": PaperRecipe(
        "negatives of two other sentences, as in the code",
        method="ct",
        flags={"steps": 50000, "max-length": 75, "ct-negatives": "code"},
        needs_text=True,
    ),
    "ct-printed-loss": PaperRecipe(
        "the loss s(1 - z), as printed",
        method="ct",
        flags={"steps": 50000, "max-length": 75, "ct-loss": "printed"},
        needs_text=True,
    ),
    # [BSC]: variants on labelled pairs.
    "bsc-one-way": PaperRecipe(
        "softmax over rows only", method="bsc", flags={"bsc-symmetric": "no"}, needs_text=True
    ),
    "bsc-symmetric": PaperRecipe(
        "softmax over rows and columns",
        method="bsc",
        flags={"bsc-symmetric": "yes"},
        needs_text=True,
    ),
    "bsc-without-negatives": PaperRecipe(
        "symmetric, without labelled negatives",
        method="bsc",
        flags={"bsc-labelled-negatives": "no"},
        needs_text=True,
    ),
    "bsc-alignment": PaperRecipe(
        "symmetric, beside the squared error of the cosine, half each",
        method="bsc",
        flags={"bsc-align": 0.5},
        needs_text=True,
    ),
    "bsc-squared-error": PaperRecipe(
        "the control: nearly only the squared error of the cosine (.99 of the loss)",
        method="bsc",
        flags={"bsc-align": 0.01},
        needs_text=True,
    ),
    "bsc-batch-axis": PaperRecipe(
        "normalised over the batch, temperature 1.2 as in the code",
        method="bsc",
        flags={"bsc-normalise": "batch", "temperature": 1.2},
        needs_text=True,
    ),
    "bsc-trained-temperature": PaperRecipe(
        "a trained temperature", method="bsc", flags={"bsc-temperature-lr": 0.001}, needs_text=True
    ),
    "bsc-mixed-lengths": PaperRecipe(
        "batches of any length", method="bsc", flags={"bsc-shuffle": "any-length"}, needs_text=True
    ),
    "bsc-neighbours": PaperRecipe(
        "batches of neighbours, groups of 3 to 8",
        method="bsc",
        flags={"bsc-shuffle": "knn"},
        needs_text=True,
    ),
    "bsc-neighbours-code": PaperRecipe(
        "groups of 7, filled from the 200 nearest, as in the code",
        method="bsc",
        flags={"bsc-shuffle": "knn", "bsc-group-size": 7, "bsc-neighbours": 200},
        needs_text=True,
    ),
    "bsc-clusters": PaperRecipe(
        "batches of clusters", method="bsc", flags={"bsc-shuffle": "cluster"}, needs_text=True
    ),
    "bsc-ranking-control": PaperRecipe(
        "the control: multiple negatives ranking", method="mnr", needs_text=True
    ),
}


def find_recipe(name: str) -> PaperRecipe:
    """The recipe of a name. ValueError, with a name that is near, for any other."""
    if name in RECIPES:
        return RECIPES[name]
    close = get_close_matches(name, RECIPES, n=1)
    hint = f"Did you mean {close[0]}? " if close else ""
    raise ValueError(
        f"{name} is no recipe of a paper. {hint}python -m experiments.papers --list shows all."
    )


def paper_name(set_name: str) -> str:
    """The name that the papers give a set, from that of its file: STS12_test is STS12.

    A file of other rows than the test rows, such as SICK_train, keeps its own name.
    """
    stem = set_name
    for ending in TEST_ENDINGS:
        stem = stem.removesuffix(ending)
    if stem.upper() in FIVE:
        return stem.upper()
    is_test = stem != set_name
    return FILE_NAMES.get(stem.lower(), set_name) if is_test else set_name
