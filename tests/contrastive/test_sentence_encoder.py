"""SentenceEncoder: the vectors and the protocol of sentence-transformers, also as MTEB calls it."""

from __future__ import annotations

import json
from enum import Enum
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from contrastive.embed import SentenceEncoder

sentence_transformers = pytest.importorskip("sentence_transformers", reason="setup.sh --dev")
modules = pytest.importorskip("sentence_transformers.models")

SENTENCES = [
    "a doctor is helping The Girl",
    "the girl",
    "a short man is in the hotel near the street and the tall soldier is in the hotel",
    "",
    "two men walk.",
]
SIZE = 32
PROMPTS = {"query": "a doctor: ", "passage": "the man: ", "LocalTask": "in the hotel "}


def change(path, **values):
    content = json.loads(path.read_text()) if path.is_file() else {}
    path.write_text(json.dumps(content | values))


@pytest.fixture(scope="module")
def folder(tiny_model, tmp_path_factory):
    """Mean pooling, a Dense module and prompts, as sentence-transformers saves them."""
    folder = tmp_path_factory.mktemp("sentence-encoder") / "st"
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        parts = [
            modules.Transformer(str(tiny_model), max_seq_length=12),
            modules.Pooling(SIZE, "mean"),
            modules.Dense(SIZE, 8),
        ]
    model = sentence_transformers.SentenceTransformer(modules=parts, device="cpu", prompts=PROMPTS)
    model.save(str(folder))
    return folder


@pytest.fixture(scope="module")
def theirs(folder):
    return sentence_transformers.SentenceTransformer(str(folder), device="cpu")


@pytest.fixture
def ours(folder):
    return SentenceEncoder(folder, device="cpu")


def assert_close(ours, theirs):
    """The same kind of result, with the same shape, and values within 1e-5."""
    assert type(ours) is type(theirs)
    if isinstance(theirs, list):
        ours, theirs = torch.stack(ours), torch.stack(theirs)
    if isinstance(theirs, np.ndarray):
        assert ours.dtype == theirs.dtype == np.float32
        ours, theirs = torch.from_numpy(ours), torch.from_numpy(theirs)
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0)


# --- the vectors of sentence-transformers ---------------------------------------------------------


@pytest.mark.filterwarnings("ignore:1 of 5 sentences")
@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"batch_size": 2},
        {"convert_to_tensor": True},
        {"convert_to_numpy": False},
        {"convert_to_numpy": False, "convert_to_tensor": True},
        {"normalize_embeddings": True},
        {"prompt": "a man in "},
        {"prompt_name": "query"},
        {"prompt": ""},
        {"truncate_dim": 3},
        {"truncate_dim": 3, "normalize_embeddings": True},
        {"output_value": "sentence_embedding", "precision": "float32", "device": None},
        {"show_progress_bar": True},
    ],
)
def test_vectors_of_every_argument(ours, theirs, arguments):
    found = ours.encode(SENTENCES, **arguments)
    assert_close(found, theirs.encode(SENTENCES, **arguments))
    assert len(found) == len(SENTENCES)


@pytest.mark.parametrize("method", ["encode", "encode_query", "encode_document"])
def test_one_sentence_and_prompts_of_queries_and_documents(ours, theirs, method):
    for arguments in (
        {},
        {"convert_to_tensor": True},
        {"prompt": "the "},
        {"prompt_name": "query"},
    ):
        found = getattr(ours, method)("two men walk.", **arguments)
        expected = getattr(theirs, method)("two men walk.", **arguments)
        assert found.shape == expected.shape == (8,)
        assert_close(found, expected)
    assert_close(
        getattr(ours, method)(np.array(SENTENCES[:3])), getattr(theirs, method)(SENTENCES[:3])
    )


def test_the_real_model(minilm_folder):
    texts = ["A lovely film.", "", "word " * 400, "An odd one, 日本語 too."]
    theirs = sentence_transformers.SentenceTransformer(str(minilm_folder), device="cpu")
    ours = SentenceEncoder("minilm", device="cpu")
    with pytest.warns(UserWarning, match="1 of 4 sentences hold no token"):
        found = ours.encode(texts)
    assert_close(found, theirs.encode(texts))
    assert ours.max_seq_length == theirs.max_seq_length
    assert ours.dimension == theirs.get_embedding_dimension() == 384
    assert ours.get_sentence_embedding_dimension() == 384


