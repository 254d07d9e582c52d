"""SentenceEncoder: sentence vectors in the protocol of sentence-transformers.

Whatever takes a sentence-transformers model and calls `encode` can take this one, without an
export. MTEB (Muennighoff et al. 2023) evaluates it as it is, and so do the evaluators of
sentence-transformers.

N sentences, H size of a vector, A and B numbers of vectors that are compared.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from contrastive.embedder import NUM_SPECIAL_TOKENS, open_embedder
from minbert.reporting import terminal

Vectors = Tensor | np.ndarray | list[Tensor] | list[np.ndarray]

# Names that folders give to the prompt of a document, in the order of sentence-transformers.
DOCUMENT_PROMPTS = ("document", "passage", "corpus")

# Arguments of sentence-transformers that change the result, the one value that is computed here,
# and what to do for another.
ONLY = {
    "output_value": ("sentence_embedding", "BertModel gives the vectors of the tokens"),
    "precision": ("float32", "round the vectors yourself"),
    "device": (None, "pass device= to SentenceEncoder"),
    "pool": (None, "start several processes yourself"),
    "chunk_size": (None, "start several processes yourself"),
}

# What MTEB says of the task beside the sentences. `encode` reads the first two.
OF_MTEB = ("task_metadata", "prompt_type", "hf_split", "hf_subset", "num_proc")


class Evaluation(NamedTuple):
    """What an evaluator of sentence-transformers has measured."""

    evaluator: str  # its kind, such as "Reranking"
    metrics: dict[str, Any]  # by name, which begins with the evaluator's own name
    epoch: int
    step: int


class ModelCardData:
    """Where the evaluators of sentence-transformers leave their metrics.

    evaluations: all of them, in order. sentence-transformers prints them in a model card.
    """

    def __init__(self) -> None:
        self.evaluations: list[Evaluation] = []

    def set_evaluation_metrics(
        self, evaluator: Any, metrics: dict[str, Any], epoch: int = 0, step: int = 0
    ) -> None:
        """Keep the metrics of one call of an evaluator."""
        self.evaluations.append(Evaluation(evaluator.description, dict(metrics), epoch, step))


class SentenceEncoder:
    """A model that turns sentences into vectors.

    model, pooling, max_length, device, precision: as the flags of `python -m contrastive.embed`.
    The modules, prompts and maximum length of a sentence-transformers folder are honoured. Compare
    with sentence_transformers.SentenceTransformer, which gives the same vectors.

    Attributes: `notes`, a line on each choice with its reason. `prompts`, texts to put before a
    sentence, by name. `similarity_fn_name`: "cosine", "dot", "euclidean" or "manhattan".
    `model_card_data`: what evaluators have measured.

    Raises ValueError as `open_embedder`.
    """

    def __init__(
        self,
        model: str | Path,
        pooling: str = "auto",
        max_length: int | None = None,
        device: str = "auto",
        precision: str = "fp32",
    ) -> None:
        self.name = str(model)
        self.model_card_data = ModelCardData()
        self.embedder, self.notes = open_embedder(
            model, pooling, max_length, device=device, precision=precision
        )
        modules = self.embedder.modules
        self.prompts = {} if modules is None else dict(modules.prompts)
        self.similarity_fn_name = "cosine" if modules is None else modules.similarity
        if self.similarity_fn_name not in SIMILARITIES:
            raise ValueError(
                f"{model}: similarity_fn_name is '{self.similarity_fn_name}' in "
                f"config_sentence_transformers.json; known are {', '.join(SIMILARITIES)}."
            )

    @property
    def max_seq_length(self) -> int:
        """The most tokens of a sentence, [CLS] and [SEP] included. Longer ones are cut."""
        return self.embedder.max_length

    @property
    def device(self) -> torch.device:
        """Where the model computes."""
        return next(self.embedder.encoder.parameters()).device

    @cached_property
    def dimension(self) -> int:
        """H, the size of a vector."""
        return self.embedder.vectors_of(self.embedder.rows_of(["a"], "")).size(1)

    def get_sentence_embedding_dimension(self) -> int:
        """H, under the name of sentence-transformers."""
        return self.dimension

    # --- sentences to vectors ---------------------------------------------------------------------

    def encode(
        self,
        sentences: str | Iterable[Any],
        *,
        prompt_name: str | None = None,
        prompt: str | None = None,
        batch_size: int = 32,
        show_progress_bar: bool | None = False,
        convert_to_numpy: bool = True,
        convert_to_tensor: bool = False,
        normalize_embeddings: bool = False,
        **others: Any,
    ) -> Any:
        """Encode sentences, in their order.

        sentences: one text, or one for each row, or the batches of MTEB, which hold a list "text".
        prompt: a text before each sentence. prompt_name: one of `prompts` instead. Default: the
            model's own, if it has one.
        batch_size: sentences in the model at a time. It changes no result.
        show_progress_bar: on standard error.
        convert_to_numpy, convert_to_tensor: an array, or a tensor on `device`. Neither: a list of
            tensors.
        normalize_embeddings: bring each vector to length 1.
        others: truncate_dim keeps the first units of each vector. task_metadata and prompt_type are
            MTEB's, and choose a prompt.

        Returns (N, H) float32, or (H,) for one text. A text that is longer than `max_seq_length`
        tokens is cut, and one without any token has the vector of [CLS] and [SEP] alone.
        Raises ValueError for a text that is no str, a prompt that is not there, an argument that is
        not computed here, and vectors that are not finite.
        """
        check_arguments(others)
        if batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}; pass a whole number of 1 or more.")
        texts = texts_of(sentences)
        if prompt is None and prompt_name is None and others.get("task_metadata") is not None:
            prompt_name = self._name_for_task(others["task_metadata"], others.get("prompt_type"))
        text = self._prompt(prompt, prompt_name)

        vectors = torch.zeros(0, self.dimension)
        if texts:
            vectors = self._vectors_of(texts, text, batch_size, bool(show_progress_bar))  # (N, H)
        if others.get("truncate_dim") is not None:
            vectors = vectors[:, : others["truncate_dim"]]
        if normalize_embeddings:
            vectors = F.normalize(vectors, dim=-1)

        result: Any = list(vectors)
        if convert_to_tensor:
            result = vectors.to(self.device)
        elif convert_to_numpy:
            result = vectors.numpy()
        return result[0] if isinstance(sentences, str) else result

    def encode_query(self, sentences: str | Iterable[Any], **arguments: Any) -> Any:
        """Encode questions: with the prompt "query" where the model has one. Else as `encode`."""
        return self.encode(sentences, **self._with_prompt(("query",), arguments))

    def encode_document(self, sentences: str | Iterable[Any], **arguments: Any) -> Any:
        """Encode texts that are searched: with the prompt "document", "passage" or "corpus"."""
        return self.encode(sentences, **self._with_prompt(DOCUMENT_PROMPTS, arguments))

    def _vectors_of(
        self, texts: list[str], prompt: str, batch_size: int, has_progress_bar: bool
    ) -> Tensor:
        """The vectors (N, H) of one or more texts, on the CPU."""
        embedder = replace(self.embedder, batch_size=batch_size)
        rows = embedder.rows_of(texts, prompt)
        num_empty = int((rows.lengths <= NUM_SPECIAL_TOKENS).sum())
        if num_empty:
            warnings.warn(
                f"{num_empty:,} of {len(texts):,} sentences hold no token that the model reads; "
                "their vectors are all the same and mean little.",
                stacklevel=3,
            )
        unknown = rows.warn_of_unknown("the sentences")
        if unknown is not None:
            warnings.warn(unknown.removeprefix("warning: "), stacklevel=3)
        if not has_progress_bar:
            return embedder.vectors_of(rows, iter)
        with terminal.session("sentence vectors", uses_stderr=True):
            return embedder.vectors_of(rows)

    # --- prompts ----------------------------------------------------------------------------------

    def _prompt(self, prompt: str | None, prompt_name: str | None) -> str:
        """The text before each sentence."""
        modules = self.embedder.modules
        if prompt is None and prompt_name is None:
            return "" if modules is None else modules.prompt
        if prompt is None:
            assert prompt_name is not None
            if prompt_name not in self.prompts:
                raise ValueError(
                    f"prompt_name is '{prompt_name}'; this model has the prompts "
                    f"{', '.join(self.prompts) or 'none'}. Pass one of them, or the text as prompt."
                )
            prompt = self.prompts[prompt_name] or ""
        if prompt and modules is not None and not modules.includes_prompt:
            raise ValueError(
                "this model leaves the tokens of a prompt out of the pooling (include_prompt is "
                "false), which is not computed here. Pass prompt='' to encode without one."
            )
        return prompt

    def _with_prompt(
        self, names: tuple[str, ...], arguments: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Add the first of the named prompts that the model has, unless a prompt was passed."""
        is_open = arguments.get("prompt") is None and arguments.get("prompt_name") is None
        name = next((name for name in names if name in self.prompts), None)
        return {**arguments, "prompt_name": name} if is_open and name else arguments

    def _name_for_task(self, task_metadata: Any, prompt_type: Any) -> str | None:
        """The name of the prompt for a task of MTEB, which looks for the most specific one."""
        kind = str(getattr(prompt_type, "value", prompt_type))
        names = [f"{task_metadata.name}-{kind}", task_metadata.name]
        names += [f"{task_metadata.type}-{kind}", task_metadata.type, kind]
        if kind == "document":
            names += DOCUMENT_PROMPTS
        return next((name for name in names if name in self.prompts), None)

    # --- vectors beside each other ----------------------------------------------------------------

    def similarity(self, embeddings1: Vectors, embeddings2: Vectors) -> Tensor:
        """Compare all vectors (A, H) with all vectors (B, H) by `similarity_fn_name`: (A, B)."""
        compare = SIMILARITIES[self.similarity_fn_name].of_all
        return compare(tensor_of(embeddings1), tensor_of(embeddings2))  # (A, B)

    def similarity_pairwise(self, embeddings1: Vectors, embeddings2: Vectors) -> Tensor:
        """Compare vectors (A, H) and (A, H) one by one by `similarity_fn_name`: (A,)."""
        compare = SIMILARITIES[self.similarity_fn_name].of_pairs
        return compare(tensor_of(embeddings1), tensor_of(embeddings2))  # (A,)

    # --- MTEB -------------------------------------------------------------------------------------

    @cached_property
    def mteb_model_meta(self) -> Any:
        """The description that MTEB stores beside results. mteb must be installed.

        MTEB keeps results by name and revision. The revision is therefore a digest of the weights
        and of all that changes the vectors.
        """
        from mteb.models.model_meta import ModelMeta, ScoringFunction

        folder_name = Path(self.name).name
        parameters = self.embedder.encoder.parameters()
        return ModelMeta.create_empty(
            {
                "name": f"minbert/{folder_name}",
                "revision": self.revision,
                "n_parameters": sum(parameter.numel() for parameter in parameters),
                "max_tokens": self.max_seq_length,
                "embed_dim": self.dimension,
                "similarity_fn_name": ScoringFunction(self.similarity_fn_name),
                "framework": ["PyTorch"],
                "use_instructions": bool(self.prompts),
            }
        )

    @property
    def revision(self) -> str:
        """A digest of the weights, the tokenizer, and how vectors are made of them."""
        parts = self.embedder.identity().values()
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


