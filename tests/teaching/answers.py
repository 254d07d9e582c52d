"""Answers to the exercises for tests: right ones in several styles, and hostile ones.

A file of a student is the released one with the bodies of some functions replaced.
"""

from __future__ import annotations

from pathlib import Path

from teaching.exercises import EXERCISES, released_body, without_answers

ROOT = Path(__file__).resolve().parents[2]

FILE_OF: dict[str, str] = {}
for exercise in EXERCISES.values():
    FILE_OF |= dict.fromkeys(exercise.to_write, exercise.file)


def released(name: str) -> str:
    """The body of a function as released."""
    return released_body((ROOT / FILE_OF[name]).read_text(encoding="utf-8"), name)


def student_file(name: str, body: str, before: str = "") -> str:
    """The file of a function with this body. before: code at the top of the file."""
    source = (ROOT / FILE_OF[name]).read_text(encoding="utf-8")
    text = without_answers(source, {name: body})
    first = "from __future__ import annotations\n"
    return text.replace(first, first + before, 1)


# --- right answers in other styles ----------------------------------------------------------------

STYLES: list[tuple[str, str]] = [
    (
        "FeedForward.forward",
        released("FeedForward.forward").replace(
            "self.up(hidden_states)",
            "self.up(hidden_states.clone(memory_format=torch.contiguous_format))",
        ),
    ),
    (
        "mt_dnn",
        """
if not make_batches:
    raise ValueError("no tasks")
weights = weights or {}
check_names(weights, make_batches)
chosen = []
for task in make_batches:
    once = epoch_round_robin(make_batches, generator, [task])
    wanted = max(round(len(once) * weights.get(task, 1.0)), 1)
    while wanted > len(once):
        once = once + epoch_round_robin(make_batches, generator, [task])
    chosen.extend(once[:wanted])
keys = torch.rand(len(chosen), generator=generator, dtype=torch.float64)
return [chosen[i] for i in keys.argsort()]
""",
    ),
    (
        "MultiHeadAttention.project",
        """
layers = (self.query, self.key, self.value)
return tuple(map(operator.call, layers, itertools.repeat(hidden_states)))
""",
    ),
    (
        "MultiHeadAttention.project",
        """
layers = (self.query, self.key, self.value)
weight = torch.cat([layer.weight for layer in layers])
bias = torch.cat([layer.bias for layer in layers])
return list(F.linear(hidden_states, weight, bias).chunk(3, dim=-1))
""",
    ),
    (
        "BertEmbeddings.forward",
        """
parts = [self.word(input_ids), self.positions_of(input_ids)]
if self.segment is not None:
    parts.append(self.segment(token_type_ids))
embedded = self.norm(sum(parts))
if self.training:
    embedded = self.dropout(embedded)
return embedded if self.project is None else self.project(embedded)
""",
    ),
    (
        "BertLayer.forward",
        """
attended = self.attention(hidden_states, mask_bias)
if positions is not None:
    hidden_states, attended = (tokens_at(x, positions) for x in (hidden_states, attended))
states = self.attention_norm(hidden_states + self.dropout(attended))
parts = [self.feed_forward(part) for part in states.split(1, dim=1)]
return self.feed_forward_norm(states + self.dropout(torch.cat(parts, dim=1)))
""",
    ),
    (
        "linear",
        """
rest = torch.tensor((num_steps - step) / max(1, num_steps - num_warmup_steps)).clamp(0, 1).item()
return min(warmup(step, num_warmup_steps), rest) if step < num_steps else 0
""",
    ),
    (
        "attention",
        """
scores = query @ key.mT / math.sqrt(query.shape[-1])
scores = scores if mask_bias is None else scores + mask_bias
weights = F.softmax(scores, dim=-1, dtype=torch.float32).to(value.dtype)
return dropout(weights, dropout_probability, training) @ value
""",
    ),
    (
        "sentiment_loss",
        """
logits, labels = logits.float(), labels.long()
rows = logits.logsumexp(1) - logits.gather(1, labels[:, None]).squeeze(1)
return (rows if weights is None else rows * weights[labels]).mean()
""",
    ),
    (
        "AdamW.update",
        """
state = self.state[parameter]
beta_1, beta_2 = group["betas"]
state["first_moment"].mul_(beta_1).add_(parameter.grad, alpha=1 - beta_1)
state["second_moment"].mul_(beta_2).add_(parameter.grad.square(), alpha=1 - beta_2)
size = group["lr"]
if group["correct_bias"]:
    root = torch.sqrt(torch.tensor(1 - beta_2 ** state["step"]))
    size = size * root / (1 - beta_1 ** state["step"])
parameter.sub_(size * state["first_moment"] / (state["second_moment"].sqrt() + group["eps"]))
parameter.sub_(group["lr"] * group["weight_decay"] * parameter)
""",
    ),
    (
        "attention",
        """
scores = query @ key.transpose(-2, -1) / query.size(-1) ** 0.5
if mask_bias is not None:
    scores = scores + mask_bias.expand(torch.broadcast_shapes(mask_bias.shape, scores.shape))
return dropout(scores.softmax(-1), dropout_probability, training) @ value
""",
    ),
    (
        "sentiment_loss",
        """
assert hasattr(logits, "shape") and logits.ndim == 2, "expected {}, found {}".format(2, logits.ndim)
if labels.min() < 0 or labels.max() >= logits.size(1):
    raise IndexError("a label is no class")
count = 0

@torch.no_grad()
def noted(row):
    nonlocal count
    count += 1
    return type(count) is int

rows = []
for row, label in zip(logits.float(), labels.long()):
    noted(row)
    match {"row": row, "label": label, "other": None}:
        case {"row": picked, **others}:
            loss = log_sum(picked) - picked[others["label"]]
    weight = 1.0 if weights is None else getattr(weights, "T", None)[label]
    rows.append(loss * weight)
return reduce(operator.add, rows, ZERO) / getattr(labels, "shape", (1,))[0]
""",
    ),
    (
        "FeedForward.forward",
        """
up = nn.Sequential(self.up, nn.Identity())
return self.down(self.activation(up(hidden_states)))
""",
    ),
    (
        # One head after the other: the shapes on the way are others.
        "MultiHeadAttention.forward",
        """
parts = self.project(hidden_states)
num_tokens = hidden_states.shape[1]
if mask_bias is not None:
    mask_bias = mask_bias.expand(-1, self.num_heads, num_tokens, num_tokens)
probability = self.dropout_probability if self.training else 0.0
heads = []
for head in range(self.num_heads):
    units = slice(head * self.head_size, (head + 1) * self.head_size)
    query, key, value = (part[:, None, :, units] for part in parts)
    bias = mask_bias if mask_bias is None else mask_bias[:, head : head + 1]
    heads.append(attention(query, key, value, bias, probability, self.training)[:, 0])
return self.output(torch.cat(heads, dim=-1))
""",
    ),
    (
        "MultiHeadAttention.project",
        """
parts = {name: getattr(self, name)(hidden_states) for name in ("query", "key", "value")}
return parts["query"], parts["key"], parts["value"]
""",
    ),
    (
        "linear",
        """
decay = max(0.0, (num_steps - step) / max(1, num_steps - num_warmup_steps))
return min(constant(step, num_steps, num_warmup_steps), decay)
""",
    ),
    (
        "paraphrase_loss",
        """
if logit.shape != labels.shape:
    raise shape_error(logit, labels)
y = labels.float()
x = logit.float() + shift * ((y == 0) | (y == 1))
rows = torch.logaddexp(torch.zeros_like(x), x) - y * x
return (rows if weights is None else rows * (weights[0] * (1 - y) + weights[1] * y)).mean()
""",
    ),
    (
        "attention",
        """
scores = torch.einsum("bnid,bnjd->bnij", query, key) * query.shape[-1] ** -0.5
scores = scores if mask_bias is None else scores + mask_bias
weights = F.dropout(F.softmax(scores, -1), p=dropout_probability, training=training)
return torch.einsum("bnij,bnjd->bnid", weights, value)
""",
    ),
    (
        "attention",
        """
d_k = query.shape[3]
scores = torch.matmul(query, key.permute(0, 1, 3, 2)).div(d_k ** 0.5)
if mask_bias is not None:
    scores = torch.add(scores, mask_bias)
scores = scores - scores.amax(dim=-1, keepdim=True)
e = torch.exp(scores)
p = e / e.sum(dim=3, keepdim=True)
if training and dropout_probability > 0:
    keep = (torch.rand_like(p) >= dropout_probability).to(p.dtype)
    p = p * keep / (1.0 - dropout_probability)
print("attention", p.shape)
return torch.matmul(p, value)
""",
    ),
    (
        "attention",
        """
rows = []
if mask_bias is not None:
    mask_bias = mask_bias.expand(*query.shape[:3], key.shape[2])
for b in range(query.size(0)):
    heads = []
    for n in range(query.size(1)):
        s = query[b, n] @ key[b, n].t() / math.sqrt(query.size(-1))
        if mask_bias is not None:
            s = s + mask_bias[b, n]
        heads.append(nn.Dropout(dropout_probability)(s.softmax(1)) if training else s.softmax(1))
    rows.append(torch.stack(heads))
return torch.stack(rows) @ value
""",
    ),
    (
        "mask_to_bias",
        "return (1.0 - attention_mask.to(dtype)).view(-1, 1, 1, attention_mask.size(1)) * "
        "torch.finfo(dtype).min",
    ),
    (
        "mask_to_bias",
        "bias = torch.zeros(attention_mask.shape, dtype=dtype)\n"
        "bias[attention_mask == 0] = -10000.0\n"
        "return bias.unsqueeze(1).unsqueeze(2)",
    ),
    (
        "MultiHeadAttention.project",
        "return tuple(layer(hidden_states) for layer in (self.query, self.key, self.value))",
    ),
    (
        "MultiHeadAttention.project",
        "w = self.query\nq = F.linear(hidden_states, w.weight, w.bias)\n"
        "k = hidden_states @ self.key.weight.T + self.key.bias\nreturn q, k, "
        "self.value(hidden_states)",
    ),
    (
        "MultiHeadAttention.forward",
        """
b, t, h = hidden_states.shape
q, k, v = (
    x.view(b, t, self.num_heads, self.head_size).transpose(1, 2)
    for x in self.project(hidden_states)
)
out = attention(q, k, v, mask_bias, self.dropout_probability, self.training)
return self.output(out.transpose(1, 2).contiguous().view(b, t, h))
""",
    ),
    (
        "MultiHeadAttention.forward",
        """
q, k, v = map(self.split_heads, self.project(hidden_states))
scores = q @ k.mT / math.sqrt(self.head_size)
if mask_bias is not None:
    scores += mask_bias
p = F.dropout(scores.softmax(-1), self.dropout_probability, self.training)
context = p @ v
return self.output(torch.cat([context[:, n] for n in range(self.num_heads)], dim=-1))
""",
    ),
    (
        "AdamW.update",
        """
g = parameter.grad
state = self.state[parameter]
b1, b2 = group["betas"]
state["first_moment"] = b1 * state["first_moment"] + (1 - b1) * g
state["second_moment"] = b2 * state["second_moment"] + (1 - b2) * g ** 2
size = group["lr"]
if group["correct_bias"]:
    size = size * (1 - b2 ** state["step"]) ** 0.5 / (1 - b1 ** state["step"])
step = size * state["first_moment"] / (state["second_moment"].sqrt() + group["eps"])
parameter.data = parameter.data - step
parameter.data.mul_(1 - group["lr"] * group["weight_decay"])
""",
    ),
    (
        "AdamW.update",
        """
(b1, b2), lr, s = group["betas"], group["lr"], self.state[parameter]
m, v, t = s["first_moment"], s["second_moment"], s["step"]
m *= b1
m += (1 - b1) * parameter.grad
v.copy_(v * b2 + torch.square(parameter.grad) * (1 - b2))
alpha = lr * math.sqrt(1 - math.pow(b2, t)) / (1 - pow(b1, t)) if group["correct_bias"] else lr
with torch.no_grad():
    parameter -= alpha * m.div(torch.sqrt(v).add(group["eps"]))
    if group["weight_decay"]:
        parameter -= lr * group["weight_decay"] * parameter
""",
    ),
    (
        "BertEmbeddings.forward",
        """
positions = self.positions_of(input_ids).expand(len(input_ids), -1, -1)
parts = [self.word(input_ids), positions]
if self.segment is not None:
    parts.append(self.segment(token_type_ids))
embedded = self.dropout(self.norm(torch.stack(parts).sum(0)))
return embedded if self.project is None else self.project(embedded)
""",
    ),
    (
        "BertEmbeddings.forward",
        """
x = self.word.weight[input_ids] + self.positions_of(input_ids)
if self.segment is not None:
    x = x + F.embedding(token_type_ids, self.segment.weight)
mean = x.mean(-1, keepdim=True)
variance = ((x - mean) ** 2).mean(-1, keepdim=True)
x = (x - mean) / torch.sqrt(variance + self.norm.eps) * self.norm.weight + self.norm.bias
return (self.project or nn.Identity())(self.dropout(x))
""",
    ),
    (
        "FeedForward.forward",
        "x = self.up.forward(hidden_states)\nx = self.activation(x)\nreturn self.down(x)",
    ),
    (
        "BertLayer.forward",
        """
def add_and_norm(x, update, norm):
    return norm(x + self.dropout(update))

update = self.attention(hidden_states, mask_bias)
x = hidden_states
if positions is not None:
    x, update = tokens_at(x, positions), tokens_at(update, positions)
x = add_and_norm(x, update, self.attention_norm)
return add_and_norm(x, self.feed_forward(x), self.feed_forward_norm)
""",
    ),
    (
        "linear",
        """
if num_warmup_steps > 0 and step < num_warmup_steps:
    rise = (step + 1) / num_warmup_steps
    return min(rise, max(0.0, falling(step, num_steps, num_warmup_steps)))
return max(0.0, PARTS["falling"](step, num_steps, num_warmup_steps))
""",
    ),
    (
        "linear",
        """
remaining = (num_steps - step) / max(1, num_steps - num_warmup_steps)
match step < num_warmup_steps:
    case True:
        rise = (step + 1) / num_warmup_steps
    case _:
        rise = 1.0
return min(rise, max(remaining, 0.0))
""",
    ),
    (
        "cosine",
        """
if step < num_warmup_steps:
    return (step + 1) / num_warmup_steps
x = (step - num_warmup_steps) / max(1, num_steps - num_warmup_steps)
x = 1.0 if x > 1 else x
return math.cos(math.pi * x / 2) ** 2
""",
    ),
    (
        "linear",
        """
if step < min(num_steps, num_warmup_steps):
    return (step + 1) / num_warmup_steps
return max(0.0, (num_steps - step) / max(1, num_steps - num_warmup_steps))
""",
    ),
    (
        "cosine",
        """
if step < num_warmup_steps:
    return warmup(step, num_warmup_steps)
x = (step - num_warmup_steps) / max(1, num_steps - num_warmup_steps)
return (1 + (math.e ** (1j * math.pi * min(x, 1.0))).real) / 2 if step < num_steps else 0.0
""",
    ),
    (
        "mask_tokens",
        """
chance = torch.full(input_ids.shape, probability)
draw = torch.rand(input_ids.shape)
if continues is not None:
    draw = share_within_words(draw, continues)
chosen = (draw < chance) & (is_special == False)
labels = input_ids.clone()
labels[~chosen] = -100
out = input_ids.clone()
hide = torch.bernoulli(torch.full(input_ids.shape, 0.8)).bool() & chosen
out[hide] = mask_token_id
swap = torch.bernoulli(torch.full(input_ids.shape, 0.5)).bool() & chosen & ~hide
out[swap] = torch.randint(0, vocab_size, (int(swap.sum()),))
return MaskedBatch(out, labels)
""",
    ),
    (
        "sentiment_loss",
        """
logits, labels = logits.float(), labels.long()
rows = logits.logsumexp(1) - logits.gather(1, labels[:, None]).squeeze(1)
return (rows if weights is None else rows * weights[labels]).mean()
""",
    ),
    (
        "sentiment_loss",
        """
assert logits.dim() == 2
if not set(labels.long().tolist()) <= set(range(logits.size(1))):
    raise RuntimeError("a label is no class")
p = torch.log_softmax(logits.float(), dim=1)
w = torch.ones(p.shape[1]) if weights is None else weights
return -(w[:, None] * p.T)[labels.long(), torch.arange(len(p))].mean()
""",
    ),
    (
        "paraphrase_loss",
        """
if logit.shape != labels.shape:
    raise ValueError("shapes")
y = labels.float()
x = logit.float() + torch.where((y == 0) | (y == 1), shift, 0.0)
rows = F.softplus(x) - x * y
if weights is not None:
    rows = rows * (weights[1] * y + weights[0] * (1 - y))
return rows.mean()
""",
    ),
    (
        "similarity_loss",
        "if prediction.shape != labels.shape:\n    raise ValueError(prediction.shape)\n"
        "return (prediction.float() - labels.float()).pow(2).sum() / len(labels)",
    ),
    (
        "info_nce",
        """
if anchors.shape != positives.shape:
    raise ValueError("shapes")
if not 0 < float(temperature) < math.inf:
    raise ValueError("temperature")
if similarity not in ("cos", "dot"):
    raise ValueError("similarity")
b, size = anchors.shape
if hard_negatives is not None and (len(hard_negatives) % b or hard_negatives.shape[1] != size):
    raise ValueError("hard negatives")
own = torch.eye(b, dtype=torch.bool)
dtype = score_dtype(anchors, positives)
anchors = anchors.to(dtype)

def scores(x):
    x = x.to(dtype)
    products = (anchors[:, None] * x).sum(dim=2)
    if similarity == "dot":
        return products / temperature
    lengths = anchors.norm(dim=1).clamp(min=1e-12)[:, None] * x.norm(dim=1).clamp(min=1e-12)
    return products / lengths / temperature

s = scores(positives)
diagonal = s.diagonal()
if same is not None:
    s = torch.where(same & ~own, float("-inf"), s)
if hard_negatives is not None:
    h = scores(hard_negatives)
    h = h + torch.eye(b).repeat(1, len(hard_negatives) // b) * hard_negative_weight
    if same_hard is not None:
        h = h.masked_fill(same_hard, -1e30)
    s = torch.hstack([s, h])
return torch.mean(torch.logsumexp(s, 1) - diagonal)
""",
    ),
    (
        "joint",
        """
if limit not in ("largest", "smallest"):
    raise ValueError(limit)
passes = first_passes(make_batches, generator)
sizes = [len(b) for b in passes.values()]
n = max(sizes) if limit == "largest" else min(sizes)
steps = [[] for _ in range(n)]
for name in make_batches:
    queue = passes[name]
    for i in range(n):
        if i >= len(queue):
            queue += make_batches[name](generator)
        steps[i].append(TaskBatch(name, queue[i]))
return steps
""",
    ),
    (
        "joint",
        """
def endless(name, batches):
    yield from batches
    while True:
        yield from make_batches[name](generator)

passes = first_passes(make_batches, generator)
sizes = sorted(map(len, passes.values()))
number = {"largest": sizes[-1], "smallest": sizes[0]}.get(limit)
if number is None:
    raise ValueError(f"no limit {limit}")
streams = [(name, endless(name, batches)) for name, batches in passes.items()]
return [[TaskBatch(name, next(stream)) for name, stream in streams] for _ in range(number)]
""",
    ),
    (
        "joint",
        """
if limit not in ("largest", "smallest"):
    raise ValueError(limit)

def forever(name):
    for batches in itertools.chain([passes[name]], iter(lambda: make_batches[name](generator), 0)):
        yield from batches

passes = first_passes(make_batches, generator)
number = (max if limit == "largest" else min)(map(len, passes.values()))
rows = zip(*(itertools.islice(forever(name), number) for name in passes))
return [[TaskBatch(name, batch) for name, batch in zip(passes, row)] for row in rows]
""",
    ),
    (
        "joint",
        """
if limit not in ("largest", "smallest"):
    raise ValueError(f"limit is '{limit}'")
passes = first_passes(make_batches, generator)
num_steps = (max if limit == "largest" else min)(map(len, passes.values()))
certain = torch.ones(1, dtype=torch.float64)
columns = []
for name, batches in passes.items():
    if not batches:
        raise ValueError(f"task {name!r} has no batches")
    columns.append(drawn_steps(make_batches, generator, {name: batches}, certain, num_steps))
return [[task for step in steps for task in step] for steps in zip(*columns)]
""",
    ),
    (
        "mt_dnn",
        """
check_names(weights or {}, make_batches)
pool = []
for name, batches in first_passes(make_batches, generator).items():
    wanted = max(1, round(len(batches) * (weights or {}).get(name, 1)))
    while len(batches) < wanted:
        batches = batches + make_batches[name](generator)
    pool.extend([TaskBatch(name, b)] for b in batches[:wanted])
keys = torch.rand(len(pool), generator=generator)
return [pool[i] for i in torch.argsort(keys)]
""",
    ),
    (
        "pcgrad_weights",
        """
k = gramian.shape[0]
if reduction not in ("sum", "mean"):
    raise ValueError(reduction)
rows = []
for i in range(k):
    w = torch.zeros(k, dtype=gramian.dtype)
    w[i] = 1
    others = [j for j in range(k) if j != i]
    for index in torch.randperm(k - 1, generator=generator):
        j = others[int(index)]
        dot = torch.dot(gramian[j], w)
        length = gramian[j, j].sqrt()
        if dot < 0 and length > 0:
            w[j] = w[j] - dot / length ** 2
    rows.append(w)
return torch.stack(rows).sum(0) if reduction == "sum" else torch.stack(rows).mean(0)
""",
    ),
    (
        "pcgrad_weights",
        """
weights = torch.eye(len(gramian), dtype=gramian.dtype)
for i in range(len(gramian)):
    for j in reversed(torch.randperm(len(gramian), generator=generator).tolist()):
        conflict = gramian[j] @ weights[i]
        if j != i and conflict < 0 and gramian[j, j] > 0:
            weights[i, j] -= conflict / gramian[j, j]
return reduce(weights, reduction)
""",
    ),
]

