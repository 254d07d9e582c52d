# %% [markdown]
# # Attention by hand
#
# After this notebook you can compute attention with nothing but sums and products. You know why the
# scores are divided by a square root, and why a mask acts before the softmax. You can also
# recompute one head of a real model.
#
# You need to know matrices and the exponential function. Each question has its answer in a fold
# below it. Think first, then open it.

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

from minbert import BertModel, BertTokenizer
from minbert.attention import attention
from minbert.reporting.attention_pictures import draw_attention, draw_map

# %% [markdown]
# ## Three tokens with two numbers each
#
# Attention is a search. Each token has three vectors:
#
# - a **query**: what the token looks for
# - a **key**: what the token can be found by
# - a **value**: what the token gives to those who find it
#
# In BERT, three linear layers compute these vectors. Here we choose them ourselves.

# %%
tokens = ["the", "dog", "barked"]
queries = [[0.0, 1.0], [1.0, 0.0], [2.0, 0.0]]
keys = [[0.0, 0.0], [2.0, 0.0], [0.0, 1.0]]
values = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]

# %% [markdown]
# The **score** of two tokens is the dot product of a query and a key. It is large if both point in
# the same direction. It is then divided by the square root of the number of units, here 2.


# %%
def score(one_query, one_key):
    total = 0.0
    for a, b in zip(one_query, one_key, strict=True):
        total += a * b
    return total / math.sqrt(len(one_query))


scores = np.zeros((3, 3))
for i in range(3):
    for j in range(3):
        scores[i, j] = score(queries[i], keys[j])
print(scores.round(2))

# "barked" looks for "dog": 2 x 2 + 0 x 0 = 4, divided by the square root of 2.
assert math.isclose(scores[2, 1], 4 / math.sqrt(2))

# %% [markdown]
# The **softmax** turns the scores of a row into weights. All weights are positive, and those of a
# row sum to 1.


# %%
def softmax(row):
    powers = [math.exp(number) for number in row]
    return [power / sum(powers) for power in powers]


weights = np.array([softmax(row) for row in scores])
print(weights.round(2))
assert np.allclose(weights.sum(axis=1), 1)

draw_map(weights, tokens, "attention by hand")

# %% [markdown]
# **Question.** To which token does "barked" attend most, and with which weight?
#
# <details><summary>Answer</summary>
#
# To "dog". Its score is 2.83, and the other two scores are 0. So the weight is
# exp(2.83) / (exp(2.83) + 1 + 1), which is about 0.89.
#
# </details>

# %%
assert weights[2].argmax() == 1
assert abs(weights[2, 1] - 0.894) < 0.001

# %% [markdown]
# The **result** of a token is the weighted mean of all values. "barked" now holds much of the value
# of "dog". This is how a word learns what it stands next to.

# %%
results = np.zeros((3, 2))
for i in range(3):
    for j in range(3):
        results[i] += weights[i, j] * np.array(values[j])
print(results.round(2))

# A mean is never larger than the largest value, and never smaller than the smallest.
assert results.min() >= 0 and results.max() <= 1

# %% [markdown]
# ## The same by `minbert/attention.py`
#
# The function `attention` does this for all rows of a batch and all heads at once. Its tensors have
# four dimensions: batch, heads, tokens, units. In a hand-out of a course you write this function
# yourself. Then the next cell works as soon as yours is right.


# %%
def batch_of_one(rows):
    return torch.tensor(rows, dtype=torch.float64)[None, None]  # (1, 1, 3, 2)


by_minbert = attention(
    batch_of_one(queries), batch_of_one(keys), batch_of_one(values), None, 0.0, False
)
assert np.allclose(by_minbert[0, 0].numpy(), results)

# %% [markdown]
# ## Why divide by the square root?
#
# A dot product of many random numbers is large, in either direction. Then one weight is nearly 1
# and all others are nearly 0. Such a softmax has almost no gradient, so nothing is learned. Let us
# measure the largest of ten weights for random queries and keys.

# %%
generator = np.random.default_rng(0)
sizes = [2, 4, 8, 16, 32, 64, 128, 256]
divided = []
plain = []
for size in sizes:
    one_query = generator.normal(size=(200, 1, size))
    ten_keys = generator.normal(size=(200, 10, size))
    products = (one_query * ten_keys).sum(axis=-1)
    plain.append(np.mean([max(softmax(row)) for row in products]))
    divided.append(np.mean([max(softmax(row / math.sqrt(size))) for row in products]))

figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
axes.plot(sizes, plain, "o-", label="the dot product as it is")
axes.plot(sizes, divided, "s--", label="divided by the square root")
axes.set(xscale="log", xlabel="units of a head", ylabel="largest of ten weights", ylim=(0, 1))
axes.set_xticks(sizes, [str(size) for size in sizes])
axes.legend()
plt.show()

