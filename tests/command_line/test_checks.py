"""Combinations of options of which one part would be ignored, and those that make sense.

The checks stand in command_line/checks.py and, inside one package, in its options.py.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from multitask.head_registry import HEADS as HEAD_ENTRIES
from tests.toy_options import options_of, refusal

# A command line, and words of the message that refuses it.

# Heads, and how pairs are encoded.
HEADS = [
    (
        "--head ph --pair_encoding bi",
        "--head ph cannot read --pair_encoding bi. It must be dual.",
    ),
    (
        "--pair_encoding dual",
        "--head features cannot read --pair_encoding dual. It must be cross or bi.",
    ),
    (
        "--head vm --para_head dph --pair_encoding cross",
        "--para_head dph cannot read --pair_encoding",
    ),
    (
        "--head mlp --pair_encoding cross --pooling cls",
        "--head mlp reads a vector of each sentence, and --pair_encoding cross with --pooling cls",
    ),
    (
        "--head cosine",
        "--head cosine has nothing to train for PARA; add --para_head features, or --tasks sst,",
    ),
    (
        "--head cosine --para_head features --pair_encoding cross --pooling cls",
        "gives one of both. Pass --pair_encoding bi, or --pooling mean.",
    ),
    (
        "--head cosine --para_head ph",
        "--head cosine and --para_head ph read pairs in different encodings",
    ),
    (
        "--head mlp --para_head features",
        "--para_head has no effect with --head mlp; add --head features or",
    ),
    (
        "--sharing first",
        "--sharing has no effect with --head features; add --head mlp, or pass --sharing none.",
    ),
    (
        "--tasks sst,sts --head ph --para-head dph",
        "--para_head dph has no effect with --tasks sst",
    ),
    (
        "--tasks sst,sts --para-prior 0.37",
        "--para_prior 0.37 has no effect with --tasks sst,sts",
    ),
    (
        "--para_head ph",
        "--head features and --para_head ph read pairs in different encodings (cross or bi; dual)",
    ),
]

# Tasks, sampling, and what is trained.
TASKS = [
    (
        "--freeze all",
        "--freeze is 'all'; it is none, embeddings, or a number of layers.",
    ),
    (
        "--option pretrain --freeze 1",
        "--option pretrain freezes the whole encoder, so --freeze 1 would have no effect. Drop "
        "--freeze 1, or pass --option finetune.",
    ),
    (
        "--option pretrain --heads_first 2 --layer_decay 0.9",
        "so --layer_decay 0.9 and --heads_first 2 would have no effect. Drop --layer",
    ),
    (
        "--heads_first 1 --sampling sequential",
        "its epochs would all go to the first task.",
    ),
    (
        "--score sts --tasks sst",
        "--score sts cannot select an epoch of --tasks sst; it can be sst.",
    ),
    (
        "--patience 1 --sampling sequential",
        "would end the run, and the later ones would not begin.",
    ),
    (
        "--tasks sst,qqp",
        "--tasks is 'sst,qqp'; it is some of these, separated by commas: sst, para, sts, cfimdb.",
    ),
    (
        "--tasks sst,sts,sst",
        "names a task twice; that has a meaning with --sampling epoch-round-robin and sequ",
    ),
    (
        "--sampling_weights para",
        "--sampling_weights is 'para'; it is none, or tasks, each once, with a number",
    ),
    (
        "--sampling_weights para=0",
        "--sampling_weights is 'para=0'; it is none, or tasks, each once, with a",
    ),
    (
        "--sampling_weights para=2,para=3",
        "--sampling_weights is 'para=2,para=3'; it is none, or tasks, each ",
    ),
    (
        "--tasks sst,sts --sampling_weights para=2",
        "--sampling_weights para=2 names a task that --tasks sst,sts does not train; leave it "
        "out, or pass ",
    ),
    (
        "--joint_limit smallest",
        "--joint_limit has no effect with --sampling mt-dnn; add --sampling joint or",
    ),
]

# Gradients of several tasks.
SURGERY = [
    (
        "--surgery pcgrad --sampling joint --option pretrain --common_layer none --head mlp "
        "--pair_encoding bi --sharing first",
        "the tasks share no parameter that is trained. Drop one",
    ),
    (
        "--surgery pcgrad",
        "--surgery pcgrad has no effect with --sampling mt-dnn: its steps hold one task each. Add "
        "--sampling joint, or --accumulation 2.",
    ),
    (
        "--surgery sum --accumulation 4",
        "its steps hold one task each. Add --sampling joint.",
    ),
    (
        "--surgery gradvac --accumulation 4 --sampling sequential",
        "Add --sampling joint.",
    ),
    (
        "--surgery pcgrad --sampling joint --tasks sst",
        "one task has one gradient. Drop it.",
    ),
    (
        "--surgery weighted",
        "--surgery weighted has no weights; add --loss_weights, such as para=2.",
    ),
    (
        "--surgery pcgrad --sampling joint --option pretrain --common_layer none",
        "the tasks share no parameter that is trained. Drop one of the three.",
    ),
    (
        "--gradvac-beta 0.1",
        "effect with --surgery mean; add --surgery gradvac, or pass --gradvac_beta 0.01.",
    ),
]

# Stages of --pretrain.
STAGES = [
    (
        "--hand_on trained",
        "--hand_on has no effect without --pretrain mlm or simcse",
    ),
    (
        "--hand_on trained --pretrain simcse --contrastive_order fusion",
        "--hand_on has no effect without --pretrain mlm or simcse-supervised",
    ),
    (
        "--hand_on trained --pretrain ct --contrastive_order last",
        "--hand_on has no effect with",
    ),
    (
        "--contrastive_order fusion",
        "--contrastive_order has no effect without --pretrain simcse; add",
    ),
    (
        "--contrastive_order fusion --pretrain simcse --sampling joint --surgery pcgrad",
        "the contrastive loss is no task of its own. Drop one of the two.",
    ),
    (
        "--contrastive_order fusion --pretrain simcse --accumulation 2",
        "--accumulation 2 would mix",
    ),
    (
        "--contrastive_order fusion --pretrain simcse --option pretrain",
        "fusion trains the encoder, which --option pretrain freezes. Drop one of the two.",
    ),
    (
        "--contrastive_order fusion --pretrain simcse --contrastive_projection none --heads_first "
        "1",
        "--contrastive_projection none trains only the encoder, which --heads_first 1 freezes at",
    ),
    (
        "--contrastive_order last --pretrain mlm,ct",
        "masked language modelling comes before the tasks",
    ),
    (
        "--contrastive_lr 1e-5",
        "--contrastive_lr has no effect without --pretrain simcse or simcse-",
    ),
    (
        "--contrastive-epochs 2 --pretrain mlm",
        "--contrastive_epochs has no effect without",
    ),
    (
        "--contrastive_order last",
        "--contrastive_order has no effect without --pretrain simcse or",
    ),
    (
        "--contrastive_temperature 1 --pretrain ct",
        "--contrastive_temperature has no effect without",
    ),
    (
        "--contrastive_temperature 1 --pretrain bsc --bsc_temperature_lr 1e-3",
        "--contrastive_temperature has no effect without",
    ),
    (
        "--contrastive_projection mlp --pretrain matryoshka",
        "--contrastive_projection has no",
    ),
    (
        "--contrastive_batch_size 12 --pretrain ct",
        "--contrastive_batch_size is 12; with ct it is a",
    ),
    (
        "--contrastive_text_order sst,sts --pretrain bsc",
        "--contrastive_text_order has no effect without --pretrain simcse or sg or sg-opt",
    ),
    (
        "--contrastive_text_order sst,stsb --pretrain simcse",
        "--contrastive_text_order is 'sst,stsb'; it is shuffled, or some of the tasks that are",
    ),
    (
        "--contrastive_text_order sst,sst --pretrain simcse",
        "it is shuffled, or some of the tasks that are read, each once: sst,para,sts.",
    ),
    (
        "--contrastive_text_order sst,para --tasks sst --pretrain simcse",
        "it is shuffled, or some of the tasks that are read, each once: sst.",
    ),
    (
        "--contrastive_text_shares para=6 --pretrain simcse",
        "--contrastive_text_shares para=6: the share of para must be above 0 and at most 1.",
    ),
    (
        "--contrastive_text_shares 0.06 --pretrain simcse",
        "--contrastive_text_shares is '0.06'",
    ),
    (
        "--contrastive_text_order sst,sts --contrastive_text_shares para=0.06 --pretrain simcse",
        "--contrastive_text_shares para=0.06: there is no task para; there are sst, sts.",
    ),
    (
        "--pretrain simcse --contrastive_keep last --contrastive_patience 3",
        "--contrastive_patience 3 has no effect with --contrastive_keep last",
    ),
    (
        "--pretrain simcse --contrastive_order fusion --contrastive_text_order sst",
        "--contrastive_text_order has no effect without --pretrain sg or sg-opt",
    ),
    (
        "--pretrain simcse --contrastive_order fusion --contrastive_lr 1e-5",
        "--contrastive_lr has no effect without --pretrain simcse-supervised or simcse-nli or",
    ),
    (
        "--ct_negatives code --pretrain ct-in-batch",
        "--ct_negatives has no effect without --pretrain ct;",
    ),
    (
        "--sg_loss opt1 --pretrain sg-opt",
        "--sg_loss has no effect without --pretrain sg; add that or drop",
    ),
    (
        "--bsc_align 0.5 --pretrain mnr",
        "--bsc_align has no effect without --pretrain bsc; add that or drop",
    ),
    (
        "--bsc_align 0 --pretrain bsc",
        "--bsc_align is 0.0; it must be 0.01 to 0.99",
    ),
    (
        "--bsc_align 1 --pretrain bsc",
        "--bsc_align is 1.0; it must be 0.01 to 0.99",
    ),
    (
        "--bsc_align half --pretrain bsc",
        "argument --bsc_align: invalid number value: 'half'",
    ),
    (
        "--bsc_shuffle knn --pretrain bsc --contrastive_epochs 1",
        "--bsc_shuffle knn has no effect",
    ),
    (
        "--nli a.tsv --pretrain simcse-supervised",
        "--nli has no effect without --pretrain simcse-nli; add that or drop it.",
    ),
    (
        "--hard_negative_weight 1 --pretrain simcse-supervised",
        "--hard_negative_weight has no effect",
    ),
    (
        "--labelled_negatives no --nli a.tsv --pretrain simcse-nli",
        "--labelled_negatives has no effect without --pretrain simcse-supervised; add that or "
        "drop it.",
    ),
    (
        "--unsupervised_too none --pretrain simcse",
        "--unsupervised_too has no effect without --pretrain",
    ),
    (
        "--pretrain simcse-supervised,simcse-nli",
        "the stage simcse-nli trains on triplets of sentences, and no file of them is named; add "
        "--nli FILE, tab-",
    ),
    (
        "--mlm_lr 1e-5 --pretrain simcse",
        "--mlm_lr has no effect without --pretrain mlm; add that or drop",
    ),
]

# Device, files and lengths.
FILES = [
    ("--skip tests", "--skip is 'tests'; it is none, or some of these, separated by commas: est"),
    ("--skip test,test", "--skip test,test names a part twice."),
    (
        "--skip estimate,test --sst_test_out a.csv",
        "--sst_test_out has no effect with --skip estimate,test: test files are not predicted.",
    ),
    (
        "--formulas readable --attention fused",
        "--formulas readable computes attention step by step, and --attention fused by torch's",
    ),
    (
        "--use_gpu --device cpu",
        "--use_gpu asks for cuda and --device for cpu; pass only one of them.",
    ),
    (
        "--max-tokens 100",
        "--max_tokens 100 is less than one row may have, --max_length 128. Give more",
    ),
    (
        "--train_rows qqp=5",
        "--train_rows qqp=5: there is no task qqp; there are sst, para, sts, cfimdb.",
    ),
    (
        "--dev_rows sst=2.5",
        "--dev_rows is 'sst=2.5'; it is none, or tasks, each once, with a whole number above",
    ),
    (
        "--sst_dev_out a.csv --sts_dev_out ./a.csv",
        "--sts_dev_out a.csv: it is --sst_dev_out already;",
    ),
    (
        "--data-dir my --sst_dev_out my/sts-dev.csv",
        "--sst_dev_out my/sts-dev.csv: it is an input already;",
    ),
]

SENSIBLE = [
    "--skip estimate,baselines --sst_test_out a.csv",
    "--use_gpu --device cuda",
    "--sampling joint --joint_limit smallest",
    "--pretrain simcse --contrastive_lr 1e-5",
    "--lr auto",
    "--sst_train a.csv --sst_dev a.csv",
    "--pretrain bsc --bsc_align none",
    "--pretrain ct,bsc --contrastive_temperature 1",
    "--pretrain ct --contrastive_batch_size 8",
    "--pretrain ct,bsc --contrastive_order last",
    "--head vm --para_head dph",
    "--head cosine --para_head features",
    "--head vm --para_head features",
    "--sampling joint --surgery sum",
    "--sampling annealed --surgery pcgrad --accumulation 4",
    "--pretrain simcse-nli --nli a.tsv",
    "--pretrain simcse --contrastive_order fusion --contrastive_temperature 0.1",
    "--pretrain simcse --contrastive_text_order sts --contrastive_text_shares sts=0.5",
    "--pretrain sg --contrastive_text_order para,sst --tasks sst --untrained_tasks para,sts",
]


@pytest.mark.parametrize(("line", "words"), [*HEADS, *TASKS, *SURGERY, *STAGES, *FILES])
def test_a_combination_that_is_refused(capsys, line, words):
    assert words in refusal(capsys, *line.split())


def test_the_refusal_names_the_flag_of_the_head(capsys, monkeypatch):
    """A head of a plugin may need two vectors, for PARA alone."""
    monkeypatch.setitem(HEAD_ENTRIES, "vm", replace(HEAD_ENTRIES["vm"], needs_two_vectors=True))
    line = "--head features --para_head vm --pair_encoding cross --pooling cls"
    assert "--para_head vm reads a vector of each sentence" in refusal(capsys, *line.split())


@pytest.mark.parametrize("line", SENSIBLE)
def test_a_combination_that_makes_sense(line):
    """It is not refused, and each of its flags has the value that it was given."""
    values = options_of(*line.split()).flat()
    for part in line.split("--")[1:]:
        name, *words = part.split()
        text = words[0] if words else "True"
        value = values[name.replace("-", "_")]
        assert str(value) == text or value == float(text)
