# %% [markdown]
# # Contrastive learning and the map of sentences
#
# After this notebook you can compute the InfoNCE loss by hand. You can train sentence vectors with
# it, and you can draw a map on which similar sentences are neighbours.
#
# You need to know what a cosine is. Each question has its answer in a fold below it.

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

from contrastive.losses import info_nce
from contrastive.zero_shot import alignment, uniformity
from minbert import AdamW, BertModel, BertTokenizer
from minbert.pooling import mean

# %% [markdown]
# ## The loss by hand
#
# A batch has sentences and their partners, which mean the same. The loss asks each sentence a
# question: which of these is your partner? The cosines are the scores of the answers. The
# **temperature** divides them, so that small differences count.

# %%
anchors = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
partners = [[0.9, 0.1], [0.3, 1.0], [1.0, 0.2]]


def cosine(a, b):
    return np.dot(a, b) / (np.linalg.norm(a) * np.linalg.norm(b))


def loss_by_hand(temperature):
    losses = []
    for i, anchor in enumerate(anchors):
        answers = [math.exp(cosine(anchor, partner) / temperature) for partner in partners]
        losses.append(-math.log(answers[i] / sum(answers)))
    return sum(losses) / len(losses)


table = np.zeros((3, 3))
for i in range(3):
    for j in range(3):
        table[i, j] = cosine(anchors[i], partners[j])
figure, axes = plt.subplots(figsize=(3.4, 3), layout="constrained")
picture = axes.imshow(table, cmap="Blues", vmin=0, vmax=1)
for i in range(3):
    for j in range(3):
        colour = "white" if table[i, j] > 0.6 else "black"
        axes.text(j, i, f"{table[i, j]:.2f}", ha="center", va="center", color=colour)
axes.set(xlabel="partner", ylabel="sentence", xticks=range(3), yticks=range(3), title="cosines")
plt.show()

for temperature in (0.05, 0.5):
    by_minbert = info_nce(torch.tensor(anchors), torch.tensor(partners), temperature)
    assert math.isclose(by_minbert.item(), loss_by_hand(temperature), rel_tol=1e-4)
print(f"loss at 0.05: {loss_by_hand(0.05):.3f}, at 0.5: {loss_by_hand(0.5):.3f}")

# %% [markdown]
# The diagonal holds the right answers. The third sentence lies between two partners, and its own is
# not the closest one.
#
# **Question.** What is the loss if all cosines are equal, for a batch of 64?
#
# <details><summary>Answer</summary>
#
# Each of the 64 answers has the probability 1/64. The loss is log 64, which is about 4.16. A loss
# near this number at the start of training is no error.
#
# </details>

# %%
equal = torch.ones(64, 8)
assert math.isclose(info_nce(equal, equal, 0.05).item(), math.log(64), rel_tol=1e-5)

# %% [markdown]
# ## Sentences on four topics
#
# These 24 sentences have four topics. Which sentences lie near each other before any training?

# %%
topics = {
    "cooking": [
        "How do I boil an egg?",
        "She is cutting an onion for the soup.",
        "Add salt and pepper to the sauce.",
        "The cake has to stay in the oven for an hour.",
        "He is frying potatoes in a pan.",
        "What can I cook with rice and beans?",
    ],
    "music": [
        "A man is playing a guitar.",
        "She sings in a choir.",
        "The band plays a slow song.",
        "How long does it take to learn the piano?",
        "He is playing the violin on stage.",
        "I like the music of this album.",
    ],
    "films": [
        "The film is far too long.",
        "A lovely comedy with great actors.",
        "The plot of this movie makes no sense.",
        "I was bored by the whole film.",
        "The director has made a beautiful drama.",
        "It is one of the funniest movies of the year.",
    ],
    "animals": [
        "The dog runs after a ball.",
        "A cat is sleeping on the sofa.",
        "Two horses stand in a field.",
        "How much does a small dog weigh?",
        "The bird sits on a tree.",
        "A black cat is playing with a mouse.",
    ],
}
sentences = []
for group in topics.values():
    sentences += group
topic_of = np.repeat(list(topics), 6)

tokenizer = BertTokenizer.from_pretrained("minbert-mini")
model = BertModel.from_pretrained("minbert-mini")


def encode(texts):
    batch = tokenizer(texts, max_length=32)
    return mean(model(**batch).last_hidden_state, batch.attention_mask)  # (B, 192)


with torch.no_grad():
    before = encode(sentences)

# %% [markdown]
# ## A map
#
# A vector has 192 numbers, and a map has two. Principal component analysis (PCA) looks for the two
# directions in which the vectors differ most. We compute it by hand: subtract the mean, then take
# the first two singular vectors.


