# %% [markdown]
# # From a sentence to its prediction
#
# After this notebook you can name every step between a sentence and the answer of a trained model.
# You can draw the attention of any head, and you can compute the answer yourself from the parts.
#
# The model is small and was trained on reviews, questions and everyday sentences. It comes with
# minBERT, so nothing is downloaded and nothing is trained here.

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
import matplotlib.pyplot as plt
import numpy as np
import torch

from data.batching import EncodedExamples
from data.examples import Example
from minbert.pooling import mean
from minbert.reporting.attention_pictures import draw_attention
from multitask.saved_run import open_model, read_record
from multitask.user_rows import BUNDLED_RUN

model, tokenizer = open_model(read_record(BUNDLED_RUN))
model = model.to("cpu")
sentence = "A lovely film with a quiet heart."

# %% [markdown]
# ## 1. The sentence becomes tokens
#
# The tokenizer writes everything in lower case and cuts rare words into pieces. `##` marks a
# piece that continues a word. `[CLS]` and `[SEP]` mark the beginning and the end. Each token has
# a number.

# %%
batch = tokenizer([sentence])
tokens = tokenizer.convert_ids_to_tokens(batch.input_ids[0])
for token, number in zip(tokens, batch.input_ids[0].tolist(), strict=True):
    print(f"{number:>6}  {token}")
print(tokenizer.tokenize("An unforgettably quiet film."))

assert tokens[0] == "[CLS]" and tokens[-1] == "[SEP]"
assert any(piece.startswith("##") for piece in tokenizer.tokenize("unforgettably"))

# %% [markdown]
# **Question.** Why does the tokenizer cut a rare word, and not replace it by an unknown word?
#
# <details><summary>Answer</summary>
#
# A piece such as "un" or "##ly" occurs in many words, so the model has learned something about it.
# An unknown word would tell the model nothing.
#
# </details>
#
# ## 2. Tokens become vectors
#
# Three tables give a vector each: for the token, for its place, and for its segment (first or
# second sentence). They are added and brought to a common scale.

# %%
encoder = model.encoder
with torch.no_grad():
    output = encoder(**batch, output_hidden_states=True, output_attentions=True)

tables = encoder.embeddings
num_tokens = len(tokens)
summed = tables.word.weight[batch.input_ids[0]]  # (T, 192)
summed = summed + tables.position.weight[:num_tokens] + tables.segment.weight[0]
centred = summed - summed.mean(dim=1, keepdim=True)
deviation = summed.var(dim=1, keepdim=True, unbiased=False).sqrt()
by_hand = centred / deviation * tables.norm.weight + tables.norm.bias
assert torch.allclose(by_hand, output.hidden_states[0][0], atol=1e-5)
print("a vector for each token:", tuple(by_hand.shape))

# %% [markdown]
# ## 3. Five layers mix the tokens
#
# In each layer, tokens attend to each other. Then each token goes through a small network. How far
# has a token come from where it began? The picture shows the cosine of each token's vector with its
# first vector.

# %%
states = torch.stack(output.hidden_states)[:, 0]  # (6, T, 192)
cosines = torch.cosine_similarity(states, states[:1], dim=-1)  # (6, T)

figure, axes = plt.subplots(figsize=(6.5, 3.2), layout="constrained")
for place in (0, 2, 3, 7):
    axes.plot(cosines[:, place].detach(), "o-", label=tokens[place])
axes.set(xlabel="layers that the token has passed", ylabel="cosine with the start")
axes.legend()
plt.show()

assert torch.allclose(cosines[0], torch.ones(num_tokens))
assert cosines[-1].mean() < cosines[1].mean()

# %% [markdown]
# ## 4. The attention of all heads
#
# A row of the picture is a layer, a column is a head. In each map, the token of a row attends to
# the tokens of the columns.

# %%
draw_attention(output.attentions, tokens)

# %% [markdown]
# **Question.** Find a head with a dark diagonal just beside the middle. What does it do?
#
# <details><summary>Answer</summary>
#
# Each token attends to its neighbour. Such a head tells a token what stands before or behind it.
# This is how "not" reaches "good".
#
# </details>
#
# Which head attends most strongly to the neighbour on the left? We can ask the numbers, and then
# draw this head with its tokens.

# %%
weights = torch.stack(output.attentions)[:, 0]  # (5, 6, T, T)
assert torch.allclose(weights.sum(dim=-1), torch.ones(5, 6, num_tokens), atol=1e-5)

to_the_left = weights.diagonal(offset=-1, dim1=2, dim2=3).mean(dim=-1)  # (5, 6)
layer, head = np.unravel_index(int(to_the_left.argmax()), (5, 6))
print(f"layer {layer}, head {head}: {to_the_left[layer, head]:.2f} of the attention")
assert to_the_left.max() > 3 / num_tokens  # far more than chance

draw_attention(output.attentions, tokens, layer=int(layer), head=int(head))