assert plain[-1] > 0.9
assert max(divided) - min(divided) < 0.1

# %% [markdown]
# **Question.** The dot product of two random vectors of 64 units has a standard deviation of 8. Why
# 8, and not 64?
#
# <details><summary>Answer</summary>
#
# It is a sum of 64 products. Each product has the variance 1, and variances of independent terms
# add up. The variance is 64, so the standard deviation is its square root.
#
# </details>

# %%
pairs = generator.normal(size=(2, 10_000, 64))
assert abs((pairs[0] * pairs[1]).sum(axis=1).std() - 8) < 0.3

# %% [markdown]
# ## A mask acts before the softmax
#
# A batch has sentences of different lengths. The short ones are filled up with padding, to which no
# token may attend. We give padding a score of minus infinity. Its weight is then exactly 0.

# %%
masked = scores.copy()
masked[:, 2] = -np.inf  # the third token is padding now
masked_weights = np.array([softmax(row) for row in masked])
print(masked_weights.round(2))
assert np.allclose(masked_weights[:, 2], 0)
assert np.allclose(masked_weights.sum(axis=1), 1)

# %% [markdown]
# **Question.** We could also set the third column of `weights` to 0 after the softmax. What would
# be wrong?
#
# <details><summary>Answer</summary>
#
# The weights of a row would no longer sum to 1. The result would be smaller the more weight the
# padding had. A sentence would get another result if the batch has longer sentences.
#
# </details>

# %%
too_late = weights.copy()
too_late[:, 2] = 0
assert (too_late.sum(axis=1) < 0.9).any()

# %% [markdown]
# ## Attention does not see the order
#
# Let us swap the first two tokens. The results swap with them, and no number changes.

# %%
swapped = [1, 0, 2]
other = attention(
    batch_of_one([queries[i] for i in swapped]),
    batch_of_one([keys[i] for i in swapped]),
    batch_of_one([values[i] for i in swapped]),
    None,
    0.0,
    False,
)
assert np.allclose(other[0, 0].numpy(), results[swapped])

# %% [markdown]
# **Question.** "The dog bites the man" and "the man bites the dog" mean different things. How does
# BERT know?
#
# <details><summary>Answer</summary>
#
# Before the first layer, a vector of its position is added to each token
# (`minbert/bert.py`, BertEmbeddings). So "dog" at place 1 and "dog" at place 4 have different
# queries, keys and values.
#
# </details>
#
# ## A real model
#
# minbert-mini has 5 layers with 6 heads each. A head has 192 / 6 = 32 units. This is the attention
# of all heads for one sentence:

# %%
tokenizer = BertTokenizer.from_pretrained("minbert-mini")
model = BertModel.from_pretrained("minbert-mini")
batch = tokenizer(["The dog that barked at the cat was old."])
with torch.no_grad():
    output = model(**batch, output_attentions=True, output_hidden_states=True)
words = tokenizer.convert_ids_to_tokens(batch.input_ids[0])
assert len(output.attentions) == 5

draw_attention(output.attentions, words)

# %% [markdown]
# Many heads have a diagonal: a token attends to itself or to its neighbour. Other heads attend to
# the same few tokens from everywhere. Here is one head with its tokens:

# %%
draw_attention(output.attentions, words, layer=2, head=2)

# %% [markdown]
# Now we compute one head of the first layer with our own loops. The linear layers of the model give
# queries and keys. Head 2 owns the units 64 to 95.

# %%
layer = model.layers[0].attention
embedded = output.hidden_states[0][0].numpy()  # (T, 192), what the first layer reads
units = slice(2 * 32, 3 * 32)
their_queries = (embedded @ layer.query.weight.detach().numpy().T)[:, units]
their_queries += layer.query.bias.detach().numpy()[units]
their_keys = (embedded @ layer.key.weight.detach().numpy().T)[:, units]
their_keys += layer.key.bias.detach().numpy()[units]

ours = []
for one_query in their_queries:
    ours.append(softmax([score(one_query, one_key) for one_key in their_keys]))
theirs = output.attentions[0][0, 2].numpy()
assert np.allclose(ours, theirs, atol=1e-5)
print("largest difference:", np.abs(ours - theirs).max())

# %% [markdown]
# ## Where to go on
#
# - `minbert/attention.py` is 100 lines. You know all of them now but dropout.
# - `python -m minbert.draw_attention "A sentence of yours." --out attention.svg` draws the picture
#   above for any sentence and any model.
# - The next notebook is about the optimizer.