def test_our_own_model_through_an_export(tmp_path, tiny_model):
    from contrastive.embed.export import export

    ours = SentenceEncoder(tiny_model, pooling="cls", max_length=16, device="cpu")
    embedder = ours.embedder
    export(embedder.encoder, embedder.tokenizer, tmp_path / "export", "cls", 16, False)
    theirs = sentence_transformers.SentenceTransformer(str(tmp_path / "export"), device="cpu")
    assert_close(ours.encode(SENTENCES[:3]), theirs.encode(SENTENCES[:3]))
    assert ours.prompts == {} and "pooling: cls" in ours.notes[1]


def test_no_sentences(ours):
    assert ours.encode([]).shape == (0, 8)
    assert ours.encode([], convert_to_tensor=True).shape == (0, 8)
    assert ours.encode([], convert_to_numpy=False) == []


def test_the_batch_size_changes_no_vector_beyond_rounding(ours):
    texts = SENTENCES[:3] * 5
    torch.testing.assert_close(
        ours.encode(texts, batch_size=1, convert_to_tensor=True),
        ours.encode(texts, batch_size=64, convert_to_tensor=True),
        atol=1e-6,
        rtol=0,
    )


# --- vectors beside each other --------------------------------------------------------------------


@pytest.mark.parametrize("name", ["cosine", "dot", "euclidean", "manhattan"])
def test_similarities(folder, theirs, name, tmp_path, monkeypatch):
    import shutil

    copied = shutil.copytree(folder, tmp_path / "copied")
    change(copied / "config_sentence_transformers.json", similarity_fn_name=name)
    ours = SentenceEncoder(copied, device="cpu")
    monkeypatch.setattr(theirs, "similarity_fn_name", name)
    assert ours.similarity_fn_name == name
    first = ours.encode(SENTENCES[:3])
    second = ours.encode(SENTENCES[2:] + SENTENCES[:2], prompt="the ", convert_to_tensor=True)
    for left, right in ((first, second), (first[0], second), (list(first), second), (first, first)):
        assert_close(ours.similarity(left, right), theirs.similarity(left, right))
    assert_close(
        ours.similarity_pairwise(first, second[:3]), theirs.similarity_pairwise(first, second[:3])
    )
    assert ours.similarity(first, second).shape == (3, 5)
    assert ours.similarity_pairwise(first, second[:3]).shape == (3,)


def test_a_similarity_that_is_not_known_is_refused(folder, tmp_path):
    import shutil

    copied = shutil.copytree(folder, tmp_path / "copied")
    change(copied / "config_sentence_transformers.json", similarity_fn_name="maxsim")
    with pytest.raises(ValueError, match="similarity_fn_name is 'maxsim'"):
        SentenceEncoder(copied)


# --- the evaluators of sentence-transformers ------------------------------------------------------

RELEVANT = {"q1": {"d0"}, "q2": {"d2", "d3"}}
TEXTS = [*SENTENCES[:3], "two men walk.", "the girl and the doctor"]
FIRST, SECOND = TEXTS, TEXTS[2:] + TEXTS[:2]
EVALUATORS = {
    "EmbeddingSimilarity": (FIRST, SECOND, [0.1, 0.9, 0.4, 0.3, 0.7]),
    "BinaryClassification": (FIRST, SECOND, [0, 1, 1, 0, 1]),
    "Triplet": (FIRST, SECOND, SECOND[1:] + SECOND[:1]),
    "Reranking": ([{"query": TEXTS[0], "positive": TEXTS[1:2], "negative": TEXTS[2:]}],),
    "InformationRetrieval": (
        {"q1": "a doctor", "q2": "men in the street"},
        {f"d{number}": text for number, text in enumerate(TEXTS)},
        RELEVANT,
    ),
    "ParaphraseMining": (dict(enumerate(TEXTS)), [(0, 4), (2, 3)]),
}


def test_the_evaluators_give_the_scores_of_sentence_transformers(ours, theirs):
    """With the prompts of queries and documents, where an evaluator asks for them."""
    from sentence_transformers.sentence_transformer import evaluation

    other = SentenceEncoder("minbert-mini", device="cpu")
    num_different = 0
    for name, texts in EVALUATORS.items():
        evaluator = getattr(evaluation, f"{name}Evaluator")(*texts, name="few", write_csv=False)
        expected = evaluator(theirs, epoch=2, steps=7)
        measured = evaluator(ours, epoch=2, steps=7)
        assert measured == pytest.approx(expected, abs=1e-5), name
        kept = ours.model_card_data.evaluations[-1]
        assert kept == (evaluator.description, measured, 2, 7)
        num_different += evaluator(other) != pytest.approx(expected, abs=1e-5)
    assert len(ours.model_card_data.evaluations) == len(EVALUATORS)
    assert num_different >= 3, "another model has other scores"


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"prompt_name": "questions"},
            "prompt_name is 'questions'; this model has the prompts Local",
        ),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"output_value": "token_embeddings"}, "output_value is 'token_embeddings'"),
        ({"precision": "int8"}, "precision is 'int8'"),
        ({"device": "cuda"}, "device is 'cuda'.*SentenceEncoder"),
        ({"normalise": True}, "takes no argument 'normalise'"),
    ],
)
def test_arguments_that_are_refused(ours, arguments, message):
    with pytest.raises(ValueError, match=message):
        ours.encode(SENTENCES, **arguments)


