# %% [markdown]
# # Gradient conflicts
#
# After this notebook you can say what it means that two tasks disagree. You can take a conflict out
# of a gradient by hand, and you can measure how often the tasks of a real model disagree.
#
# You need to know dot products and gradients. Each question has its answer in a fold below it.

# %%
# This cell prepares a fresh environment, such as Colab. It does nothing if minBERT is installed.
import importlib.util
import subprocess
import sys
from pathlib import Path

if importlib.util.find_spec("minbert") is None:
    # Colab: first clone the repository here, or upload its zip file and unpack it with !unzip.
    folders = [Path.cwd(), *Path.cwd().parents, *Path.cwd().iterdir()]
    clones = [folder for folder in folders if (folder / "minbert" / "bert.py").is_file()]
    if not clones:
        raise FileNotFoundError(
            f"no clone of minBERT in {Path.cwd()}, above it, or in a folder of it. Clone the "
            "repository here, or unpack its zip file here. Then run this cell again."
        )
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--editable", str(clones[0])]
    subprocess.run(install, check=True)
    sys.path.insert(0, str(clones[0]))  # a process that runs already does not see it otherwise

# %%
import itertools

import matplotlib.pyplot as plt
import numpy as np
import torch

from data.batching import EncodedExamples
from data.options import SAMPLE_FOLDER
from data.readers import read_examples
from multitask.saved_run import open_model, read_record
from multitask.surgery import pcgrad
from multitask.user_rows import BUNDLED_RUN

# %% [markdown]
# ## Two tasks in a plane
#
# Several tasks share one encoder. Each has its own gradient, and the optimizer follows their sum.
# Two gradients **conflict** if the angle between them is more than a right angle. Then a step for
# one task makes the other one worse. The sign of the dot product tells.

# %%
task_a = np.array([3.0, 0.5])
task_b = np.array([-1.5, 1.5])
product = task_a @ task_b
print("dot product:", product)
assert product < 0

# %% [markdown]
# PCGrad (Yu et al. 2020) takes the conflict out. From the gradient of one task it removes the part
# that points against the other one. What is left stands at a right angle to it.


# %%
def without_conflict(gradient, other):
    overlap = gradient @ other
    if overlap >= 0:
        return gradient
    return gradient - other * overlap / (other @ other)


new_a = without_conflict(task_a, task_b)
new_b = without_conflict(task_b, task_a)
assert abs(new_a @ task_b) < 1e-12
assert abs(new_b @ task_a) < 1e-12

by_minbert = pcgrad(torch.tensor(np.stack([task_a, task_b])))
assert np.allclose(by_minbert.numpy(), new_a + new_b)


def draw_arrows(axes, arrows, title):
    for (name, vector), colour in zip(arrows.items(), ("C0", "C1", "k"), strict=False):
        axes.annotate(
            "", vector, (0, 0), arrowprops={"arrowstyle": "-|>", "color": colour, "lw": 2}
        )
        axes.text(*(vector * 1.05 + 0.08), name, color=colour)
    axes.set(xlim=(-2.4, 4), ylim=(-0.6, 4.1), aspect="equal", title=title, xticks=[], yticks=[])
    axes.axhline(0, color="silver", linewidth=0.6, zorder=0)
    axes.axvline(0, color="silver", linewidth=0.6, zorder=0)


figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
draw_arrows(left, {"A": task_a, "B": task_b, "sum": task_a + task_b}, "the sum")
draw_arrows(right, {"A": new_a, "B": new_b, "PCGrad": new_a + new_b}, "without conflict")
plt.show()

# %% [markdown]
# **Question.** Does a small step along the sum help task B? Does one along the gradient of PCGrad?
#
# <details><summary>Answer</summary>
#
# A step against a gradient g changes the loss of B by about -lr x (g . B). The dot product of the
# sum and B is 0.75 here, so the step helps B a little. That of PCGrad's gradient is larger. With
# two tasks, PCGrad never hurts one of them.
#
# </details>

# %%
merged = new_a + new_b
print("sum and B:", (task_a + task_b) @ task_b, " PCGrad and B:", round(merged @ task_b, 3))
assert merged @ task_b > (task_a + task_b) @ task_b > 0
assert merged @ task_a > 0

# %% [markdown]
# **Question.** Make the gradient of task A ten times as long. Whom does the sum serve now?
#
# <details><summary>Answer</summary>
#
# Only A. The dot product of the sum with B is negative, so each step makes B worse. After PCGrad it
# is not. Tasks with long gradients win otherwise.
#
# </details>

