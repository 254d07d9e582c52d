"""experiments/recipes.py and --recipe: every row makes a run, and its published numbers add up."""

import re

import pytest

from command_line.automatic import Choice, resolve
from command_line.folders import choose_folder
from command_line.options import Options
from command_line.parser import parse
from experiments.recipes import COMPARISONS, GEN_RECIPES, RECIPES, recipe_list, values_of
from experiments.records import RECORDS, read_records
from minbert.commands.options import changed
from tests.toy_options import options_of, refusal

READS_TRIPLETS = [
    "gen-nli",
    "gen-nli-before-given",
    "gen-given-before-nli",
    "gen-surgery",
    "gen-nli-1-epoch",
    "rob-15",
    "rob-15-pooled",
]

# Names of what is the default anyway.
DEFAULTS = ["defaults", "head-features", "sampling-mt-dnn"]


@pytest.mark.parametrize("name", [*RECIPES, *COMPARISONS])
def test_every_recipe_makes_options_that_differ_from_the_defaults(name):
    reads_triplets = name in (*READS_TRIPLETS, "pretrain-simcse-nli")
    flags = ["--nli", "nli.tsv"] if reads_triplets else []
    options = options_of("--recipe", name, *flags)
    assert values_of(name).items() <= options.flat().items()
    assert options.run.recipe == name

    # Making the resolved options checks them: what "auto" became is allowed beside the rest.
    resolve(options, 768, Choice("cpu", "a test"), Choice("fp32", "a test"))

    differing = set(changed(options)) - {"recipe"}
    assert bool(set(values_of(name)) & differing) == (name not in DEFAULTS)


# What a run sets by itself.
CHOSEN_BY_THE_RUN = {"attention", "device", "precision", "formulas", "score", "pair_encoding"}


@pytest.mark.parametrize(
    ("name", "records"), [("race-minilm", "race"), ("race-mini", "race-mini-dph")]
)
def test_an_entry_of_the_race_has_the_options_of_its_records(name, records):
    stored = read_records(RECORDS / f"{records}.jsonl")
    assert [record["seed"] for record in stored] == [0, 1, 2]
    for record in stored:
        options = record["options"]
        assert {key: options[key] for key in options.keys() - CHOSEN_BY_THE_RUN} == values_of(name)


@pytest.mark.parametrize("name", RECIPES)
def test_published_means_are_those_of_the_three_scores(name):
    published = RECIPES[name].published
    scores = {task: getattr(published, task) for task in ("sst", "para", "sts")}
    if published.overall is None:
        # A row of one task, with that task's score alone.
        tasks = [task for task, score in scores.items() if score is not None]
        assert tasks == [values_of(name)["tasks"]]
    else:
        # Three decimals, one of them rounded the other way.
        assert published.overall == pytest.approx(sum(scores.values()) / 3, abs=0.0011)


def test_a_change_of_returned_values_does_not_change_the_recipe():
    values_of("rob-14")["lr"] = 1.0
    values_of("head-vm")["lr"] = 1.0
    assert values_of("rob-14")["lr"] == 1e-5
    assert values_of("head-vm") == {"head": "vm"}


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
        "sampling": "random-task",
        "head": "dpha",
        "epochs": 5,
        "draw_weights": "para=2",
        # As the course's starter code trains.
        "schedule": "constant",
        "warmup": 0.0,
        "weight_decay": 0.0,
        "max_grad_norm": 0.0,
    }


def test_a_pooled_twin_differs_in_its_sampling_alone():
    for name in ("rob-7", "rob-14"):
        drawn = values_of(name)
        pooled = values_of(f"{name}-pooled")
        assert drawn.pop("sampling") == "random-task" and pooled.pop("sampling") == "mt-dnn"
        weights = drawn.pop("draw_weights", "none")
        assert pooled.pop("sampling_weights", "none") == weights
        assert drawn == pooled
        assert RECIPES[name].published == RECIPES[f"{name}-pooled"].published
    assert values_of("rob-14-pooled")["sampling_weights"] == "para=2"