# %%
def map_of(vectors):
    directions = torch.nn.functional.normalize(vectors, dim=-1)
    centred = directions - directions.mean(dim=0)
    _, _, axes_of_map = torch.linalg.svd(centred, full_matrices=False)
    return (centred @ axes_of_map[:2].T).numpy()  # (N, 2)


def neighbours_with_same_topic(vectors):
    directions = torch.nn.functional.normalize(vectors, dim=-1)
    cosines = directions @ directions.T
    cosines.fill_diagonal_(-1)  # a sentence is no neighbour of itself
    nearest = cosines.argmax(dim=1).numpy()
    return float((topic_of[nearest] == topic_of).mean())


def draw_maps(maps):
    figure, all_axes = plt.subplots(
        1, len(maps), figsize=(4.6 * len(maps), 4), squeeze=False, layout="constrained"
    )
    for axes, (title, vectors) in zip(all_axes[0], maps.items(), strict=True):
        points = map_of(vectors)
        for topic, marker in zip(topics, "os^D", strict=True):
            axes.scatter(*points[topic_of == topic].T, marker=marker, label=topic)
        axes.set(title=title, xticks=[], yticks=[])
    all_axes[0, 0].legend()
    plt.show()


share_before = neighbours_with_same_topic(before)
print(f"{share_before:.0%} of the sentences have a nearest neighbour of their own topic")
assert share_before > 0.25 + 0.1  # better than chance
draw_maps({"before training": before})

# %% [markdown]
# The map keeps only a part of what the vectors know. So we count among the vectors themselves.
#
# ## SimCSE: a sentence is its own partner
#
# Where do partners come from without labels? SimCSE encodes each sentence twice. Dropout is random,
# so the two vectors differ a little. The loss pulls them together, and it pushes all other
# sentences away.
#
# We train a few steps on sentences of the sample.

# %%
from data.options import SAMPLE_FOLDER
from data.readers import read_examples
from multitask.tasks import TASKS

table = read_examples(SAMPLE_FOLDER / "sts-train.csv", TASKS["sts"].format)
short = sorted({row.sentence_1 for row in table.examples if 25 < len(row.sentence_1) < 50})
print(len(short), "sentences, such as:", short[0])

torch.manual_seed(0)
model.train()
optimizer = AdamW(model.parameters(), lr=2e-4)
losses = []
for step in range(8):
    texts = short[16 * step : 16 * (step + 1)]
    loss = info_nce(encode(texts), encode(texts), temperature=0.05)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
model.eval()

with torch.no_grad():
    after = encode(sentences)
share_after = neighbours_with_same_topic(after)
print(f"loss from {losses[0]:.3f} to {losses[-1]:.3f}")
print(f"same topic: {share_before:.0%} before, {share_after:.0%} after")
draw_maps({"before training": before, "after eight steps": after})

# %% [markdown]
# ## Two forces
#
# Two numbers watch the two forces of the loss (Wang and Isola 2020). **Alignment** is the mean
# squared distance of partners. **Uniformity** says how evenly the vectors fill the sphere. Of both,
# lower is better.
#
# **Question.** Which of the two does training change more, and why?
#
# <details><summary>Answer</summary>
#
# Uniformity. Before training, all vectors lie in a narrow cone, so all cosines are high. Partners
# are near each other already, because only dropout makes them differ. The loss can gain more by
# pushing other sentences away.
#
# </details>


# %%
def cosines_of(vectors):
    directions = torch.nn.functional.normalize(vectors, dim=-1)
    return (directions @ directions.T)[~torch.eye(len(vectors), dtype=torch.bool)].numpy()


print(f"uniformity: {uniformity(before):.2f} before, {uniformity(after):.2f} after")
assert uniformity(after) < uniformity(before)

figure, axes = plt.subplots(figsize=(6, 2.8), layout="constrained")
bins = np.linspace(-0.5, 1, 40)
axes.hist(cosines_of(before), bins, alpha=0.6, label="before")
axes.hist(cosines_of(after), bins, alpha=0.6, label="after")
axes.set(xlabel="cosine of two different sentences", yticks=[])
axes.legend()
plt.show()

assert cosines_of(after).mean() < cosines_of(before).mean()

# A sentence and itself are perfectly aligned.
assert alignment(after, after) == 0

# %% [markdown]
# **Question.** Can we compare a cosine before training with one after training?
#
# <details><summary>Answer</summary>
#
# No. The same two sentences have a lower cosine after training, and mean the same as before.
# Compare cosines within one model only, and look at their order.
#
# </details>
#
# ## Where to go on
#
# - `docs/contrastive.md` has nine methods and says which one to take.
# - `python -m contrastive.quality minbert-mini --sets FILE --report quality.html` measures any
#   model and draws a map with t-SNE.
# - The next notebook looks at tasks that disagree.
