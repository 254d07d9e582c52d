"""Small random models of each family, made and written by transformers, with real tokenizers.

The weights of the large models are not at hand everywhere. These have their architecture, their
kind of tokenizer and their layout of files. A tokenizer is trained on a few sentences.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, processors, trainers

SENTENCES = (
    "The girl is helping an old man near the hotel.",
    "A man is playing the guitar, and two dogs are running!",
    "Das Mädchen hilft dem alten Mann über die Straße.",
    "Un homme joue de la guitare à côté de l'hôtel.",
    "Una niña está corriendo por la calle.",
    "Старый человек играет на гитаре возле гостиницы.",
    "一个男人在弹吉他。",
    "THE GIRL ran; it wasn't far: 3,5 km (2.2 miles).",
)
WORD_PIECE_TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
ROBERTA_TOKENS = ["<s>", "<pad>", "</s>", "<unk>"]
MASK = "<mask>"

# Of transformers' config classes. Names of DistilBERT's own stand below.
SHAPE: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 130,
    "initializer_range": 0.2,
}
DISTILBERT_SHAPE: dict[str, Any] = {
    "dim": 32,
    "n_layers": 2,
    "n_heads": 4,
    "hidden_dim": 48,
    "max_position_embeddings": 128,
    "initializer_range": 0.2,
}


# --- tokenizers -----------------------------------------------------------------------------------


def write_json(path: Path, content: object) -> None:
    """Write a file of JSON."""
    path.write_text(json.dumps(content, indent=2), encoding="utf-8")


def write_word_piece(folder: Path, is_cased: bool, class_name: str = "BertTokenizer") -> None:
    """Write vocab.txt with the words and characters of SENTENCES, and its switches."""
    words: dict[str, None] = {}
    characters: dict[str, None] = {}
    for sentence in SENTENCES:
        text = sentence if is_cased else sentence.lower()
        for word, _ in pre_tokenizers.BertPreTokenizer().pre_tokenize_str(text):
            words[word] = None
            characters.update(dict.fromkeys(word))
    pieces = [f"##{character}" for character in characters]
    # Every third word is left out, so that some words fall into pieces.
    kept = [word for number, word in enumerate(words) if number % 3]
    tokens = list(dict.fromkeys([*WORD_PIECE_TOKENS, *kept, *characters, *pieces]))
    (folder / "vocab.txt").write_text("\n".join(tokens) + "\n", encoding="utf-8")
    settings = {"tokenizer_class": class_name, "do_lower_case": not is_cased}
    write_json(folder / "tokenizer_config.json", settings)


def write_uncased(folder: Path) -> None:
    """BERT's tokenizer, which lower-cases."""
    write_word_piece(folder, is_cased=False)


def write_cased(folder: Path) -> None:
    """The tokenizer of bert-base-cased and of multilingual BERT."""
    write_word_piece(folder, is_cased=True)


def write_distilbert_tokenizer(folder: Path) -> None:
    """DistilBERT's tokenizer, which is BERT's by another name."""
    write_word_piece(folder, is_cased=False, class_name="DistilBertTokenizer")


def write_electra_tokenizer(folder: Path) -> None:
    """ELECTRA's tokenizer, which is BERT's by another name."""
    write_word_piece(folder, is_cased=False, class_name="ElectraTokenizer")


def write_mpnet_tokenizer(folder: Path) -> None:
    """MPNet's tokenizer: BERT's words and pieces, with RoBERTa's special tokens around them."""
    write_word_piece(folder, is_cased=False)
    path = folder / "vocab.txt"
    tokens = path.read_text(encoding="utf-8").splitlines()[len(WORD_PIECE_TOKENS) :]
    tokens = [*ROBERTA_TOKENS, "[UNK]", *tokens, MASK]
    path.write_text("\n".join(tokens) + "\n", encoding="utf-8")
    write_special_names(folder, "MPNetTokenizer", unk_token="[UNK]")


def add_frame(backend: Tokenizer) -> None:
    """Add <mask>, and make rows `<s> a </s>` and `<s> a </s></s> b </s>`."""
    backend.add_special_tokens([AddedToken(MASK, lstrip=True, special=True)])
    backend.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> </s> $B:0 </s>",
        special_tokens=[(name, backend.token_to_id(name)) for name in ("<s>", "</s>")],
    )