# Tables 2 and 3: sampling, order of tasks, epochs (3.5 in row 15), batch size, dropout, head (with
# PARA after +), dev scores, training scores.
ROB = """
1  mt-dnn            sst                  10 32 .3 vm             .388 .380 -.009 .393 .235 .008
2  sequential        para,sst,sts          3 32 .5 ph             .327 .764 .866  .491 .824 .883
3  epoch-round-robin sst,sts,sst,sts,para  3 32 .5 ph             .498 .874 .851  .859 .921 .876
4  epoch-round-robin sts,sst,para,sst,sts  3 16 .5 ph,common      .483 .810 .878  .876 .891 .483
5  epoch-round-robin sts,sst,para,sst,sts  3 32 .5 ph,common      .499 .822 .875  .846 .896 .948
6  epoch-round-robin sts,sst,sst,sts,para  5 32 .5 ph,common      .454 .794 .864  .964 .935 .968
7  random-task       -                     5 32 .5 ph,common      .491 .843 .866  .977 .850 .985
8  random-task       -                     5 64 .5 ph,common      .510 .851 .871  .968 .855 .988
9  random-task       -                     5 64 .5 ph+dph,common  .521 .842 .875  .986 .845 .990
10 random-task       -                     5 64 .5 ph+dpha,common .520 .851 .870  .985 .898 .986
11 random-task       -                     5 64 .3 dpha,common    .521 .852 .872  .989 .896 .986
12 joint             -                     5 8  .1 dpha,common    .510 .876 .882  .858 .891 .962
13 random-task       -                     5 64 .5 dpha,common    .511 .883 .885  .993 .946 .993
14 random-task       -                     5 64 .1 dpha,common    .526 .880 .879  .990 .931 .994
15 random-task       -                     4 64 .1 dpha,common    .508 .879 .881  .991 .950 .991
"""


@pytest.mark.parametrize("row", ROB.strip().splitlines(), ids=lambda row: row.split()[0])
def test_each_row_of_the_rob_report(row):
    number, sampling, tasks, epochs, batch_size, dropout, method, *scores = row.split()
    triplets = {"nli": "triplets.tsv"} if number == "15" else {}
    options = Options.of(**values_of(f"rob-{number}"), **triplets).flat()
    published = RECIPES[f"rob-{number}"].published

    assert options["epochs"] == int(epochs)
    assert options["batch_size"] == int(batch_size)
    assert options["lr"] == 1e-5

    head_names, _, common = method.partition(",")
    head, _, para_head = head_names.partition("+")
    assert options["head"] == head
    assert options["para_head"] == (para_head or "auto")
    assert (options["common_layer"] == "tanh") == bool(common)
    place = "vector_dropout_prob" if common else "hidden_dropout_prob"
    assert options[place] == float(dropout)

    assert options["tasks"] == ("sst,para,sts" if tasks == "-" else tasks)
    assert options["sampling"] == sampling
    assert options["surgery"] == ("pcgrad" if number == "12" else "mean")
    is_double = options["draw_weights"] == "para=2"
    assert is_double == (int(number) >= 10 and number != "12"), (
        "PARA's double weight has no place in joint steps"
    )

    assert options["pretrain"] == ("simcse-nli" if number == "15" else "none")
    assert options["hand_on"] == ("trained" if number == "15" else "better")
    expected = [float(score) for score in scores]
    assert [published.sst, published.para, published.sts, *published.train] == expected


