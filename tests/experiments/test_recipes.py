"""experiments/recipes.py and --recipe: every row makes a run, and its published figures add up."""

import pytest

from command_line.options import Options
from command_line.parser import choose_folder, parse
from experiments.recipes import COMPARISONS, RECIPES, recipe_list, values_of
from tests.command_line.test_options import options_of, refusal

READS_TRIPLETS = [
    "gen-nli",
    "gen-nli-before-given",
    "gen-given-before-nli",
    "gen-surgery",
    "gen-nli-1-epoch",
    "rob-15",
]
DEFAULTS = ["defaults", "head-features", "sampling-mt-dnn"]  # the last two by their names


@pytest.mark.parametrize("name", [*RECIPES, *COMPARISONS])
def test_every_recipe_makes_options_that_differ_from_the_defaults(name):
    reads_triplets = name in (*READS_TRIPLETS, "pretrain-simcse-nli")
    options = options_of("--recipe", name, *(["--nli", "nli.tsv"] if reads_triplets else []))
    assert values_of(name).items() <= vars(options).items() and options.recipe == name
    resolved, _ = options.for_encoder(768)
    Options(**vars(resolved))  # what "auto" became is allowed beside the rest
    changed = set(options.changed()) - {"recipe"}
    assert bool(set(values_of(name)) & changed) == (name not in DEFAULTS)


@pytest.mark.parametrize("name", RECIPES)
def test_published_means_are_those_of_the_three_scores(name):
    values, published = values_of(name), RECIPES[name][1]
    scores = {task: getattr(published, task) for task in ("sst", "para", "sts")}
    if published.overall is None:  # a row of one task, with its figure alone
        assert [task for task, score in scores.items() if score is not None] == [values["tasks"]]
    else:  # three decimals, one of them rounded the other way
        assert published.overall == pytest.approx(sum(scores.values()) / 3, abs=0.0011)


def test_rows_are_told_apart():
    """Each row of a table differs from the others, but for a setting that the report ran twice."""
    seen = {}
    for name in RECIPES:
        seen.setdefault(tuple(sorted(values_of(name).items())), []).append(name)
    assert [names for names in seen.values() if len(names) > 1] == [
        ["gen-baseline", "gen-first-shared"],
        ["gen-given", "gen-all-given"],
    ]


def test_a_row_by_hand():
    assert values_of("rob-14") == {
        "pooling": "pooler",
        "lr": 1e-5,
        "batch_size": 64,
        "vector_dropout_prob": 0.1,
        "hidden_dropout_prob": 0.0,
        "common_layer": "tanh",
        "sampling": "mt-dnn",
        "head": "dpha",
        "epochs": 5,
        "sampling_weights": "para=2",
    }


ROB = """
1  mt-dnn            sst                  10 32 .3 vm             .388 .380 -.009 .393 .235 .008
2  sequential        para,sst,sts          3 32 .5 ph             .327 .764 .866  .491 .824 .883
3  epoch-round-robin sst,sts,sst,sts,para  3 32 .5 ph             .498 .874 .851  .859 .921 .876
4  epoch-round-robin sts,sst,para,sst,sts  3 16 .5 ph,common      .483 .810 .878  .876 .891 .483
5  epoch-round-robin sts,sst,para,sst,sts  3 32 .5 ph,common      .499 .822 .875  .846 .896 .948
6  epoch-round-robin sts,sst,sst,sts,para  5 32 .5 ph,common      .454 .794 .864  .964 .935 .968
7  mt-dnn            -                     5 32 .5 ph,common      .491 .843 .866  .977 .850 .985
8  mt-dnn            -                     5 64 .5 ph,common      .510 .851 .871  .968 .855 .988
9  mt-dnn            -                     5 64 .5 ph+dph,common  .521 .842 .875  .986 .845 .990
10 mt-dnn            -                     5 64 .5 ph+dpha,common .520 .851 .870  .985 .898 .986
11 mt-dnn            -                     5 64 .3 dpha,common    .521 .852 .872  .989 .896 .986
12 joint             -                     5 8  .1 dpha,common    .510 .876 .882  .858 .891 .962
13 mt-dnn            -                     5 64 .5 dpha,common    .511 .883 .885  .993 .946 .993
14 mt-dnn            -                     5 64 .1 dpha,common    .526 .880 .879  .990 .931 .994
15 mt-dnn            -                     4 64 .1 dpha,common    .508 .879 .881  .991 .950 .991
"""  # tables 2 and 3: sampling, order, epochs (3.5 in row 15), batch, dropout, head (and PARA's), dev and train scores


