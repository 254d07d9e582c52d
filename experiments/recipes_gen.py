"""The rows of [GEN]'s tables as options; their figures stand in recipes.py, which comes next.

Labelled contrastive pretraining takes 2e-5 here unless a row says otherwise: so does the row in bold of table 10, which
is also that of tables 2 and 5, and within a table only what it names differs. (Elsewhere the report calls 1e-5 its
default.) Schedules, which step of labelled pretraining is kept, and how far Quora is cut in it are left open: they are
those of our presets, and it is not cut. Unsupervised pretraining (table 1, section 5.3) goes through SST, 6 % of Quora
drawn anew in each epoch, and STS; here through all sentences, shuffled, in fusion through those of SST alone (both its
losses are said to take "the same batch of STS data", and STS has no classes: SST is what we read). Rows with NLI read
triplets: add --nli FILE. What a stage trained goes on, even where zero-shot STS is worse for it (--hand_on).
"""

from __future__ import annotations


def shared(**changes) -> dict:
    """What all rows share: [CLS], two-layer heads of PARA and STS that share the first, lr 1e-5, ten epochs."""
    return {
        "pooling": "cls",
        "head": "mlp",
        "pair_encoding": "bi",
        "sharing": "first",
        "common_layer": "none",
        "lr": 1e-5,
        "batch_size": 16,
        "hidden_dropout_prob": 0.3,
        "epochs": 10,
        **changes,
    }


def vanilla() -> dict:
    """Table 1, vanilla BERT: SST alone; PARA and STS are the cosine of the two vectors."""
    values = shared(tasks="sst", head="cosine")
    del values["sharing"]
    return values


def contrastive_first() -> dict:
    """Table 1, contrastive first: SimCSE, then SST alone; PARA and STS are the cosine of the two vectors."""
    return vanilla() | {
        "pretrain": "simcse",
        "hand_on": "trained",
        "contrastive_projection": "mlp",
        "contrastive_epochs": 10,
        "contrastive_batch_size": 16,
        "contrastive_lr": 1e-5,
    }


def supervised_first() -> dict:
    """Table 1, supervised first."""
    return contrastive_first() | {
        "contrastive_order": "last",
        "hand_on": "better",
    }  # after the tasks it is the result


def fusion() -> dict:
    """Table 1, fusion: each batch of SST on its task, then on the contrastive loss; no sentence of PARA or STS."""
    return vanilla() | {
        "pretrain": "simcse",
        "contrastive_order": "fusion",
        "contrastive_projection": "mlp",
    }


def baseline() -> dict:
    """Table 2, no pretraining; table 6, multi-task average loss: joint steps, the larger sets cut to the smallest."""
    return shared(sampling="joint", joint_limit="smallest")


def pretrained(stages: str) -> dict:
    """The baseline after labelled contrastive stages; five epochs on the given data and three on NLI are presets."""
    return baseline() | {
        "pretrain": stages,
        "hand_on": "trained",
        "contrastive_lr": 2e-5,
        "contrastive_batch_size": 16,
        "contrastive_projection": "mlp",
    }


def nli() -> dict:
    """Tables 2, 5 and 8, NLI; its rate is left open. Add --nli FILE."""
    return pretrained("simcse-nli")


def given() -> dict:
    """Tables 2, 5 and 10, 3 given: Quora's pairs, then sentences of SST and of STS, in each of five epochs."""
    return pretrained("simcse-supervised")


def given_sst() -> dict:
    """Table 2, 3 given, SST alone."""
    return given() | {"tasks": "sst"}


def given_para() -> dict:
    """Table 2, 3 given, PARA alone, on all its rows: whether the report cut them is left open."""
    return given() | {"tasks": "para"}


def given_sts() -> dict:
    """Table 2, 3 given, STS alone."""
    return given() | {"tasks": "sts"}


def heads_different() -> dict:
    """Table 3, all different."""
    values = baseline()
    del values["sharing"]
    return values


def heads_shared() -> dict:
    """Table 3, shared heads."""
    return baseline() | {"sharing": "heads"}


def first_shared() -> dict:
    """Table 3, shared first linear layer: the baseline's own setting, run again in the report."""
    return baseline()


def quora_only() -> dict:
    """Table 4, Quora only: pairs labelled 0 are candidates; the report says their loss is maximized, not how."""
    return given() | {"unsupervised_too": "none"}


def quora_no_negatives() -> dict:
    """Table 4, Quora only, no negative pairs."""
    return quora_only() | {"labelled_negatives": "no"}


def all_given() -> dict:
    """Table 4, all 3 given: what sets it apart from 3 given in table 2 is left open, here nothing."""
    return given()


def nli_before_given() -> dict:
    """Table 5, NLI before 3 given; table 7, multi-task average loss. Add --nli FILE."""
    return pretrained("simcse-nli,simcse-supervised")


def given_before_nli() -> dict:
    """Table 5, 3 given before NLI. Add --nli FILE."""
    return pretrained("simcse-supervised,simcse-nli")


def epoch_round_robin() -> dict:
    """Table 6, epoch round robin."""
    return shared(sampling="epoch-round-robin")


def batch_round_robin() -> dict:
    """Table 6, batch round robin."""
    return shared(sampling="batch-round-robin", joint_limit="smallest")


def surgery() -> dict:
    """Table 7, gradient surgery of gen-nli-before-given; averaged, which is left open. Add --nli FILE."""
    return nli_before_given() | {"surgery": "pcgrad", "surgery_reduction": "mean"}


def nli_1_epoch() -> dict:
    """Table 8, one epoch on NLI. Add --nli FILE."""
    return nli() | {"contrastive_epochs": 1}


def given_2_epochs() -> dict:
    """Table 9, two epochs on 3 given; its rate is left open."""
    return given() | {"contrastive_epochs": 2}


def given_3_epochs() -> dict:
    """Table 9, three epochs on 3 given; its rate is left open."""
    return given() | {"contrastive_epochs": 3}


def given_lr_1e_5() -> dict:
    """Table 10, 3 given at 1e-5; the row of 2e-5 is gen-given."""
    return given() | {"contrastive_lr": 1e-5}


def given_lr_3e_5() -> dict:
    """Table 10, 3 given at 3e-5."""
    return given() | {"contrastive_lr": 3e-5}
