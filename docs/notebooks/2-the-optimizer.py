# %% [markdown]
# # The optimizer
#
# After this notebook you can compute a step of AdamW by hand. You know what its two moments are
# for, why they are corrected, and why weight decay stands apart from the gradient. You can read a
# picture of a learning rate schedule.
#
# You need to know what a gradient is. Each question has its answer in a fold below it.

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
import math

import matplotlib.pyplot as plt
import numpy as np
import torch

from minbert import AdamW
from minbert.schedule import constant, cosine, linear

# %% [markdown]
# ## A long valley
#
# Training looks for the lowest point of a loss. Here the loss has two parameters. It rises 50 times
# as steeply in one direction as in the other.


# %%
def valley(x, y):
    return 0.5 * (x**2 + 50 * y**2)


def path_of(optimizer_class, num_steps=40, **settings):
    point = torch.tensor([-4.0, 1.0], dtype=torch.float64, requires_grad=True)
    optimizer = optimizer_class([point], **settings)
    points = [point.detach().numpy().copy()]
    for _ in range(num_steps):
        optimizer.zero_grad()
        valley(point[0], point[1]).backward()
        optimizer.step()
        points.append(point.detach().numpy().copy())
    return np.array(points)


downhill = path_of(torch.optim.SGD, lr=0.037)
adam = path_of(AdamW, lr=0.25)

grid_x, grid_y = np.meshgrid(np.linspace(-4.5, 1.5, 100), np.linspace(-1.3, 1.3, 100))
figure, axes = plt.subplots(figsize=(7, 3.4), layout="constrained")
axes.contour(grid_x, grid_y, valley(grid_x, grid_y), levels=12, colors="silver")
axes.plot(*downhill.T, "o-", markersize=3, label="gradient descent")
axes.plot(*adam.T, "s-", markersize=3, label="AdamW")
axes.plot(0, 0, "k*", markersize=12)
axes.set(xlabel="x", ylabel="y")
axes.legend()
plt.show()

# %% [markdown]
# Gradient descent has one learning rate for both directions. In the steep direction it jumps from
# side to side. In the flat one it hardly moves. AdamW divides each step by the usual size of its
# own gradient, so both directions move alike.
#
# **Question.** Why can we not give gradient descent a larger learning rate?
#
# <details><summary>Answer</summary>
#
# In the steep direction, a step multiplies y by 1 - 50 x lr. With lr = 0.04 this is -1: it jumps
# forth and back for ever. Beyond that it grows without end.
#
# </details>

# %%
assert valley(*path_of(torch.optim.SGD, lr=0.041)[-1]) > valley(-4, 1)
assert valley(*downhill[-1]) < valley(-4, 1)
assert abs(adam[8, 0]) < abs(downhill[8, 0])

# %% [markdown]
# ## One parameter by hand
#
# AdamW keeps two numbers for each parameter, both 0 at first:
#
# - `m`, the mean of the last gradients (about 10 of them). It smooths the direction.
# - `v`, the mean of their squares (about 1,000 of them). Its root is the usual size.
#
# Both start at 0, so they are too small in the first steps. Dividing by `1 - beta**t` corrects
# this.


# %%
def adamw_by_hand(p, gradients, lr=0.1, beta1=0.9, beta2=0.999, eps=1e-6):
    m = 0.0
    v = 0.0
    places = [p]
    for t, g in enumerate(gradients, start=1):
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g * g
        corrected_m = m / (1 - beta1**t)
        corrected_v = v / (1 - beta2**t)
        p = p - lr * corrected_m / (math.sqrt(corrected_v) + eps)
        places.append(p)
    return places


def adamw_of_minbert(p, gradients, **settings):
    parameter = torch.tensor([p], dtype=torch.float64, requires_grad=True)
    optimizer = AdamW([parameter], **settings)
    places = [p]
    for g in gradients:
        parameter.grad = torch.tensor([g], dtype=torch.float64)
        optimizer.step()
        places.append(parameter.item())
    return places


gradients = [4.0, 2.0, -1.0, 3.0]
by_hand = adamw_by_hand(1.0, gradients)
print([round(place, 4) for place in by_hand])
assert np.allclose(by_hand, adamw_of_minbert(1.0, gradients, lr=0.1), atol=1e-5)