# Tables 1 to 10: the table, the recipe, and the scores of SST, PARA and STS. "-": not in the row.
GEN = """
1  gen-vanilla            .516 .388 .270
1  gen-contrastive-first  .479 .401 .466
1  gen-supervised-first   .422 .402 .682
1  gen-fusion             .465 .410 .685
2  gen-baseline           .490 .726 .404
2  gen-nli                .500 .746 .735
2  gen-given              .516 .815 .661
2  gen-given-sst          .502 -    -
2  gen-given-para         -    .836 -
2  gen-given-sts          -    -    .642
3  gen-heads-different    .496 .732 .361
3  gen-heads-shared       .497 .625 .361
3  gen-first-shared       .514 .734 .370
4  gen-quora-no-negatives .387 .730 .743
4  gen-quora-only         .521 .781 .565
4  gen-all-given          .488 .784 .683
5  gen-nli-before-given   .476 .794 .614
5  gen-given-before-nli   .431 .790 .592
6  gen-epoch-round-robin  .507 .519 .453
6  gen-batch-round-robin  .510 .520 .442
7  gen-surgery            .480 .800 .596
8  gen-nli-1-epoch        .500 .730 .658
9  gen-given-2-epochs     .406 .697 .671
9  gen-given-3-epochs     .360 .724 .748
10 gen-given-lr-1e-5      .497 .806 .609
10 gen-given-lr-3e-5      .496 .799 .680
"""


def test_the_gen_report_s_rows_are_all_there():
    rows = [line.split() for line in GEN.strip().splitlines()]
    assert [name for _, name, *_ in rows] == list(GEN_RECIPES)
    for table, name, *texts in rows:
        published = RECIPES[name].published
        expected = [None if text == "-" else float(text) for text in texts]
        assert [published.sst, published.para, published.sts] == expected, name
        assert re.match(rf"Tables? .*\b{table}\b", RECIPES[name].description), name


def test_what_all_rows_of_the_gen_report_share():
    """No schedule, no decay and no clipping, in the tasks and in the stages before them."""
    for name in GEN_RECIPES:
        values = values_of(name)
        assert (values["pooling"], values["pair_encoding"]) == ("cls", "bi")
        assert (values["lr"], values["batch_size"], values["epochs"]) == (1e-5, 16, 10)
        assert (values["weight_decay"], values["max_grad_norm"]) == (0.0, 0.0)
        assert (values["schedule"], values["warmup"]) == ("constant", 0.0)
        # In fusion training the steps are those of the tasks.
        is_stage = "pretrain" in values and values.get("contrastive_order") != "fusion"
        if is_stage:
            assert values["contrastive_schedule"] == "constant"
            assert values["contrastive_warmup"] == 0.0
            assert values["contrastive_batch_size"] == 16
        if "pretrain" in values:
            assert values["contrastive_projection"] == "mlp"

        # Untrained tasks of table 1 are answered by cosines, those of the other tables have heads.
        is_table_1 = RECIPES[name].description.startswith("Table 1,")
        assert values["head"] == ("cosine" if is_table_1 else "mlp")
        assert (values.get("untrained_tasks") == "para,sts") == (
            is_table_1 or name == "gen-given-sst"
        )


def test_a_row_with_contrastive_pretraining_by_hand():
    gen_given = values_of("gen-given")
    assert gen_given == {
        "pooling": "cls",
        "head": "mlp",
        "pair_encoding": "bi",
        "sharing": "first",
        "common_layer": "none",
        "lr": 1e-5,
        "batch_size": 16,
        "hidden_dropout_prob": 0.3,
        "epochs": 10,
        "schedule": "constant",
        "warmup": 0.0,
        "weight_decay": 0.0,
        "max_grad_norm": 0.0,
        "sampling": "joint",
        "joint_limit": "smallest",
        "pretrain": "simcse-supervised",
        "labelled_negatives": "maximised",
        "hand_on": "trained",
        "contrastive_schedule": "constant",
        "contrastive_warmup": 0.0,
        "contrastive_lr": 2e-5,
        "contrastive_batch_size": 16,
        "contrastive_projection": "mlp",
        "contrastive_keep": "last",
        "contrastive_evaluate_every": 1_000_000,
    }
    differences = {
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
        "gen-given-sts": {"tasks": "sts", "untrained_tasks": "sst,para"},
        "gen-given-2-epochs": {"contrastive_epochs": 2},
        "gen-given-3-epochs": {"contrastive_epochs": 3},
        "gen-given-lr-1e-5": {"contrastive_lr": 1e-5},
        "gen-given-lr-3e-5": {"contrastive_lr": 3e-5},
    }
    for name, changes in differences.items():
        expected = gen_given | changes
        if "simcse-supervised" not in expected["pretrain"]:
            del expected["labelled_negatives"]
        assert values_of(name) == expected, name


