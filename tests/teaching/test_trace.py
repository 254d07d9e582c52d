"""`minbert trace`: the numbers that it shows, and the first tensor at which other code differs."""

from __future__ import annotations

import re
import shutil
from functools import cache, wraps
from types import SimpleNamespace

import pytest
import torch

from minbert import BertModel, BertTokenizer, hub
from multitask.predictor import Predictor
from teaching import comparing, handout, tracing
from teaching.comparing import first_difference, probe_of
from teaching.exercises import released_body, without_answers
from teaching.grafting import graft, module_of
from teaching.options import TraceOptions
from teaching.stations import Recorder, line_of, record, stations_of
from teaching.trace import main
from tests.teaching.answers import BEFORE_STYLES, FILE_OF, ROOT, STYLES, released, student_file
from tests.teaching.mistakes import MISTAKES

NO_CHARM = ". . . no charm , no laughs , no fun , no reason to watch ."
ENCODER = ("minbert/attention.py", "minbert/bert.py")


# --- what is shown --------------------------------------------------------------------------------


def test_each_station_names_its_line():
    """The line of a station stands in its function. A lesson file that was rewritten fails here."""
    for name, station in stations_of(1).items():
        file, number = line_of(station, ROOT).split(":")
        assert station.line in (ROOT / file).read_text().splitlines()[int(number) - 1], name


def test_the_answer_and_the_attention_of_a_sentence(capsys):
    assert main([NO_CHARM, "--hide", "no"]) == 0
    printed = capsys.readouterr().out
    probability = Predictor().predict_proba([NO_CHARM], task="sst")[0, 1]
    assert f"sst: somewhat negative    {probability:.2f}" in printed
    # The last column is the answer without the four "no".
    positive = next(line for line in printed.splitlines() if "somewhat positive" in line)
    before, hidden = map(float, positive.split()[-2:])
    assert before < 0.2 and hidden > 0.6
    layer = printed[printed.index("Attention of layer 1") :]
    charm = next(line for line in layer.splitlines() if line.startswith("charm"))
    assert any(f"no {share}" in charm for share in ("0.9", "1.00"))  # head 4
    assert "layer 0 attention      minbert/attention.py:" in printed


def test_the_page_lists_every_layer(tmp_path, capsys):
    page = tmp_path / "page.html"
    arguments = ["I like it.", "--pair", "I love it.", "--page", str(page)]
    assert main(arguments) == 0
    text = page.read_text()
    assert "layer 4 scores" in text and "para: paraphrase" in text and "sts vector 1" in text
    assert main(arguments) == 0  # a page of ours is replaced
    page.write_text("mine")
    assert main(arguments) == 2
    assert "--overwrite" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([""], "TEXT is empty"),
        (["a film", "--hide", "not"], "has no such word. Its pieces are: [CLS] a film [SEP]"),
        (["a film " * 200], "is longer than"),
        (["a film", "--against", "docs", "--hide", "film"], "Drop --page and --hide"),
        (["a film", "--plugin", "no_such_file.py"], "no_such_file.py"),
        (["a film", "--against", "docs"], "holds neither minbert/bert.py nor config.json"),
    ],
)
def test_what_is_refused(flags, message, capsys):
    assert main(flags) == 2
    assert message in capsys.readouterr().err


def test_a_hidden_word_is_hidden_as_a_whole_word():
    opened = tracing.open_options(TraceOptions(text="nothing , no , nobody", model="minbert-mini"))
    mask = tracing.hide("no", opened).attention_mask[0]
    assert [opened.tokens[0][place] for place in (mask == 0).nonzero()[:, 0].tolist()] == ["no"]
    kept = record(opened.encoder, tracing.encoder_arguments(opened.batch)).tensors
    table = tracing.tokens_section(opened, kept).table
    assert table is not None and len(table.rows) == len(opened.tokens[0])
    # Numbers of the vocabulary are whole, and lengths have two digits.
    assert table.rows[0][:3] == ("[CLS]", "2", "0") and len(table.rows[0][3].split(".")[1]) == 2


# --- the first difference -------------------------------------------------------------------------


@cache
def right():
    model = BertModel.from_pretrained("minbert-mini", attention_implementation="eager").eval()
    tokenizer = BertTokenizer.from_pretrained("minbert-mini")
    row = dict(tokenizer(["A lovely film, and no charm."], return_tensors="pt"))
    probes = [probe_of(row, model.config), row]
    return model, [(probe, record(model, probe)) for probe in probes]


def difference_of(name: str, text: str, monkeypatch: pytest.MonkeyPatch):
    """The first difference of the encoder with a student's function."""
    model, pairs = right()
    module = module_of(FILE_OF[name])
    made = graft((ROOT / FILE_OF[name]).read_text(), text, name, module)
    # A file of a student calls the function of its own module, which is watched.
    names = made.function.__globals__
    if "attention" in names:
        names["attention"] = lambda *arguments, **options: module.attention(*arguments, **options)
    owner, _, method = name.rpartition(".")
    place = getattr(module, owner) if owner else module
    monkeypatch.setattr(place, method, made.function)
    for added, function in made.methods.items():
        monkeypatch.setattr(place, added, function, raising=False)
    if name == "mask_to_bias":
        monkeypatch.setattr("minbert.bert.mask_to_bias", made.function)
    difference, changed = None, []
    for probe, ours in pairs:
        kept = record(model, probe)
        changed = changed or kept.changed
        difference = difference or first_difference(ours, kept.tensors, probe["attention_mask"])
    return difference, changed