def test_a_precision_that_does_not_exist_is_refused(tiny_model):
    with pytest.raises(ValueError, match="precision is 'int4'; pass one of auto, fp32, bf16, int8"):
        SentenceEncoder(tiny_model, precision="int4")


@pytest.mark.parametrize("text", [None, 3, float("nan"), ["a", "pair"]])
def test_a_sentence_that_is_no_text_is_named(ours, text):
    with pytest.raises(ValueError, match="sentence 2 is "):
        ours.encode(["the girl", text])


def test_prompts_that_are_left_out_of_the_pooling_are_refused(folder, tmp_path):
    import shutil

    copied = shutil.copytree(folder, tmp_path / "copied")
    change(copied / "1_Pooling" / "config.json", include_prompt=False)
    encoder = SentenceEncoder(copied, device="cpu")
    assert encoder.encode(["the girl"]).shape == (1, 8)
    with pytest.raises(ValueError, match="include_prompt is false"):
        encoder.encode_query(["the girl"])
    assert encoder.encode_query(["the girl"], prompt="").shape == (1, 8)


def test_a_warning_names_the_share_of_empty_sentences(ours):
    with pytest.warns(UserWarning, match="1 of 5 sentences hold no token that the model reads"):
        ours.encode(SENTENCES)


def test_a_text_that_the_model_does_not_know_is_named(ours):
    with pytest.warns(UserWarning, match=r"of all tokens are \[UNK\].*'日本語 のテキスト'"):
        ours.encode(["日本語 のテキスト", "中文 一个"])


# --- as MTEB calls it -----------------------------------------------------------------------------


class PromptType(str, Enum):
    """MTEB's words."""

    query = "query"
    document = "document"


def task(name: str, kind: str = "STS") -> SimpleNamespace:
    return SimpleNamespace(name=name, type=kind)


def batches(texts: list[str]) -> DataLoader:
    """As MTEB makes them: dictionaries with a list of texts and further columns."""
    rows = [{"id": str(number), "text": text} for number, text in enumerate(texts)]
    return DataLoader(rows, batch_size=2)


def test_the_call_of_mteb(ours, theirs):
    """Batches of a DataLoader, and the task beside them."""
    texts = SENTENCES[:3]
    place = {"hf_split": "test", "hf_subset": "default"}
    for metadata, prompt_type, expected in (
        (task("Other"), None, theirs.encode(texts)),
        (task("Other"), PromptType.query, theirs.encode_query(texts)),
        (task("Other"), PromptType.document, theirs.encode_document(texts)),
        (task("LocalTask"), None, theirs.encode(texts, prompt_name="LocalTask")),
        (task("LocalTask"), PromptType.query, theirs.encode(texts, prompt_name="LocalTask")),
    ):
        found = ours.encode(
            batches(texts),
            task_metadata=metadata,
            prompt_type=prompt_type,
            batch_size=2,
            show_progress_bar=False,
            **place,
        )
        assert_close(found, expected)


def test_the_revision_follows_all_that_changes_a_vector(folder, tiny_model, tmp_path):
    """MTEB keeps results by it. The same model must have one, and any other a different one."""
    import shutil

    changed = {}
    for name in ("dense", "length", "prompt", "weights"):
        changed[name] = shutil.copytree(folder, tmp_path / name)
    change(changed["dense"] / "2_Dense" / "config.json", activation_function="torch.nn.ReLU")
    change(changed["length"] / "sentence_bert_config.json", max_seq_length=11)
    change(changed["prompt"] / "config_sentence_transformers.json", default_prompt_name="query")
    from safetensors.torch import load_file, save_file

    path = changed["weights"] / "2_Dense" / "model.safetensors"
    tensors = load_file(path)
    tensors["linear.bias"] += 1e-3
    save_file(tensors, path, metadata={"format": "pt"})

    revisions = {SentenceEncoder(folder, device="cpu").revision}
    assert SentenceEncoder(folder, device="cpu").revision in revisions
    for other in (*changed.values(), tiny_model):
        revisions.add(SentenceEncoder(other, device="cpu").revision)
    revisions.add(SentenceEncoder(tiny_model, pooling="cls", device="cpu").revision)
    assert len(revisions) == 7