def test_the_rows_of_table_1_by_hand():
    """SST alone is trained, and PARA and STS are the cosine without a layer."""
    vanilla = {
        "pooling": "cls",
        "head": "cosine",
        "pair_encoding": "bi",
        "common_layer": "none",
        "tasks": "sst",
        "untrained_tasks": "para,sts",
        "lr": 1e-5,
        "batch_size": 16,
        "hidden_dropout_prob": 0.3,
        "epochs": 10,
        "schedule": "constant",
        "warmup": 0.0,
        "weight_decay": 0.0,
        "max_grad_norm": 0.0,
    }
    # SST, 6 % of Quora and STS, in each of ten epochs, and a measurement after each of them.
    stage = {
        "pretrain": "simcse",
        "contrastive_epochs": 10,
        "contrastive_text_order": "sst,para,sts",
        "contrastive_text_shares": "para=0.06",
        "contrastive_sentences": 0,
        "contrastive_batch_size": 16,
        "contrastive_lr": 1e-5,
        "contrastive_projection": "mlp",
        "contrastive_schedule": "constant",
        "contrastive_warmup": 0.0,
        "contrastive_evaluate_every": 1_000_000,
    }
    first = vanilla | stage | {"hand_on": "trained"}
    last = vanilla | stage | {"contrastive_order": "last", "hand_on": "better"}
    assert values_of("gen-vanilla") == vanilla
    assert values_of("gen-contrastive-first") == first
    assert values_of("gen-supervised-first") == last


@pytest.mark.parametrize("name", READS_TRIPLETS)
def test_a_row_with_nli_asks_for_its_file(capsys, name):
    message = refusal(capsys, "--recipe", name)
    assert "the stage simcse-nli trains on triplets of sentences" in message
    assert "add --nli FILE" in message
    assert RECIPES[name].description.endswith("Add --nli FILE.")


def test_flags_beside_a_recipe_win_and_the_folder_is_named_after_it(tmp_path):
    flags = ["--lr", "5e-5", "--model", "minilm", "--output-dir", str(tmp_path)]
    options = options_of("--recipe", "rob-14", *flags)
    assert options.multitask.fine_tuning.lr == 5e-5
    assert options.multitask.heads.head == "dpha"
    assert choose_folder(options).name == "rob-14-minilm-sample-seed11711"


def test_a_name_that_is_none(capsys):
    message = "there is no recipe 'rob14'; did you mean rob-14? `python -m run_multitask "
    assert message in refusal(capsys, "--recipe", "rob14")


def test_the_list_shows_all(capsys):
    with pytest.raises(SystemExit) as caught:
        parse(["--list-recipes"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert text == recipe_list() + "\n"
    # One line for each recipe, in the order of the reports, and one for each comparison.
    lines = text.splitlines()
    assert [line.split()[0] for line in lines[-len(COMPARISONS) :]] == [*COMPARISONS]
    lines = lines[1 : len(RECIPES) + 1]
    assert [line.split()[0] for line in lines] == list(RECIPES)

    start = "gen-given-para                -  0.836      -      -  "
    assert f"{start}Table 2, 3 given, PARA alone" in text
    assert "python -m multitask.ensemble RUN... --method best --out DIR" in text
    start = "rob-14                    0.526  0.880  0.879  0.762  "
    end = "MT-DNN + DPHA + CL, dropout 0.1: the report's best. Train 0.990, 0.931, 0.994."
    assert start + end in text
