"""The table of mistakes: a change of a released body, and a word of the hint that names its cause.

A row is a function, the text that is replaced in its body, the wrong text, and the hint as a
regular expression. The body is the one of `tests/teaching/answers.py::released`.
"""

from __future__ import annotations

from typing import NamedTuple


class Mistake(NamedTuple):
    """One row of the table."""

    function: str
    right: str
    wrong: str
    hint: str

    # What `minbert trace --against` names: the station, or "changed" for an argument.
    station: str = ""


MISTAKES = [
    Mistake(
        "attention",
        "query / math.sqrt(head_size)",
        "query",
        r"divide by sqrt\(head size\)",
        "scores",
    ),
    Mistake("attention", "math.sqrt(head_size)", "head_size", "instead of sqrt", "scores"),
    Mistake("attention", "query / math", "query * math", "multiplied by sqrt", "scores"),
    Mistake("attention", "dim=-1", "dim=-2", "over the keys", "attention"),
    Mistake("attention", "dim=-1", "dim=1", "over the keys", "attention"),
    Mistake(
        "attention",
        "query @ key.transpose(-2, -1)",
        "key @ query.transpose(-2, -1)",
        "swapped",
        "scores",
    ),
    Mistake("attention", "scores + mask_bias", "scores", "masked token still counts", "scores"),
    Mistake(
        "attention",
        "scores + mask_bias",
        "scores - mask_bias",
        "masked token still counts",
        "scores",
    ),
    Mistake(
        "attention",
        "dropout(probabilities, dropout_probability, training)",
        "probabilities",
        "nothing was dropped",
    ),
    Mistake(
        "attention",
        "dropout_probability, training",
        "dropout_probability, True",
        "training",
        "weighted mean",
    ),
    Mistake("mask_to_bias", "torch.finfo(dtype).min", "-torch.inf", "finite", "mask"),
    Mistake(
        "mask_to_bias", "torch.finfo(dtype).min", "torch.finfo(dtype).tiny", "very negative", "mask"
    ),
    Mistake("mask_to_bias", "== 0", "== 1", "1 means real", "mask"),
    Mistake("AdamW.update", "m.lerp_(gradient, 1 - beta_1)", "m.copy_(gradient)", "that g itself"),
    Mistake("AdamW.update", "gradient, gradient, value", "gradient, 1, value", ""),
    Mistake("AdamW.update", "math.sqrt(1 - beta_2 ** t)", "(1 - beta_2 ** t)", "not 1 - beta_2"),
    Mistake("AdamW.update", "/ (1 - beta_1 ** t)", "* (1 - beta_1 ** t)", ""),
    Mistake("AdamW.update", "v.sqrt()", "v.clone()", "square root"),
    Mistake("AdamW.update", "value=-step_size", "value=step_size", "up the gradient"),
    Mistake("AdamW.update", "alpha=-learning_rate *", "alpha=learning_rate *", "wrong sign"),
    Mistake("AdamW.update", "alpha=-learning_rate *", "alpha=-", "not multiplied by lr"),
    Mistake(
        "AdamW.update", "alpha=-learning_rate *", "alpha=-step_size *", "multiplied by lr alone"
    ),
    Mistake("AdamW.update", "beta_1, beta_2", "beta_2, beta_1", "swapped|correction"),
    Mistake(
        "BertEmbeddings.forward",
        "words + segments + positions",
        "words + positions",
        "token_type_ids",
        "sum",
    ),
    Mistake(
        "BertEmbeddings.forward",
        "words + segments + positions",
        "words + segments",
        "position embedding is missing",
        "sum",
    ),
    Mistake(
        "FeedForward.forward",
        "self.activation(self.up(hidden_states))",
        "self.up(hidden_states)",
        "gelu|GELU|erf",
        "activated",
    ),
    Mistake(
        "BertLayer.forward",
        "hidden_states + self.dropout(attended)",
        "self.dropout(attended)",
        "",
        "sum 1",
    ),
    Mistake("linear", "num_steps - num_warmup_steps", "num_steps", "after the warm-up"),
    Mistake("cosine", "0.5 * (1.0 + ", "(", ""),
    Mistake("mask_tokens", "& ~is_special", "", "special"),
    Mistake("mask_tokens", "fate < 0.9", "fate < 1.0", ""),
    Mistake("sentiment_loss", "labels.long())", "labels.long(), reduction='sum')", "mean|sum"),
    Mistake("paraphrase_loss", "logit.float() + shift * is_class", "logit.float()", "shift"),
    Mistake(
        "similarity_loss",
        "F.mse_loss(prediction.float(), labels.float())",
        "(prediction.float() - labels.float()).abs().mean()",
        "square them",
    ),
    Mistake("info_nce", "hard + hard_negative_weight * is_own", "hard", "not heeded"),
    Mistake("info_nce", "hard_negative_weight * is_own", "hard_negative_weight", "alone, j = i"),
    Mistake("info_nce", "same & is_other", "same", "diagonal"),
    Mistake("info_nce", "hard.masked_fill(same_hard, -torch.inf)", "hard", "same_hard"),
    Mistake("info_nce", "torch.cat([logits, hard], dim=1)", "logits", "hard negatives are not"),
    Mistake("joint", "max(counts)", "min(counts)", ""),
    Mistake("mt_dnn", "for index in order", "for index in sorted(order)", ""),
    Mistake("pcgrad_weights", "-= product", "+= product", "subtract"),
    Mistake("pcgrad_weights", "product / squared_norm", "product", "squared length"),
    Mistake("pcgrad_weights", "j != i and ", "", ""),
    Mistake(
        "pcgrad_weights",
        "torch.randperm(num_tasks, generator=generator).tolist()",
        "range(num_tasks)",
        "order",
    ),
]