# %%
loud_a = 10 * task_a
assert (loud_a + task_b) @ task_b < 0
rescued = pcgrad(torch.tensor(np.stack([loud_a, task_b]))).numpy()
assert rescued @ task_b > 0

# %% [markdown]
# ## The gradients of a real model
#
# The bundled model has three tasks: sentiment (SST), paraphrases (PARA) and similarity (STS). We
# take a batch of eight rows for each task, and collect the gradient of the encoder's layers. It has
# more than two million numbers.

# %%
model, tokenizer = open_model(read_record(BUNDLED_RUN))
model = model.to("cpu")
parameters = list(model.encoder.layers.parameters())
files = {"sst": "ids-sst-train.csv", "para": "quora-train.csv", "sts": "sts-train.csv"}
NUM_BATCHES = 4
ROWS = 8

examples = {}
for task, file in files.items():
    table = read_examples(SAMPLE_FOLDER / file, model.tasks[task].format)
    examples[task] = EncodedExamples(
        table.cut(NUM_BATCHES * ROWS).examples, tokenizer, 40, model.pair_encoding
    )


def gradient_of(task, rows):
    batch = examples[task].batch(rows)
    loss = model.tasks[task].loss(model(task, batch), batch.labels)
    gradients = torch.autograd.grad(loss, parameters)
    return torch.cat([gradient.flatten() for gradient in gradients]).double()


steps = []
for number in range(NUM_BATCHES):
    rows = range(number * ROWS, (number + 1) * ROWS)
    steps.append(torch.stack([gradient_of(task, rows) for task in files]))  # (3, P)
print(f"{steps[0].size(1):,} parameters")
assert steps[0].size(1) > 2_000_000

# %% [markdown]
# The picture shows the cosine of each pair of tasks, for each batch. Below 0 there is a conflict.

# %%
names = [task.upper() for task in files]
pairs = list(itertools.combinations(range(3), 2))
cosines = np.zeros((len(steps), len(pairs)))  # (batches, pairs)
for row, step in enumerate(steps):
    for column, (i, j) in enumerate(pairs):
        cosines[row, column] = torch.cosine_similarity(step[i], step[j], dim=0)

figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
axes.axhline(0, color="k", linewidth=0.8)
for column, (i, j) in enumerate(pairs):
    axes.plot(range(1, NUM_BATCHES + 1), cosines[:, column], "o-", label=f"{names[i]}, {names[j]}")
axes.set(xlabel="batch", ylabel="cosine of two gradients", xticks=range(1, NUM_BATCHES + 1))
axes.legend()
plt.show()

print(f"{(cosines < 0).mean():.0%} of all pairs conflict")
assert np.abs(cosines).max() < 0.5

# %% [markdown]
# **Question.** Most cosines lie near 0. Why is that expected for two vectors of two million
# numbers?
#
# <details><summary>Answer</summary>
#
# Two random directions in a space of many dimensions are almost at a right angle. So a cosine of
# 0.1 is already a strong agreement there, and one of -0.1 is a strong conflict.
#
# </details>

# %%
random = torch.randn(2, 2_000_000, generator=torch.Generator().manual_seed(0))
assert abs(torch.cosine_similarity(random[0], random[1], dim=0)) < 0.01

# %% [markdown]
# ## Surgery on a real step
#
# We apply PCGrad to each batch. How much longer or shorter is the result, and in which direction
# does it go? We compare it with the plain sum.

# %%
for number, step in enumerate(steps, start=1):
    plain = step.sum(dim=0)
    operated = pcgrad(step, generator=torch.Generator().manual_seed(0))
    cosine = torch.cosine_similarity(plain, operated, dim=0).item()
    helped = (step @ operated > 0).sum().item()
    print(f"batch {number}: cosine with the sum {cosine:.3f}, helps {helped} of 3 tasks")
    if (cosines[number - 1] >= 0).all():
        # Without a conflict, nothing changes.
        assert torch.allclose(plain, operated)
    assert cosine > 0.5

# %% [markdown]
# Where cosines are near 0, PCGrad changes little. Whether it helps in the end is a question for
# whole runs with several seeds.
#
# ## Where to go on
#
# - `python run_multitask.py --surgery pcgrad --sampling joint` trains with PCGrad. It draws the
#   cosines of the whole run into `conflicts.png`.
# - `multitask/surgery.py` has PCGrad and GradVac, one formula a line.
# - The last notebook trains a model and writes the files of the leaderboard.