# --- MTEB itself ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def mteb():
    """It is not installed by setup.sh: pip install mteb."""
    return pytest.importorskip("mteb", minversion="2.0", reason="pip install mteb")


def metadata_of(mteb, name: str, kind: str, score: str):
    return mteb.TaskMetadata(
        name=name,
        description="Rows of this test.",
        reference=None,
        dataset={"path": "local/rows", "revision": "1"},
        type=kind,
        category="t2t",
        modalities=["text"],
        eval_splits=["test"],
        eval_langs=["eng-Latn"],
        main_score=score,
    )


def sts_task(mteb):
    """Six pairs with their similarities."""
    from datasets import Dataset, DatasetDict
    from mteb.abstasks import AbsTaskSTS

    pairs = [
        ("the girl", "a girl", 4.6),
        ("a doctor is helping the girl", "two men walk", 0.4),
        ("the tall soldier", "the short man", 2.0),
        ("the hotel is near the street", "a hotel stands in the street", 4.0),
        ("two men walk", "the men are walking", 4.8),
        ("the man is in the hotel", "the girl", 1.0),
    ]
    columns = ("sentence1", "sentence2", "score")
    rows = [dict(zip(columns, pair, strict=True)) for pair in pairs]

    class LocalSTS(AbsTaskSTS):
        metadata = metadata_of(mteb, "LocalSTS", "STS", "cosine_spearman")
        min_score = 0
        max_score = 5

        def load_data(self, **_):
            self.dataset = DatasetDict({"test": Dataset.from_list(rows)})
            self.data_loaded = True

    return LocalSTS()


def classification_task(mteb):
    """Sentences of two classes, which a linear model must tell apart."""
    from datasets import Dataset, DatasetDict
    from mteb.abstasks import AbsTaskClassification

    texts = ["the girl walks", "a girl is near", "the girl is tall", "a short girl"]
    texts += ["the hotel", "a hotel in the street", "the hotel is near", "in the hotel"]
    rows = [{"text": text, "label": number // 4} for number, text in enumerate(texts)]

    class LocalClassification(AbsTaskClassification):
        metadata = metadata_of(mteb, "LocalClassification", "Classification", "accuracy")
        samples_per_label = 4
        n_experiments = 2

        def load_data(self, **_):
            data = Dataset.from_list(rows)
            self.dataset = DatasetDict({"train": data, "test": data})
            self.data_loaded = True

    return LocalClassification()


def retrieval_task(mteb):
    """Three questions, and five texts that are searched."""
    from datasets import Dataset
    from mteb.abstasks import AbsTaskRetrieval

    texts = ["the girl is tall", "a hotel in the street", "two men walk", "the doctor", "a soldier"]
    queries = ["girl", "where is the hotel", "who is walking"]
    corpus = [{"id": f"d{number}", "text": text} for number, text in enumerate(texts)]
    asked = [{"id": f"q{number}", "text": text} for number, text in enumerate(queries)]

    class LocalRetrieval(AbsTaskRetrieval):
        metadata = metadata_of(mteb, "LocalRetrieval", "Retrieval", "ndcg_at_10")

        def load_data(self, **_):
            split = {
                "corpus": Dataset.from_list(corpus),
                "queries": Dataset.from_list(asked),
                "relevant_docs": {f"q{number}": {f"d{number}": 1} for number in range(3)},
                "top_ranked": None,
            }
            self.dataset = {"default": {"test": split}}
            self.data_loaded = True

    return LocalRetrieval()


def scores_of(mteb, model, local_task) -> dict:
    results = mteb.evaluate(model, [local_task], cache=None, show_progress_bar=False)
    (result,) = results.task_results
    return result.scores["test"][0]


@pytest.mark.parametrize("make_task", [sts_task, classification_task, retrieval_task])
def test_mteb_gives_the_scores_of_sentence_transformers(mteb, ours, theirs, make_task):
    """Without an export, and with nothing fetched."""
    found = scores_of(mteb, ours, make_task(mteb))
    expected = scores_of(mteb, theirs, make_task(mteb))
    name = make_task(mteb).metadata.main_score
    assert found[name] == pytest.approx(expected[name], abs=1e-6)
    assert np.isfinite(found[name]) and found[name] != 0


def test_what_mteb_knows_of_the_model(mteb, ours):
    from mteb.models import EncoderProtocol

    assert isinstance(ours, EncoderProtocol)
    meta = ours.mteb_model_meta
    assert (meta.name, meta.revision) == ("minbert/st", ours.revision)
    assert (meta.embed_dim, meta.max_tokens) == (8, 12)
    assert meta.similarity_fn_name.value == "cosine" and meta.n_parameters > 1000
