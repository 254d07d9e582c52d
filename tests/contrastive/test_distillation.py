"""--pretrain distill: a student gets the sentence vectors of a teacher."""

import json
import shutil

import pytest
import torch
import torch.nn.functional as F

from contrastive import losses
from contrastive.sentences import change_width
from minbert.hub import BUNDLED
from tests.toy_options import refusal

# --- the loss -------------------------------------------------------------------------------------


def test_the_loss_by_hand():
    student = torch.tensor([[1.0, 0.0], [0.0, 3.0]])
    teacher = torch.tensor([[2.0, 0.0], [1.0, 1.0]])
    # The cosines are 1 and 1 / sqrt 2, so the distances are 0 and .2929.
    assert losses.distillation(student, teacher).item() == pytest.approx(0.14645, abs=1e-5)


def test_it_is_the_squared_error_of_vectors_of_length_one():
    """Which is the loss of sentence-transformers, times 2 / H."""
    reason = "sentence-transformers is the reference; run setup.sh --dev"
    name = "sentence_transformers.sentence_transformer.losses"
    reference_losses = pytest.importorskip(name, reason=reason)
    student = F.normalize(torch.randn(5, 8), dim=-1)
    teacher = F.normalize(torch.randn(5, 8), dim=-1)

    class Fixed(torch.nn.Module):
        def forward(self, features):
            return {"sentence_embedding": student}

    reference = reference_losses.MSELoss(Fixed())
    expected = reference([{}], teacher)
    actual = losses.distillation(student, teacher) * 2 / 8
    torch.testing.assert_close(actual, expected)


def test_the_gradient_by_finite_differences():
    student = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    teacher = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    torch.autograd.gradcheck(lambda vectors: losses.distillation(vectors, teacher), (student,))
    losses.distillation(student, teacher).backward()
    assert teacher.grad is None, "the teacher is not trained"


def test_rows_that_do_not_belong_together():
    with pytest.raises(ValueError, match="row i of one belongs to row i of the other"):
        losses.distillation(torch.randn(4, 3), torch.randn(4, 2))


# --- a teacher of another width -------------------------------------------------------------------


def cosines(vectors: torch.Tensor) -> torch.Tensor:
    """All cosines between the rows."""
    unit = F.normalize(vectors, dim=-1)
    return unit @ unit.T


def test_a_wider_student_gets_the_same_cosines():
    vectors = torch.randn(6, 4)
    wider = change_width(vectors, 7)
    assert wider.shape == (6, 7)
    torch.testing.assert_close(cosines(wider), cosines(vectors))


def test_a_narrower_student_gets_the_principal_directions():
    """Vectors that lie in a plane lose nothing, and other ones the least that is possible."""
    plane = torch.randn(9, 2) @ torch.randn(2, 5)
    torch.testing.assert_close(cosines(change_width(plane, 2)), cosines(plane))

    vectors = torch.randn(40, 6)
    narrow = change_width(vectors, 3)
    unit = F.normalize(vectors, dim=-1)
    left, values, right = torch.linalg.svd(unit)
    # The best approximation of rank 3 (Eckart and Young), as dot products.
    best = (left[:, :3] * values[:3]) @ right[:3]
    torch.testing.assert_close(narrow @ narrow.T, best @ best.T, atol=1e-5, rtol=1e-4)


# --- the stage ------------------------------------------------------------------------------------


def test_the_student_comes_nearer_to_its_teacher(make_stages):
    """From its first loss to its last one. Dropout is off."""
    (stage,) = make_stages("distill", teacher="minbert-mini", contrastive_epochs=6)
    job = stage.job
    job.model.train()
    assert not any(module.training for module in job.model.modules())
    means = []
    for epoch in range(job.epochs):
        values = []
        for step in job.plan(epoch, torch.Generator().manual_seed(epoch)):
            for name, rows in step:
                loss = job.loss(name, job.load(name, rows))
                job.optimizer.zero_grad()
                loss.backward()
                job.optimizer.step()
                values.append(loss.item())
        means.append(sum(values) / len(values))
    assert means[-1] < means[0] - 0.1, means


def test_the_rows_are_the_lines_of_the_text(make_stages, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("a doctor is helping\nthe girl\nThe girl\n", encoding="utf-8")
    (stage,) = make_stages("distill", teacher="minbert-mini", teacher_text=str(text))
    assert stage.notes[0] == "distill: 2 sentences, 0 rows cut to 48 tokens"
    batch = stage.job.load("distill", [0, 1])
    assert batch.labels.shape == (2, 32) and batch.labels.isfinite().all()


def test_another_teacher_is_another_stage(make_stages, tmp_path):
    """Also under the same name: its weights decide."""
    teacher = shutil.copytree(BUNDLED["minbert-mini"], tmp_path / "teacher")
    (first,) = make_stages("distill", teacher=str(teacher))
    config = json.loads((teacher / "config.json").read_text())
    config["layer_norm_eps"] = 1e-6
    (teacher / "config.json").write_text(json.dumps(config))
    # Without its record, as a model of another library.
    (teacher / "SHA256SUMS").unlink()
    (second,) = make_stages("distill", teacher=str(teacher))
    assert first.fingerprint != second.fingerprint


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"teacher": "minbert-maxi"}, "minbert-maxi"),
        ({"teacher": "minbert-mini", "teacher_text": "nowhere.txt"}, "nowhere.txt"),
        ({"teacher": "minbert-mini", "teacher_text": "one.txt"}, "the text has 1 different sen"),
    ],
)
def test_what_cannot_teach_is_refused(make_stages, tmp_path, monkeypatch, changes, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one.txt").write_text("the girl\nthe girl\n", encoding="utf-8")
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        make_stages("distill", **changes)


def test_its_flags_need_the_stage(capsys):
    message = refusal(capsys, "--teacher", "minbert-mini")
    assert "--teacher has no effect without --pretrain distill" in message