# --- arguments ------------------------------------------------------------------------------------


def check_arguments(others: Mapping[str, Any]) -> None:
    """Raise ValueError for an argument of `encode` that is not known or not computed here."""
    for name, value in others.items():
        if name == "truncate_dim" or name in OF_MTEB:
            continue
        if name not in ONLY:
            raise ValueError(
                f"encode takes no argument '{name}'. Beside those of its signature it takes "
                f"{', '.join(['truncate_dim', *ONLY, *OF_MTEB])}."
            )
        computed, advice = ONLY[name]
        if value not in (None, computed):
            raise ValueError(f"{name} is {value!r}; computed is {computed!r} alone: {advice}.")


def texts_of(sentences: str | Iterable[Any]) -> list[str]:
    """The texts of an argument of `encode`; ValueError for anything that is no str."""
    if isinstance(sentences, str):
        return [sentences]
    texts: list[Any] = []
    for item in sentences:
        # A batch of MTEB has further columns, such as the ids.
        if isinstance(item, Mapping):
            texts += item["text"]
        else:
            texts.append(item)
    for place, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValueError(
                f"sentence {place + 1} is {text!r}; expected is a str. Replace or drop missing "
                "values first."
            )
    return texts


# --- similarities ---------------------------------------------------------------------------------


