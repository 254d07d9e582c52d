# %% [markdown]
# # From data to leaderboard files
#
# After this notebook you can train a model on three tasks, read the losses of its steps, and check
# the six files that the leaderboard of CS224N wants. You can also compute a score from a file
# yourself.
#
# The run here is tiny, so its scores mean nothing. It takes seconds. The last section says how to
# train a good model.

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
import csv
import json
import shutil
import tempfile

import matplotlib.pyplot as plt

import run_multitask
from data.options import SAMPLE_FOLDER
from multitask import check, predict

work = Path(tempfile.mkdtemp())

# %% [markdown]
# ## 1. The data
#
# Each task has three files: train, dev and test. The test files have no labels. The columns stand
# between tabs. These are the first rows of the sentiment task:

# %%
for line in (SAMPLE_FOLDER / "ids-sst-train.csv").read_text(encoding="utf-8").splitlines()[:4]:
    print(line)

# %% [markdown]
# We keep the first rows of each file, so that the run takes seconds.

# %%
small = work / "data"
small.mkdir()
for path in sorted(SAMPLE_FOLDER.glob("*.csv")):
    num_rows = 64 if "train" in path.name else 24
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)[: num_rows + 1]
    (small / path.name).write_text("".join(lines), encoding="utf-8", newline="\n")
    print(f"{path.name:<28}{len(lines) - 1:>4} rows")
assert len(list(small.iterdir())) == 9

# %% [markdown]
# ## 2. The run
#
# This is the main job, as `python run_multitask.py` starts it. It prints what it reads, what it
# chooses, what it will cost, and how each epoch ends.

# %%
flags = ["--data-dir", str(small), "--output-dir", str(work / "runs"), "--name", "first"]
flags += ["--epochs", "2", "--batch-size", "16", "--lr", "5e-4", "--device", "cpu"]
assert run_multitask.main(flags) == 0
run = work / "runs" / "first"

# %% [markdown]
# ## 3. The losses of each step
#
# The run has written a row for each step to `log.csv`. By default a step trains one task, and the
# tasks take turns in a random order.

# %%
with open(run / "log.csv", encoding="utf-8", newline="") as file:
    steps = list(csv.DictReader(file))
print(", ".join(steps[0]))

figure, axes = plt.subplots(figsize=(6.5, 3), layout="constrained")
for task, marker in (("sst", "o"), ("para", "s"), ("sts", "^")):
    column = f"loss_{task}"
    points = [(int(step["step"]), float(step[column])) for step in steps if step[column]]
    assert points
    axes.plot(*zip(*points, strict=True), marker, linestyle="-", label=task)
axes.set(xlabel="step", ylabel="loss")
axes.legend()
plt.show()

# %% [markdown]
# **Question.** The loss of STS is much larger than the other two. Is STS learned worse?
#
# <details><summary>Answer</summary>
#
# No. Its loss is a squared distance on a scale from 0 to 5. The others are logarithms of
# probabilities. Losses of different kinds cannot be compared. Each task has its own score.
#
# </details>
#
# ## 4. The six files
#
# The leaderboard wants a file for dev and test of each task. The header must be exact, spaces
# included. Each row is an id and a prediction.

# %%
outputs = sorted(run.rglob("*-output.csv"))
for path in outputs:
    print(path.name)
    print("   ", *path.read_text(encoding="utf-8").splitlines(keepends=True)[:2], sep=" ")
assert len(outputs) == 6

# %% [markdown]
# The command `check` reads such files from anywhere. It scores the dev files, and looks whether the
# test files have each id once.

# %%
assert check.main([*map(str, outputs), "--data-dir", str(small)]) == 0

# %% [markdown]
# ## 5. A score by hand
#
# The score of SST is the accuracy: the share of right answers. We compute it from the file.


# %%
def column_of(path, delimiter, first, second):
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter=delimiter))
    header = [name.strip() for name in rows[0]]
    places = header.index(first), header.index(second)
    return {row[places[0]].strip(): float(row[places[1]]) for row in rows[1:]}


labels = column_of(small / "ids-sst-dev.csv", "\t", "id", "sentiment")
output = next(path for path in outputs if path.name.startswith("sst-dev"))
answers = {}
for line in output.read_text(encoding="utf-8").splitlines()[1:]:
    row_id, answer = line.split(",")
    answers[row_id.strip()] = float(answer)
assert answers.keys() == labels.keys()

num_right = sum(answers[row_id] == label for row_id, label in labels.items())
accuracy = num_right / len(labels)
record = json.loads((run / "run.json").read_text(encoding="utf-8"))
print(f"{num_right} of {len(labels)} are right, accuracy {accuracy:.4f}")
assert abs(accuracy - record["scores"]["sst"]) < 1e-9

# %% [markdown]
# **Question.** SST has five classes. A model that always says the most frequent one may reach 0.3.
# Why is an accuracy near 0.3 no success, even if chance is 0.2?
#
# <details><summary>Answer</summary>
#
# Always saying the most frequent class needs no model. The closing table of a run therefore has a
# column "majority", and one of a linear model on word counts. A model should beat both.
#
# </details>

# %%
baselines = record["baselines"]
print(json.dumps(baselines, indent=1)[:300])
assert baselines

# %% [markdown]
# ## 6. A sentence of your own
#
# The finished run answers any sentence. The columns are the class, its name, and the probability of
# this class.

# %%
mine = work / "mine.txt"
mine.write_text("A lovely film with a quiet heart.\nI was bored.\n", encoding="utf-8")
assert predict.main([str(run), "--task", "sst", "--input", str(mine)]) == 0

# %% [markdown]
# **Question.** Change the sentences, or train for ten epochs, and look again. Which change helps
# most?
#
# <details><summary>Answer</summary>
#
# More rows. The sample has 6,000 sentences of SST, and this run has seen 64. With all rows, the
# main job takes some minutes: `python run_multitask.py --option finetune --pretrain simcse`.
#
# </details>

# %%
shutil.rmtree(work)  # all files of this notebook

# %% [markdown]
# ## Where to go on
#
# - With the files of the course, pass `--data-dir data/course`. `python -m data.download` brings
#   them.
# - `docs/multitask.md` says which head, sampler and surgery to choose.
# - `docs/tour.md` follows one row through the code that you have just run.