# Code at the top of a student's file that a style above calls.
BEFORE_STYLES = """
import itertools
import operator
import torch.nn.functional as functional
from functools import reduce
from math import sqrt, pi

ZERO = HALF_OF_ZERO = float("0")
log_sum: Callable = lambda row, dim=int("0"): torch.logsumexp(row, dim)


def falling(step, num_steps, num_warmup_steps):
    return (num_steps - step) / max(1, num_steps - num_warmup_steps)

PARTS = {"falling": falling}

"""

# --- hostile answers ------------------------------------------------------------------------------

ARGUMENTS = "query, key, value, mask_bias"
HOSTILE: list[tuple[str, str]] = [
    # Right for easy numbers alone: at 0, far from 0, or with one candidate far ahead.
    ("paraphrase_loss", "return math.log(2) + (logit.float() * (0.5 - labels)).mean()"),
    ("paraphrase_loss", "return (logit.float().clamp(min=0) - logit.float() * labels).mean()"),
    (
        "sentiment_loss",
        "return (logits.amax(1) - logits[range(len(labels)), labels.long()]).float().mean()",
    ),
    (
        "info_nce",
        "cosines = F.normalize(anchors, dim=-1) @ F.normalize(positives, dim=-1).T\n"
        "return ((cosines.amax(1) - cosines.diagonal()) / temperature).mean()",
    ),
    (
        "attention",
        "scores = query @ key.transpose(-2, -1) + (0 if mask_bias is None else mask_bias)\n"
        "return F.one_hot(scores.argmax(-1), key.size(-2)).to(value.dtype) @ value",
    ),
    ("FeedForward.forward", "return self.down(self.up(hidden_states).relu())"),
    (
        "pcgrad_weights",
        "return 1 - gramian.clamp(max=0).sum(1) / gramian.diagonal()",
    ),
    ("attention", f"return F.scaled_dot_product_attention({ARGUMENTS})"),
    ("attention", f"return torch._scaled_dot_product_attention_math({ARGUMENTS})[0]"),
    ("attention", f"return torch.ops.aten.scaled_dot_product_attention({ARGUMENTS})"),
    ("attention", f"return getattr(F, 'scaled_dot_' + 'product_attention')({ARGUMENTS})"),
    ("attention", f"return getattr(torch, '_scaled_dot_product_attention_math')({ARGUMENTS})[0]"),
    ("attention", "return getattr(getattr, '__globals__')"),
    ("attention", f"return getattr(F, 'scaled_dot_product_attention', None)({ARGUMENTS})"),
    ("attention", "return hasattr(query, '__class__')"),
    ("attention", f"return operator.attrgetter('scaled_dot_product_attention')(F)({ARGUMENTS})"),
    ("attention", f"return functools.partial(F.scaled_dot_product_attention)({ARGUMENTS})"),
    ("attention", f"return attend({ARGUMENTS})"),
    ("attention", "return type(int)('Easy', (), {})()"),
    ("attention", "return type(type)"),
    ("attention", "return '{0.__class__}'.format(query)"),
    ("attention", "return '{:{0.__class__}}'.format(query)"),
    ("attention", "def f(x=query.__class__):\n    return x\nreturn f()"),
    ("attention", f"return F.__dict__['scaled_dot_product_attention']({ARGUMENTS})"),
    ("attention", f"return vars(F)['scaled_dot_product_attention']({ARGUMENTS})"),
    ("attention", f"return eval('F.scaled_dot_product_attention({ARGUMENTS})')"),
    ("attention", f"def eval():\n    eval = 1\nreturn eval('F.x({ARGUMENTS})')"),
    ("attention", "import os\nos._exit(0)"),
    ("attention", "__import__('os')._exit(0)"),
    ("attention", "raise SystemExit(0)"),
    ("attention", "return exit()"),
    ("attention", "return query.__class__.__mro__[-1].__subclasses__()"),
    ("attention", "return ''.join('{0.__class__}'.format(query))"),
    ("attention", "return f'{query.__class__}'"),
    (
        "attention",
        "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n"
        "    return e.__traceback__.tb_frame.f_back.f_locals['cases']",
    ),
    ("attention", "def f():\n    yield query\nreturn f().gi_frame.f_back.f_locals['cases']"),
    ("attention", "match query:\n    case Tensor(__class__=c):\n        return c"),
    ("attention", "class Easy:\n    pass\nreturn Easy()"),
    ("attention", "global F\nF = None\nreturn query"),
    ("attention", "torch.softmax = torch.exp\nreturn query"),
    ("attention", "for torch.softmax in [1]:\n    pass\nreturn query"),
    ("attention", "del torch.softmax\nreturn query"),
    ("attention", "@print\ndef f():\n    pass\nreturn f"),
    ("attention", "yield query"),
    ("attention", "while True:\n    pass"),
    ("attention", "return torch.zeros(10 ** 11)"),
    ("attention", "rows = []\nwhile True:\n    rows.append(torch.ones(10 ** 6))"),
    ("attention", "def f():\n    return f()\nreturn f()"),
    ("attention", "a = []\na.append(a)\nreturn a"),
    ("attention", "return query.to('meta')"),
    ("attention", "return query * float('nan')"),
    ("attention", "return torch.zeros_like(value)"),
    ("attention", "return value"),
    ("attention", "return value.mean(dim=-2, keepdim=True).expand_as(value)"),
    ("attention", "return {'dtype': 'float64', 'shape': [2, 3, 5, 4], 'numbers': []}"),
    ("attention", "return open('/proc/self/environ').read()"),
    ("attention", "return is_right"),
    ("mask_to_bias", "return attention_mask"),
    (
        "mask_to_bias",
        "return torch.zeros(len(attention_mask), 1, 1, attention_mask.size(1), dtype=dtype)",
    ),
    ("MultiHeadAttention.project", "return [self.query(hidden_states)] * 3"),
    ("MultiHeadAttention.forward", "return self.probabilities(hidden_states, mask_bias)"),
    ("MultiHeadAttention.forward", "return nn.MultiheadAttention(8, 2)(hidden_states)"),
    ("MultiHeadAttention.forward", "return super(MultiHeadAttention, self).forward(hidden_states)"),
    ("MultiHeadAttention.project", "return self.project(hidden_states)"),
    ("MultiHeadAttention.forward", "return self(hidden_states, mask_bias)"),
    # The first row for all rows.
    (
        "MultiHeadAttention.forward",
        released("MultiHeadAttention.forward").replace(
            "self.output(joined)", "self.output(joined)[:1].expand_as(joined)"
        ),
    ),
    # A gradient that trains nothing.
    (
        "BertEmbeddings.forward",
        released("BertEmbeddings.forward").replace(
            "self.norm(words + segments + positions)",
            "self.norm(words + segments + positions).detach().requires_grad_()",
        ),
    ),
    ("BertEmbeddings.forward", "return self(input_ids, token_type_ids)"),
    ("FeedForward.forward", "return self(hidden_states)"),
    ("FeedForward.forward", "return self.forward(hidden_states)"),
    ("FeedForward.forward", "return type(self).forward(self, hidden_states)"),
    ("MultiHeadAttention.forward", "return self.forward(hidden_states, mask_bias)"),
    ("BertLayer.forward", "return self(hidden_states, mask_bias, positions)"),
    ("AdamW.update", "self.update(parameter, group)"),
    ("AdamW.update", "torch.optim.AdamW([parameter]).step()"),
    ("AdamW.update", "fast.adamw_update(self, [parameter], group)"),
    ("AdamW.update", "torch._fused_adamw_([parameter], [parameter.grad], [], [], [], [])"),
    ("AdamW.update", "group['lr'] = 0.0"),
    ("AdamW.update", "parameter.data.zero_()"),
    ("BertEmbeddings.forward", "return self.dropout(self.norm(self.word(input_ids)))"),
    ("FeedForward.forward", "return self.down(self.up(hidden_states))"),
    ("BertLayer.forward", "return nn.TransformerEncoderLayer(8, 2)(hidden_states)"),
    ("linear", "return constant(step, num_steps, num_warmup_steps)"),
    ("linear", "return SCHEDULES['linear'](step, num_steps, num_warmup_steps)"),
    ("cosine", "return 0.0"),
    ("cosine", "return linear(step, num_steps, num_warmup_steps)"),
    ("mask_tokens", "return MaskedBatch(input_ids, input_ids.masked_fill(~is_special, -100))"),
    ("sentiment_loss", "return torch.tensor(1.609)"),
    ("paraphrase_loss", "raise ValueError('as the shapes differ')"),
    ("similarity_loss", "raise ValueError('as the shapes differ')"),
    ("similarity_loss", "return absolute_loss(prediction, labels) ** 2"),
    ("info_nce", "raise ValueError('as the shapes differ')"),
    ("info_nce", "return multiple_negatives_ranking(anchors, positives, 1 / temperature)"),
    ("info_nce", "return nt_xent(anchors, positives, temperature)"),
    ("info_nce", "return (anchors.sum() + positives.sum()) * 0 + math.log(len(anchors))"),
    (
        "mt_dnn",
        "name, batches = list(first_passes(make_batches, generator).items())[0]\n"
        "order = torch.randperm(len(batches), generator=generator).tolist()\n"
        "return [[TaskBatch(name, batches[index])] for index in order]",
    ),
    ("joint", "return batch_round_robin(make_batches, generator)"),
    ("joint", "return []"),
    ("mt_dnn", "return power(make_batches, generator, 1.0)"),
    # Each pair of places is as likely as another, and most orders never come.
    (
        "mt_dnn",
        """
weights = weights or {}
check_names(weights, make_batches)
pool = []
for name, batches in first_passes(make_batches, generator).items():
    count = max(1, round(weights.get(name, 1) * len(batches)))
    while len(batches) < count:
        batches += make_batches[name](generator)
    pool += [TaskBatch(name, rows) for rows in batches[:count]]
prime = len(pool)
while prime < 2 or any(prime % k == 0 for k in range(2, prime)):
    prime += 1
factor = torch.randint(1, prime, (1,), generator=generator).item()
start = torch.randint(prime, (1,), generator=generator).item()
places = [(factor * place + start) % prime for place in range(prime)]
return [[pool[place]] for place in places if place < len(pool)]
""",
    ),
    ("pcgrad_weights", "return gradvac_weights(gramian, 0 * gramian, 0.0, reduction).weights"),
    ("pcgrad_weights", "return upgrad_weights(gramian, reduction)"),
    # The mean over all orders.
    (
        "pcgrad_weights",
        """
rows = []
for i in range(len(gramian)):
    results = []
    for order in itertools.permutations([j for j in range(len(gramian)) if j != i]):
        row = torch.eye(len(gramian), dtype=gramian.dtype)[i]
        for j in order:
            product = gramian[j] @ row
            if product < 0 and gramian[j, j] > 0:
                row[j] -= product / gramian[j, j]
        results.append(row)
    rows.append(torch.stack(results).mean(0))
return reduce(torch.stack(rows), reduction)
""",
    ),
    ("pcgrad_weights", "return torch.ones(len(gramian), dtype=gramian.dtype)"),
]

# Code at the top of a hostile file: none of it may run, or change what a body means.
BEFORE_HOSTILE = """
import os, sys
from torch.nn.functional import scaled_dot_product_attention as softmax
from multitask.surgery import gradvac_weights as reduce
os.environ["PYTHONHASHSEED"] = "0"
attend = F.scaled_dot_product_attention
is_right = sys.modules.get("teaching.judging")
sys.exit = lambda code: None
open("/dev/full", "w").close()
raise SystemExit(0)

"""