def tensor_of(vectors: Vectors) -> Tensor:
    """Vectors as a tensor (A, H) float32; one vector (H,) becomes (1, H)."""
    if isinstance(vectors, list):
        vectors = torch.stack([torch.as_tensor(vector) for vector in vectors])
    return torch.atleast_2d(torch.as_tensor(vectors).float())


class Similarity(NamedTuple):
    """A way to compare vectors. Higher is more similar, so distances are negative."""

    # All vectors (A, H) with all vectors (B, H): (A, B).
    of_all: Callable[[Tensor, Tensor], Tensor]

    # Vectors (A, H) and (A, H) one by one: (A,).
    of_pairs: Callable[[Tensor, Tensor], Tensor]


def unit(vectors: Tensor) -> Tensor:
    """Bring each vector to length 1."""
    return F.normalize(vectors, dim=-1)


# By the names of sentence-transformers.
SIMILARITIES = {
    "cosine": Similarity(
        lambda first, second: unit(first) @ unit(second).T,
        lambda first, second: (unit(first) * unit(second)).sum(dim=-1),
    ),
    "dot": Similarity(
        lambda first, second: first @ second.T,
        lambda first, second: (first * second).sum(dim=-1),
    ),
    "euclidean": Similarity(
        lambda first, second: -torch.cdist(first, second),
        lambda first, second: -(first - second).norm(dim=-1),
    ),
    "manhattan": Similarity(
        lambda first, second: -torch.cdist(first, second, p=1),
        lambda first, second: -(first - second).norm(p=1, dim=-1),
    ),
}