@pytest.mark.parametrize("row", ROB.strip().splitlines(), ids=lambda row: row.split()[0])
def test_each_row_of_the_rob_report(row):
    number, sampling, tasks, epochs, batch_size, dropout, method, *scores = row.split()
    nli = {"nli": "triplets.tsv"} if number == "15" else {}
    options, published = Options(**values_of(f"rob-{number}"), **nli), RECIPES[f"rob-{number}"][1]
    heads, _, common = method.partition(",")
    head, _, para_head = heads.partition("+")
    assert (options.epochs, options.batch_size, options.lr) == (int(epochs), int(batch_size), 1e-5)
    assert options.tasks == ("sst,para,sts" if tasks == "-" else tasks)
    place = options.vector_dropout_prob if common else options.hidden_dropout_prob
    assert place == float(dropout) and (options.common_layer == "tanh") == bool(common)
    assert (options.head, options.para_head) == (head, para_head or "auto")
    is_double = options.sampling_weights == "para=2"
    assert is_double == (int(number) >= 10 and number != "12"), (
        "PARA's double weight has no place in joint steps"
    )
    assert [published.sst, published.para, published.sts, *published.train] == [
        float(score) for score in scores
    ]
    assert options.sampling == sampling and options.surgery == (
        "pcgrad" if number == "12" else "mean"
    )
    assert options.pretrain == ("simcse-nli" if number == "15" else "none")
    assert options.hand_on == ("trained" if number == "15" else "better")


def test_a_row_with_contrastive_pretraining_by_hand():
    given = values_of("gen-given")
    assert given == {
        "pooling": "cls",
        "head": "mlp",
        "pair_encoding": "bi",
        "sharing": "first",
        "common_layer": "none",
        "lr": 1e-5,
        "batch_size": 16,
        "hidden_dropout_prob": 0.3,
        "epochs": 10,
        "sampling": "joint",
        "joint_limit": "smallest",
        "pretrain": "simcse-supervised",
        "hand_on": "trained",
        "contrastive_lr": 2e-5,
        "contrastive_batch_size": 16,
        "contrastive_projection": "mlp",
    }
    for name, changes in {
        "gen-quora-only": {"unsupervised_too": "none"},
        "gen-nli": {"pretrain": "simcse-nli"},
        "gen-quora-no-negatives": {"unsupervised_too": "none", "labelled_negatives": "no"},
        "gen-nli-before-given": {"pretrain": "simcse-nli,simcse-supervised"},
        "gen-given-before-nli": {"pretrain": "simcse-supervised,simcse-nli"},
        "gen-surgery": {
            "pretrain": "simcse-nli,simcse-supervised",
            "surgery": "pcgrad",
            "surgery_reduction": "mean",
        },
        "gen-nli-1-epoch": {"pretrain": "simcse-nli", "contrastive_epochs": 1},
        "gen-given-sts": {"tasks": "sts"},
        "gen-given-2-epochs": {"contrastive_epochs": 2},
        "gen-given-3-epochs": {"contrastive_epochs": 3},
        "gen-given-lr-1e-5": {"contrastive_lr": 1e-5},
        "gen-given-lr-3e-5": {"contrastive_lr": 3e-5},
    }.items():
        assert values_of(name) == given | changes, name


@pytest.mark.parametrize("name", READS_TRIPLETS)
def test_a_row_with_nli_asks_for_its_file(capsys, name):
    words = "the stage simcse-nli trains on triplets of sentences, and no file of them is named; add --nli FILE"
    assert words in refusal(capsys, "--recipe", name)
    assert RECIPES[name][0].__doc__.endswith("Add --nli FILE.")


def test_flags_beside_a_recipe_win_and_the_folder_is_named_after_it(tmp_path):
    options = options_of(
        "--recipe", "rob-14", "--lr", "5e-5", "--model", "minilm", "--output-dir", str(tmp_path)
    )
    assert options.lr == 5e-5 and options.head == "dpha"
    assert choose_folder(options).name == "rob-14-minilm-sample-seed11711"


def test_a_name_that_is_none(capsys):
    assert (
        "there is no recipe 'rob14'; did you mean rob-14? --list-recipes shows them all."
        in refusal(capsys, "--recipe", "rob14")
    )


def test_the_list_shows_all(capsys):
    with pytest.raises(SystemExit) as caught:
        parse(["--list-recipes"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert text == recipe_list() + "\n" and all(name in text for name in (*RECIPES, *COMPARISONS))
    assert [line.split()[0] for line in text.splitlines()[1 : len(RECIPES) + 1]] == [
        *RECIPES
    ]  # a line each
    assert (
        "gen-given-para                -  0.836      -      -  Table 2, 3 given, PARA alone" in text
    )
    assert "python -m multitask.ensemble RUN... --method best --out DIR" in text
    assert (
        "rob-14                    0.526  0.880  0.879  0.762  MT-DNN + DPHA + CL, dropout 0.1: the report's best. "
        "Train 0.990, 0.931, 0.994." in text
    )
