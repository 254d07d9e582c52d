"""The one frozen dataclass of options, and what "auto" becomes. Next: command_line/checks.py, command_line/parser.py.

Imports no torch, so that `--help` and a typo answer at once.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from command_line.checks import AUTO, ENCODINGS_OF, check, encodings_of
from contrastive.presets import PRESETS
from data.readers import COURSE_FILES

SMALL = 256  # hidden size under which the defaults are others; measured with 192 units (docs/archive/results.md)


def choice(
    default,
    help: str,
    choices: tuple = (),
    low: float | None = None,
    high: float | None = None,
    group: str = "",
):
    """A dataclass field with what the command line needs; `low` and `high` are inclusive."""
    return field(
        default=default,
        metadata={"help": help, "choices": choices, "low": low, "high": high, "group": group},
    )


@dataclass(frozen=True)
class Options:
    """Every choice of a run. run_multitask.resolve replaces each "auto" whose meaning depends on machine or encoder."""

    option: str = choice(
        "finetune",
        "the course's word for which weights learn: 'pretrain' freezes the encoder and "
        "trains the shared layer and heads only; 'finetune', everything",
        ("finetune", "pretrain"),
    )
    recipe: str = choice(
        "none",
        "options of an experiment of the two reports, see --list-recipes; flags beside it win",
    )
    pretrain: str = choice(
        "none",
        "stages before the tasks, in order and separated by commas, as in mlm,simcse: mlm "
        "(masked language modelling on the tasks' own training rows); without labels simcse (Gao et "
        "al. 2021), ct and ct-in-batch (contrastive tension, Carlsson et al. 2021), sg and sg-opt "
        "(self-guided, Kim et al. 2021); on labelled pairs simcse-supervised (the GEN report), mnr "
        "(multiple negatives ranking, Henderson et al. 2017), bsc (Chernyavskiy et al. 2022); on "
        "triplets of --nli simcse-nli (Gao et al. 2021, section 4); or none",
    )
    model: str = choice(
        "minbert-mini",
        "encoder to start from: minbert-mini (embedded), minilm (setup.sh --minilm), a "
        "folder in Hugging Face layout, or a hub name such as bert-base-uncased",
    )
    data_dir: str = choice("data/sample", "folder with the nine course files")
    drop_bad_rows: bool = choice(
        False, "skip and count malformed rows of labelled files instead of stopping"
    )
    train_rows: str = choice(
        "none",
        "take at most so many training rows of a task, at even distances in its file, "
        "such as para=6000",
    )
    dev_rows: str = choice(
        "none", "the same for dev rows; the dev leaderboard file then holds only these"
    )
    token_cache: str = choice(
        AUTO,
        "folder that keeps token ids for the next run on the same text; auto: "
        "~/.cache/minbert ($XDG_CACHE_HOME); none: do not",
    )
    name: str = choice(
        AUTO, "name of the run's folder; auto: made of the options above and the seed"
    )
    output_dir: str = choice("runs", "folder of all runs")
    seed: int = choice(11711, "seed of everything random", low=0, high=2**32 - 1)
    device: str = choice(AUTO, "where to compute", (AUTO, "cpu", "cuda", "mps"))
    use_gpu: bool = choice(False, "the course's flag: the same as --device cuda")
    precision: str = choice(
        AUTO,
        "matrix products in bfloat16 or float32; weights and losses stay float32",
        (AUTO, "bf16", "fp32"),
    )
    attention: str = choice(
        AUTO,
        "written out (eager) or torch's fused kernel; the same function",
        (AUTO, "eager", "fused"),
    )
    compile: bool = choice(
        False, "torch.compile the encoder's layers, for a GPU; the first steps take a minute"
    )
    save_every: int = choice(200, "steps between checkpoints", low=1)

    epochs: int = choice(4, "passes of the multitask stage", low=1)
    batch_size: int = choice(32, "examples a batch, of one task", low=1)
    max_tokens: int = choice(
        0,
        "tokens a batch at most, padding counted, so that long rows have fewer beside them; 0: "
        "no such limit",
        low=0,
    )
    lr: float | str = choice(
        AUTO,
        "peak learning rate; auto: 1e-3 for 'pretrain', else 5e-5 x 384 / hidden size, or "
        "5e-4 for encoders under 256 units",
        low=1e-9,
    )
    vector_dropout_prob: float = choice(
        0.0, "dropout of sentence vectors, before the common layer", low=0, high=0.9
    )
    hidden_dropout_prob: float = choice(
        0.1,
        "dropout before each head (the course's name; config.json's own is "
        "--encoder-dropout); mlp: before each layer, in GEN 0.3",
        low=0,
        high=0.9,
    )
    pair_encoding: str = choice(
        AUTO,
        "pairs as one row '[CLS] a [SEP] b [SEP]' (cross), each sentence alone (bi), or "
        "a row in each order (dual); auto: what --head needs; else cross, but "
        "bi with features and a frozen encoder",
        (AUTO, "cross", "bi", "dual"),
    )
    head: str = choice(
        "features",
        "what reads a pair's vectors u and v: features (a linear layer on u, v, |u - v|, "
        "u * v); vm (on u, v); ph, dph, dpha (both orders; the ROB report); mlp (two layers, cosine for "
        "STS, bilinear for PARA; the GEN report); cosine (no weights)",
        ("features", "vm", "ph", "dph", "dpha", "mlp", "cosine"),
    )
    para_head: str = choice(
        AUTO, "PARA's own head; auto: --head", (AUTO, "features", "vm", "ph", "dph", "dpha")
    )
    sharing: str = choice(
        "none",
        "with --head mlp: PARA and STS share nothing, their heads, or the first layer",
        ("none", "heads", "first"),
    )
    sts_range: str = choice(
        "zero",
        "with --head mlp or cosine: labels 0 to 5 of STS stand for cosines from 0 to 1 "
        "(zero), or from M to 1 (fitted), M the mean cosine of the least similar training pairs "
        "when the tasks begin (Carlsson et al. 2021)",
        ("zero", "fitted"),
    )
    para_prior: float | str = choice(
        "none",
        "share of paraphrases among the pairs to judge, where training has "
        "another (Menon et al. 2021); none: as in training",
        low=0.01,
        high=0.99,
    )
    common_layer: str = choice(
        "tanh", "linear layer and tanh before all heads (ROB's CL), or none", ("tanh", "none")
    )
    pooling: str = choice("mean", "the sentence vector", ("mean", "cls", "pooler"))
    max_length: int = choice(128, "tokens a row at most; longer ones are cut", low=4)
    tasks: str = choice(
        "sst,para,sts",
        "tasks to train, in this order; with --sampling sequential or "
        "epoch-round-robin a task may come several times",
    )
    sampling: str = choice(
        "mt-dnn",
        "which batches make a step: mt-dnn shuffles all tasks' batches, one a step (Liu "
        "et al. 2019); joint puts one batch of every task in each step; batch-round-robin and "
        "epoch-round-robin take turns by batch or by task; sequential ends one task before the "
        "next; power draws a task by its size; annealed does so less and less (Stickland and Murray "
        "2019)",
        (
            "mt-dnn",
            "joint",
            "batch-round-robin",
            "epoch-round-robin",
            "sequential",
            "annealed",
            "power",
        ),
    )
    sampling_weights: str = choice(
        "none",
        "with --sampling mt-dnn: passes over a task's rows in an epoch, such as "
        "para=2,sts=0.5; 1 for those not named",
    )
    sampling_power: float = choice(
        0.5,
        "with --sampling power: a task is drawn with probability ~ size ^ this; 1 "
        "proportional, 0 uniform",
        low=0,
        high=1,
    )
    joint_limit: str = choice(
        "largest",
        "with --sampling joint or batch-round-robin: an epoch is one pass over the "
        "largest task (the smaller ones cycle) or the smallest (larger ones are cut)",
        ("largest", "smallest"),
    )
    surgery: str = choice(
        "mean",
        "how the losses of a step become one gradient: mean, sum, weighted (--loss_weights); "
        "pcgrad (Yu et al. 2020) and gradvac (Wang et al. 2021) change gradients that conflict",
        ("mean", "sum", "weighted", "pcgrad", "gradvac"),
    )
    surgery_reduction: str = choice(
        "sum",
        "with pcgrad and gradvac: the changed gradients are summed (the papers) or averaged",
        ("sum", "mean"),
    )
    gradvac_beta: float = choice(
        0.01, "with gradvac: how fast its target follows the cosines seen", low=0, high=1
    )
    loss_weights: str = choice(
        "none",
        "with --surgery weighted: factors of the tasks' losses, such as para=2,sts=0.5; "
        "1 for those not named",
    )
    schedule: str = choice(
        "linear", "learning rate after warm-up", ("linear", "cosine", "constant")
    )
    warmup: float = choice(
        0.1, "share of the steps in which the learning rate rises", low=0, high=1
    )
    weight_decay: float = choice(
        0.01, "decoupled weight decay of matrices; none on biases and norms", low=0
    )
    max_grad_norm: float = choice(1.0, "clip the gradient to this norm; 0: never", low=0)
    accumulation: int = choice(1, "steps of the plan that make one update", low=1)
    layer_decay: float = choice(
        1.0,
        "each layer of the encoder learns at this times the rate of the layer above it",
        low=0.1,
        high=1,
    )
    freeze: str = choice(
        "none",
        "what of the encoder keeps its weights: none, embeddings, or the embeddings and this "
        "many of the lowest layers",
    )
    heads_first: int = choice(
        0, "epochs after --pretrain, before the others, in which the encoder is frozen", low=0
    )
    encoder_dropout: float | str = choice(
        AUTO,
        "dropout inside the encoder; auto, here and below: as its config.json "
        "says, but if both are auto 0 in the tasks under 256 units",
        low=0,
        high=0.9,
    )
    attention_dropout: float | str = choice(AUTO, "dropout of attention links", low=0, high=0.9)
    score: str = choice(
        AUTO,
        "the dev score by which the best epoch is chosen; auto: overall_2023, or with fewer "
        "--tasks the mean of theirs",
        (AUTO, "overall_2023", "overall_2024", "sst", "para", "sts"),
    )
    patience: int = choice(
        0, "stop after this many epochs in a row without a better score; 0: never", low=0
    )

    contrastive_order: str = choice(
        "first",
        "contrastive stages of --pretrain: before the tasks (first), after them "
        "(last), or simcse with them (fusion: each batch on its task, then on the "
        "contrastive loss)",
        ("first", "last", "fusion"),
    )

    hand_on: str = choice(
        "better",
        "what a stage of --pretrain hands on: the better one, by zero-shot STS (of mlm by "
        "held-out loss), of its start and what it trained; or always that",
        ("better", "trained"),
    )

    mlm_epochs: int = choice(1, "passes of --pretrain mlm", low=1)
    mlm_batch_size: int = choice(32, "rows a batch", low=1)
    mlm_lr: float | str = choice(
        AUTO, "its peak learning rate; auto: 5e-5 x 768 / hidden size", low=1e-9
    )
    mlm_whole_word: bool = choice(False, "mask whole words instead of single tokens")

    # What a contrastive method's preset holds; auto: as in contrastive/presets.py.
    contrastive_epochs: int | str = choice(
        AUTO,
        "passes of a contrastive stage; auto, here and below: the "
        "method's preset, printed when a run starts",
        low=1,
    )
    contrastive_batch_size: int | str = choice(AUTO, "sentences or pairs a batch", low=2)
    contrastive_lr: float | str = choice(
        AUTO, "peak learning rate; auto: the preset's x 768 / hidden size", low=1e-9
    )
    contrastive_temperature: float | str = choice(AUTO, "softmax temperature", low=1e-3)
    contrastive_max_length: int | str = choice(AUTO, "tokens a sentence at most", low=4)
    contrastive_projection: str = choice(
        AUTO,
        "between pooling and loss, in training only: nothing, a linear layer "
        "and tanh (Gao et al. 2021), or two layers (the GEN report)",
        (AUTO, "none", "tanh", "mlp"),
    )
    contrastive_optimizer: str = choice(
        AUTO, "AdamW, or RMSprop (alpha 0.9, epsilon 1e-7)", (AUTO, "adamw", "rmsprop")
    )
    contrastive_schedule: str = choice(
        AUTO,
        "learning rate after warm-up; tension: the steps of Carlsson et al. 2021",
        (AUTO, "linear", "cosine", "constant", "tension"),
    )
    contrastive_warmup: float | str = choice(
        AUTO, "share of the steps in which the learning rate rises", low=0, high=1
    )
    contrastive_evaluate_every: int | str = choice(
        AUTO,
        "at most so many steps between evaluations, which are spread "
        "evenly over an epoch; 0: four of them",
        low=0,
    )
    contrastive_patience: int | str = choice(
        AUTO,
        "end a contrastive stage after so many evaluations in a row "
        "without a better score; 0: never",
        low=0,
    )
    contrastive_chunk: int | str = choice(
        AUTO,
        "rows in the encoder at a time, for large batches in little memory "
        "(gradient caching, Gao, Zhang et al. 2021); 0: all of a batch",
        low=0,
    )

    # What only some methods read; contrastive/presets.py says which.
    labelled_negatives: str = choice(
        "yes", "with simcse-supervised: PARA's pairs labelled 0 are candidates", ("yes", "no")
    )
    unsupervised_too: str = choice(
        "sst,sts",
        "with simcse-supervised: the tasks whose sentences follow PARA's pairs "
        "in each epoch, in turn, as unsupervised SimCSE",
        ("sst,sts", "none"),
    )
    nli: str = choice(
        "none",
        "the triplets of simcse-nli, which needs them: a tab-separated file with the columns "
        "premise, entailment, contradiction, or a comma-separated one with sent0, sent1, hard_neg",
    )
    hard_negative_weight: float = choice(
        0.0, "with simcse-nli: log-weight of a triplet's own contradiction", low=-20, high=20
    )
    mnr_similarity: str = choice(
        "cos", "cosine, or the dot product of Henderson et al. 2017", ("cos", "dot")
    )
    bsc_symmetric: str = choice(
        "yes", "softmax over rows and columns, or over rows only", ("yes", "no")
    )
    bsc_labelled_negatives: str = choice(
        "yes", "pairs that do not belong together are candidates", ("yes", "no")
    )
    bsc_normalise: str = choice(
        "l2",
        "vectors by their length, by each coordinate's range over the batch, or not at all",
        ("l2", "batch", "none"),
    )
    bsc_align: float | str = choice(
        "none",
        "share m of the loss that is BSC, the rest pulls a pair's cosine to its "
        "label; the paper: 0.1 to 0.9",
        low=0.01,
        high=0.99,
    )
    bsc_temperature_lr: float | str = choice(
        "none",
        "1 / temperature is a parameter that starts at 1 and learns at "
        "this peak rate; the paper: 1e-3",
        low=1e-9,
    )
    bsc_shuffle: str = choice(
        "random",
        "batches of similar length (random) or of any; or from the second epoch on "
        "similar pairs meet in a batch: knn (neighbours), cluster (k-means)",
        ("random", "any-length", "knn", "cluster"),
    )
    ct_corpus: str = choice(
        "none",
        "what contrastive tension reads: a text file, a sentence or paragraph a line; "
        "random-words, sequences drawn from the vocabulary; none: the training sentences",
    )
    ct_negatives: str = choice(
        "paper",
        "with ct: the anchor and another sentence (paper), or two others (code)",
        ("paper", "code"),
    )
    sg_loss: str = choice(
        "nt-xent",
        "with sg: all vectors as anchors (nt-xent), only T's (opt1), and only F's as "
        "candidates (opt2)",
        ("nt-xent", "opt1", "opt2"),
    )
    sg_states: str = choice(
        "max", "how F's hidden states are pooled: max (paper) or mean (code)", ("max", "mean")
    )
    sg_regulariser: float = choice(
        0.1, "weight of the squared distance of T's weights from F's", low=0
    )

    sst_train: str = choice(
        AUTO, "a file of your own; auto: DATA_DIR/ids-sst-train.csv", group="files"
    )
    sst_dev: str = choice(AUTO, "as above", group="files")
    sst_test: str = choice(AUTO, "as above", group="files")
    para_train: str = choice(AUTO, "auto: DATA_DIR/quora-train.csv", group="files")
    para_dev: str = choice(AUTO, "as above", group="files")
    para_test: str = choice(AUTO, "as above", group="files")
    sts_train: str = choice(AUTO, "auto: DATA_DIR/sts-train.csv", group="files")
    sts_dev: str = choice(AUTO, "as above", group="files")
    sts_test: str = choice(AUTO, "as above", group="files")
    sst_dev_out: str = choice(AUTO, "auto: RUN/predictions/sst-dev-output.csv", group="files")
    sst_test_out: str = choice(AUTO, "as above", group="files")
    para_dev_out: str = choice(AUTO, "as above", group="files")
    para_test_out: str = choice(AUTO, "as above", group="files")
    sts_dev_out: str = choice(AUTO, "as above", group="files")
    sts_test_out: str = choice(AUTO, "as above", group="files")

    def __post_init__(self) -> None:
        check(self)

    @property
    def head_of_para(self) -> str:
        """--para_head, which is that of all pairs where it is "auto"."""
        return self.head if self.para_head == AUTO else self.para_head

    @property
    def order(self) -> tuple[str, ...]:
        """The tasks that --tasks names, in order."""
        return tuple(self.tasks.split(","))

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages that --pretrain names, in order."""
        return () if self.pretrain == "none" else tuple(self.pretrain.split(","))

    @property
    def methods(self) -> tuple[str, ...]:
        """The contrastive ones among the stages."""
        return tuple(name for name in self.stages if name in PRESETS)

    @property
    def token_folder(self) -> Path | None:
        """Where token ids are kept from run to run."""
        if self.token_cache == "none":
            return None
        if self.token_cache != AUTO:
            return Path(self.token_cache)
        try:
            return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "minbert"
        except RuntimeError:  # a user without a home
            return None

    @property
    def shares_a_layer(self) -> bool:
        """Whether all tasks of a joint step share a layer after the encoder."""
        return self.common_layer == "tanh" or (
            self.sharing != "none" and set(self.order) == {"para", "sts"}
        )

    def changed(self) -> dict:
        """The options that differ from their defaults."""
        values = {item: getattr(self, item.name) for item in fields(self)}
        return {item.name: value for item, value in values.items() if value != item.default}

    def for_encoder(self, hidden_size: int) -> tuple[Options, dict[str, str]]:
        """Replace what is "auto" and depends on the encoder's width; also returns for each the reason, for printing."""
        small = f"hidden size {hidden_size} is under {SMALL}"
        readable = encodings_of(self)
        reason = (
            "the two sentences see each other"
            if readable[0] == "cross"
            else " and ".join(
                f"head {head}"
                for head in {self.head: 0, self.head_of_para: 0}
                if ENCODINGS_OF[head][0] == readable[0]
            )
        )
        is_apart = self.option == "pretrain" and readable == [
            "cross",
            "bi",
        ]  # frozen, it does not learn to compare
        found = {
            "pair_encoding": ("bi", "the encoder is frozen") if is_apart else (readable[0], reason)
        }
        if self.option == "pretrain":
            found["lr"] = (1e-3, "the encoder is frozen")
        elif hidden_size < SMALL:
            found["lr"] = (5e-4, small)
        else:
            found["lr"] = (5e-5 * 384 / hidden_size, f"5e-5 x 384 / hidden size {hidden_size}")
        if "mlm" in self.stages:
            found["mlm_lr"] = (5e-5 * 768 / hidden_size, f"5e-5 x 768 / hidden size {hidden_size}")
        if self.contrastive_order == "fusion" and self.methods == (
            "simcse",
        ):  # no stage, whose record would hold them
            found |= {
                f"contrastive_{name}": (getattr(PRESETS["simcse"], name), PRESETS["simcse"].source)
                for name in ("temperature", "projection", "chunk")
            }
        found = {name: pair for name, pair in found.items() if getattr(self, name) == AUTO}
        reasons = {name: reason for name, (_, reason) in found.items()}
        if not self.drops_out(hidden_size):
            reasons["encoder_dropout"] = f"0 in the tasks, {small}"
        return replace(self, **{name: value for name, (value, _) in found.items()}), reasons

    def of_stage(self, *own: str) -> dict:
        """The options that decide what a pretraining stage does: its own, and those that all stages share."""
        shared = ("pooling", "precision", "weight_decay", "max_grad_norm", "seed", "hand_on")
        return {name: getattr(self, name) for name in (*shared, *own)}

    def dropout_of_encoder(self) -> dict[str, float]:
        """The fields of the encoder's config that are given."""
        given = {
            "hidden_dropout_prob": self.encoder_dropout,
            "attention_probs_dropout_prob": self.attention_dropout,
        }
        return {name: value for name, value in given.items() if value != AUTO}

    def drops_out(self, hidden_size: int) -> bool:
        """Whether there is dropout inside the encoder in the tasks too; fusion makes SimCSE's two views with it."""
        return (
            hidden_size >= SMALL
            or self.contrastive_order == "fusion"
            or bool(self.dropout_of_encoder())
        )

    def with_files(self) -> Options:
        """Input files that were not given are the course's names in data_dir."""
        files = {
            f"{task}_{split}": str(Path(self.data_dir) / name)
            for task, splits in COURSE_FILES.items()
            for split, name in splits.items()
        }
        return replace(
            self, **{name: path for name, path in files.items() if getattr(self, name) == AUTO}
        )

    def input_files(self) -> list[str]:
        own = [path for path in (self.nli, self.ct_corpus) if path not in ("none", "random-words")]
        return [
            getattr(self, f"{task}_{split}")
            for task, splits in COURSE_FILES.items()
            for split in splits
        ] + own