# %% [markdown]
# ## 5. One vector for the sentence
#
# The mean of all token vectors stands for the sentence. Then the layer that all tasks share
# follows, and the head of the task. SST has five classes, so its head gives five numbers. The
# softmax turns them into probabilities.

# %%
vector = mean(output.last_hidden_state, batch.attention_mask)  # (1, 192)
head_of_sst = model.heads["sst"].dense
with torch.no_grad():
    shared = torch.tanh(model.shared(vector))
    logits = head_of_sst(shared)  # (1, 5)
probabilities = logits.softmax(dim=-1)[0]

rows = EncodedExamples([Example("1", sentence, None, None)], tokenizer)
with torch.no_grad():
    by_the_model = model("sst", rows.batch([0]))
assert torch.allclose(logits, by_the_model, atol=1e-4)
assert abs(float(probabilities.sum()) - 1) < 1e-5

names = model.tasks["sst"].label_names
for name, probability in zip(names, probabilities.tolist(), strict=True):
    print(f"{name:<18}{probability:.2f}")
assert probabilities.argmax() >= 3  # positive, or somewhat positive

# %% [markdown]
# ## 6. Other sentences

# %%
sentences = [
    sentence,
    "I was bored from the first minute to the last.",
    "It is a film about a dog.",
    "It was not bad.",
]
rows = EncodedExamples([Example("1", text, None, None) for text in sentences], tokenizer)
with torch.no_grad():
    answers = model("sst", rows.batch(range(4))).softmax(dim=-1).numpy()  # (4, 5)

figure, all_axes = plt.subplots(1, 4, figsize=(11, 2.6), sharey=True, layout="constrained")
for axes, text, answer in zip(all_axes, sentences, answers, strict=True):
    axes.barh(names, answer)
    axes.set(xlim=(0, 1), xticks=[0, 0.5, 1])
    axes.set_title(text if len(text) < 26 else text[:22] + "...", fontsize=10)
plt.show()

assert answers[0].argmax() > answers[1].argmax()
assert names[answers[2].argmax()] == names[answers[3].argmax()] == "somewhat positive"

# %% [markdown]
# **Question.** Look at the last two sentences. Which answer is right, and which is not?
#
# <details><summary>Answer</summary>
#
# "It was not bad." is right: *somewhat positive*. A list of good and bad words would not say that.
# In the encoder, "bad" can attend to "not". "It is a film about a dog." holds no opinion, so
# *neutral* would be right. The model learned from reviews, and most of those have an opinion.
#
# </details>
#
# ## 7. Two sentences in one row
#
# For a pair, both sentences stand in one row. So their tokens can attend to each other. The picture
# shows how much of the first sentence's attention goes to the second one.

# %%
first = "A man is playing a guitar."
second = "Someone plays the guitar."
pair = tokenizer([first], [second])
with torch.no_grad():
    output = encoder(**pair, output_attentions=True)
is_second = pair.token_type_ids[0] == 1
weights = torch.stack(output.attentions)[:, 0]  # (5, 6, T, T)
across = weights[:, :, ~is_second][..., is_second].sum(dim=-1).mean(dim=-1)  # (5, 6)

figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
for head in range(6):
    axes.plot(range(5), across[:, head], "o", color="tab:blue", alpha=0.5)
axes.plot(range(5), across.mean(dim=1), "k-", label="mean of the heads")
axes.set(xlabel="layer", ylabel="attention to the other sentence", ylim=(0, 1), xticks=range(5))
axes.legend()
plt.show()

assert across.min() > 0 and across.max() < 1
tokens_of_pair = tokenizer.convert_ids_to_tokens(pair.input_ids[0])
draw_attention(output.attentions, tokens_of_pair, layer=3)

# %% [markdown]
# Some heads have short diagonals far from the middle. There, a word of one sentence attends to the
# same word of the other one. Both sentences hold "guitar", whose first piece is "gu":

# %%
places = [place for place, token in enumerate(tokens_of_pair) if token == "gu"]
from_first_to_second = weights[3, :, places[0], places[1]]  # (6,)
print("by head:", from_first_to_second.numpy().round(2))
assert from_first_to_second.max() > 3 / len(tokens_of_pair)  # far more than chance

# %%
pairs = [
    Example("1", first, second, None),
    Example("2", first, "A woman is cutting an onion.", None),
]
rows = EncodedExamples(pairs, tokenizer, pair_encoding=model.pair_encoding)
with torch.no_grad():
    similarities = model("sts", rows.batch([0, 1]))
print("similarity from 0 to 5:", similarities.numpy().round(2))
assert similarities[0] > similarities[1]

# %% [markdown]
# ## Where to go on
#
# - `echo "A sentence of yours." | python -m multitask.predict` does all of this in one command.
# - `docs/tour.md` follows a row through the same files, and through training.
# - The next notebook trains better sentence vectors.