@pytest.mark.parametrize(
    ("name", "body"), [style for style in STYLES if FILE_OF[style[0]] in ENCODER]
)
def test_right_code_in_another_style_is_equal(name, body, monkeypatch):
    text = student_file(name, body.strip(), BEFORE_STYLES)
    assert difference_of(name, text, monkeypatch) == (None, [])


def test_project_may_get_its_argument_by_name(monkeypatch):
    body = released("MultiHeadAttention.forward")
    by_name = body.replace(
        "self.project(hidden_states)", "self.project(hidden_states=hidden_states)"
    )
    assert by_name != body
    text = student_file("MultiHeadAttention.forward", by_name)
    assert difference_of("MultiHeadAttention.forward", text, monkeypatch) == (None, [])


def test_a_change_through_data_is_noticed(monkeypatch):
    """The version counter of a tensor does not count it."""
    model, [(probe, ours), _] = right()
    assert ours.changed == [], "the negative control"
    module = module_of("minbert/attention.py")
    original = module.attention

    @wraps(original)
    def changing(query, *others):
        context = original(query, *others)
        query.data *= 2
        return context

    monkeypatch.setattr(module, "attention", changing)
    assert "layer 0 Q" in record(model, probe).changed


@pytest.mark.parametrize(
    "mistake", [row for row in MISTAKES if row.station], ids=lambda row: row.cause
)
def test_a_mistake_is_found_at_its_station(mistake, monkeypatch):
    difference, changed = difference_of(mistake.function, mistake.file, monkeypatch)
    assert bool(changed) == (mistake.station == "changed")
    if not changed:
        assert difference is not None
        assert re.search(f"({mistake.station})$", difference.station), difference


def test_the_code_in_a_folder(tmp_path, capsys):
    """A student's softmax over the queries, in a hand-out, run in its own process."""
    folder = tmp_path / "course"
    handout.write_files(folder, handout.needed_files(["attention"]))
    file = folder / "minbert" / "attention.py"
    file.write_text(file.read_text().replace("softmax(dim=-1)", "softmax(dim=-2)"))
    assert main(["no charm", "--against", str(folder)]) == 0
    printed = capsys.readouterr().out
    assert "The first tensor that differs is layer 0 attention, in attention (" in printed
    assert f"{file}:" in printed and "expected" in printed


def test_what_is_not_written_yet_is_lent(tmp_path, capsys):
    """With `attention` alone, all stations are passed, and its mistake is found."""
    folder = tmp_path / "course"
    names = ["attention", "layers"]
    handout.write_files(folder, handout.needed_files(names))
    handout.remove_answers(folder, names)
    file = folder / "minbert" / "attention.py"
    blank = file.read_text()
    answer = released_body((ROOT / "minbert" / "attention.py").read_text(), "attention")
    written = without_answers(blank, {"attention": answer})
    for text, words in (
        (written, "equal: the results do not differ"),
        (written.replace("softmax(dim=-1)", "softmax(dim=-2)"), "is layer 0 attention, in"),
    ):
        file.write_text(text)
        assert main(["no charm", "--against", str(folder)]) == 0
        printed = capsys.readouterr().out
        assert words in printed, printed
        lent = printed.split("so ours ran in their place: ")[1].splitlines()[0].split(", ")
        assert "mask_to_bias" in lent and "BertLayer.forward" in lent
        assert "attention" not in lent


def test_transformers_is_equal(capsys):
    pytest.importorskip("transformers")
    assert main(["no charm", "--against", str(hub.resolve("minbert-mini"))]) == 0
    assert "equal: the results do not differ" in capsys.readouterr().out


def test_transformers_without_segments_is_equal(tmp_path, capsys):
    transformers = pytest.importorskip("transformers")
    bundled = hub.resolve("minbert-mini")
    for name in ("vocab.txt", "tokenizer_config.json"):
        shutil.copy(bundled / name, tmp_path / name)
    size = len((bundled / "vocab.txt").read_text().splitlines())
    config = transformers.DistilBertConfig(
        vocab_size=size, dim=32, n_layers=2, n_heads=4, hidden_dim=64
    )
    transformers.DistilBertModel(config).save_pretrained(tmp_path)
    assert main(["no charm", "--against", str(tmp_path)]) == 0
    assert "equal: the results do not differ" in capsys.readouterr().out


def test_other_code_that_passes_no_station_is_not_called_equal(capsys, monkeypatch):
    class Other(torch.nn.Module):
        def forward(self, **batch):
            return None

    monkeypatch.setattr(comparing, "open_code", lambda *_: Other())
    assert main(["no charm", "--against", str(ROOT)]) == 0
    printed = capsys.readouterr().out
    assert "nothing was compared" in printed and "equal" not in printed


def test_each_of_several_labels_has_a_probability_of_its_own():
    class Model:
        def __init__(self) -> None:
            task = SimpleNamespace(is_regression=False, is_multilabel=True, label_names=["a", "b"])
            self.tasks = {"topics": task}

        def __call__(self, task, batch):
            return torch.tensor([[0.0, 100.0]])

    rows = tracing.answers_of(Model(), "topics", None)
    assert rows == {"topics: a": "0.50", "topics: b": "1.00"}


def test_nan_and_shapes_are_differences():
    mask = torch.ones(1, 2)
    ours = Recorder(stations_of(1))
    ours.tensors = {"layer 0 output": torch.ones(1, 2, 3)}
    for theirs, words in ((torch.full((1, 2, 3), torch.nan), "nan"), (torch.ones(1, 3), "shape")):
        difference = first_difference(ours, {"layer 0 output": theirs}, mask)
        assert difference is not None and words in difference.words