# %% [markdown]
# **Question.** The first gradient is 4, and lr is 0.1. How far does the first step go? How far
# would it go for a gradient of 0.004?
#
# <details><summary>Answer</summary>
#
# Both go 0.1. After one step, the corrected m is the gradient, and the corrected v is its square.
# So the quotient is 1 or -1. This is why the learning rate of AdamW says how far a parameter
# moves, and not how much of the gradient is taken.
#
# </details>

# %%
assert math.isclose(by_hand[0] - by_hand[1], 0.1, rel_tol=1e-3)
tiny = adamw_of_minbert(1.0, [0.004], lr=0.1)
# eps is added to a smaller number here, so the step is a little shorter.
assert math.isclose(tiny[0] - tiny[1], 0.1, rel_tol=0.02)

# %% [markdown]
# ## The correction of the first steps
#
# Let all gradients be 1. Then each step should have the length lr. Without the correction the first
# steps are far too long, because v starts at 0 and grows more slowly than m.

# %%
ones = [1.0] * 60
lengths = {}
for is_corrected in (True, False):
    places = adamw_of_minbert(0.0, ones, lr=0.1, correct_bias=is_corrected)
    lengths[is_corrected] = -np.diff(places)

figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
axes.plot(range(1, 61), lengths[True], label="corrected")
axes.plot(range(1, 61), lengths[False], "--", label="not corrected")
axes.set(xlabel="step", ylabel="length of the step", ylim=(0, None))
axes.legend()
plt.show()

assert np.allclose(lengths[True], 0.1, rtol=1e-3)
assert lengths[False].max() > 0.6

# %% [markdown]
# **Question.** BERT was first trained without the correction, and with a warm-up. Why do the two
# belong together?
#
# <details><summary>Answer</summary>
#
# Without the correction, the first steps are too long. A warm-up makes the learning rate small in
# just these steps.
#
# </details>
#
# ## Weight decay
#
# Weight decay pulls each parameter towards 0. One could add it to the gradient (L2 regularisation).
# But then Adam divides it by the usual size of the gradient, too. A parameter with large gradients
# would hardly decay. AdamW decays beside the gradient: each parameter loses the same share.

# %%
decay = 0.1
for size in (0.01, 100.0):
    # The gradients change their sign, so that they move the parameter nowhere in the long run.
    gradients = [size, -size] * 50
    with_decay = adamw_of_minbert(5.0, gradients, lr=0.01, weight_decay=decay)
    without = adamw_of_minbert(5.0, gradients, lr=0.01)
    # Adam with L2: the decay is a part of the gradient, which depends on the parameter.
    parameter = torch.tensor([5.0], dtype=torch.float64, requires_grad=True)
    optimizer = AdamW([parameter], lr=0.01)
    for g in gradients:
        parameter.grad = g + decay * parameter.detach()
        optimizer.step()
    lost_by_decay = without[-1] - with_decay[-1]
    lost_by_l2 = without[-1] - parameter.item()
    print(f"gradients of {size:>6}: AdamW loses {lost_by_decay:.3f}, Adam with L2 {lost_by_l2:.3f}")
    # 5 x (1 - (1 - 0.01 x 0.1) ** 100)
    assert math.isclose(lost_by_decay, 5 * (1 - 0.999**100), rel_tol=0.05)
    if size == 100.0:
        assert lost_by_l2 < 0.05 * lost_by_decay
    else:
        assert lost_by_l2 > 1.2 * lost_by_decay

# %% [markdown]
# ## Learning rate schedules
#
# The learning rate rises in the first steps (warm-up), and then falls. Each schedule is a function
# from the step to a factor.

# %%
num_steps = 100
figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
for schedule, style in ((linear, "-"), (cosine, "--"), (constant, ":")):
    factors = [schedule(step, num_steps, 10) for step in range(num_steps)]
    axes.plot(factors, style, label=schedule.__name__)
    assert max(factors) == 1
axes.set(xlabel="step", ylabel="factor of the learning rate")
axes.legend()
plt.show()

# %% [markdown]
# **Question.** At which step has the linear schedule fallen to one half?
#
# <details><summary>Answer</summary>
#
# The warm-up takes 10 steps, and the fall takes the other 90. So half of the fall is at step
# 10 + 45 = 55.
#
# </details>

# %%
assert linear(55, 100, 10) == 0.5

# %% [markdown]
# ## Where to go on
#
# - `minbert/optimizer.py` has the same update for tensors, one formula a line.
# - `docs/training-loop.md` says what the loop does around it: accumulation, clipping, precision.
# - The next notebook follows a sentence through a trained model.