def write_special_names(folder: Path, class_name: str, unk_token: str = "<unk>") -> None:
    """Write tokenizer_config.json of RoBERTa's and XLM-R's tokens."""
    content = {
        "tokenizer_class": class_name,
        "pad_token": "<pad>",
        "unk_token": unk_token,
        "cls_token": "<s>",
        "bos_token": "<s>",
        "sep_token": "</s>",
        "eos_token": "</s>",
        "mask_token": MASK,
        "model_max_length": 128,
    }
    write_json(folder / "tokenizer_config.json", content)


def train_byte_level() -> Tokenizer:
    """A byte-level BPE of a few merges, as RoBERTa's."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=ROBERTA_TOKENS,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(SENTENCES, trainer)
    return backend


def write_byte_level(folder: Path) -> None:
    """RoBERTa's tokenizer: tokenizer.json, and beside it vocab.json and merges.txt."""
    backend = train_byte_level()
    backend.add_special_tokens([MASK])
    frame = (("</s>", 2), ("<s>", 0))
    backend.post_processor = processors.RobertaProcessing(*frame, add_prefix_space=False)
    backend.save(str(folder / "tokenizer.json"))
    backend.model.save(str(folder))
    # vocab.json of RoBERTa holds <mask>, too.
    path = folder / "vocab.json"
    vocabulary = json.loads(path.read_text(encoding="utf-8"))
    write_json(path, {**vocabulary, MASK: len(vocabulary)})
    write_special_names(folder, "RobertaTokenizer")


def write_unigram(
    folder: Path,
    class_name: str = "XLMRobertaTokenizer",
    special_tokens: Sequence[str] = ROBERTA_TOKENS,
) -> None:
    """XLM-R's tokenizer: a Unigram model in tokenizer.json."""
    backend = Tokenizer(models.Unigram())
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]
    )
    trainer = trainers.UnigramTrainer(
        vocab_size=250, special_tokens=list(special_tokens), unk_token="<unk>", show_progress=False
    )
    backend.train_from_iterator(SENTENCES, trainer)
    add_frame(backend)
    backend.save(str(folder / "tokenizer.json"))
    write_special_names(folder, class_name)


def write_camembert_tokenizer(folder: Path) -> None:
    """CamemBERT's tokenizer: XLM-R's, with three special tokens that are not used."""
    unused = ["<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED"]
    write_unigram(folder, "CamembertTokenizer", [*unused, "<s>", "</s>"])


# --- models ---------------------------------------------------------------------------------------

# A family, the name of its classes in transformers, and its tokenizer.
FAMILIES: dict[str, tuple[str, Callable[[Path], None]]] = {
    "bert": ("Bert", write_uncased),
    "cased": ("Bert", write_cased),
    "multilingual": ("Bert", write_cased),
    "distilbert": ("DistilBert", write_distilbert_tokenizer),
    "roberta": ("Roberta", write_byte_level),
    "xlm-roberta": ("XLMRoberta", write_unigram),
    "camembert": ("Camembert", write_camembert_tokenizer),
    "electra": ("Electra", write_electra_tokenizer),
    "mpnet": ("MPNet", write_mpnet_tokenizer),
}

# Families whose tokens are `<s> a </s>`, without segments, with positions behind padding's own.
LIKE_ROBERTA = ("roberta", "xlm-roberta", "camembert", "mpnet")


def make_model(family: str, folder: Path, kind: str = "Model", **settings: Any) -> Any:
    """Write a small random model of a family with its tokenizer, and return transformers' model.

    family: a key of FAMILIES. kind: the end of its class name, such as "ForMaskedLM". settings:
        of its config, beside SHAPE.
    """
    import transformers
    from tokenizers import Tokenizer as Backend

    class_name, write_tokenizer = FAMILIES[family]
    folder.mkdir(parents=True, exist_ok=True)
    write_tokenizer(folder)
    if (folder / "tokenizer.json").is_file():
        vocab_size = Backend.from_file(str(folder / "tokenizer.json")).get_vocab_size()
    else:
        vocab_size = len((folder / "vocab.txt").read_text(encoding="utf-8").splitlines())

    shape = DISTILBERT_SHAPE if class_name == "DistilBert" else SHAPE
    values = {**shape, "vocab_size": vocab_size}
    if family in LIKE_ROBERTA:
        values |= {"type_vocab_size": 1, "pad_token_id": 1, "layer_norm_eps": 1e-5}
    if family == "electra":
        values["embedding_size"] = 20
    config = getattr(transformers, f"{class_name}Config")(**(values | settings))
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        model = getattr(transformers, f"{class_name}{kind}")(config).eval()
        # Biases and norms start at 0 and 1, where two that are swapped would not show.
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    model.save_pretrained(folder)
    return model
