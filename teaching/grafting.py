"""From a student's file to one function that can be called: only its body is taken.

The body may use what its exercise allows, and nothing else: the attributes and kinds of statements
are those of lists. A list of what is forbidden always has holes. The function is then made with the
names of a list as its only globals and builtins, so another name is not there.

Classes and other code at the top of the student's file never run. A constant is computed where a
body could compute it, and a name is imported where a body could look it up.
"""

from __future__ import annotations

import ast
import builtins
import collections
import contextlib
import functools
import itertools
import math
import operator
import re
from collections.abc import Callable, Mapping
from importlib import import_module
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import torch
import torch.distributions
from torch import nn

from teaching.exercises import exercise_of, functions

# --- what a body may use --------------------------------------------------------------------------

BUILTIN_NAMES = """
abs all any bin bool callable chr complex dict divmod enumerate filter float format frozenset hash
id int isinstance issubclass iter len list map max min next object ord pow range repr reversed round
set slice sorted staticmethod str sum tuple zip Ellipsis NotImplemented ArithmeticError
AssertionError AttributeError Exception FloatingPointError IndexError KeyError LookupError NameError
NotImplementedError OverflowError RuntimeError StopIteration TypeError ValueError ZeroDivisionError
"""

# Names that a body finds, and from which a file may import names.
GLOBALS = {
    "collections": collections,
    "functools": functools,
    "itertools": itertools,
    "math": math,
    "operator": operator,
    "torch": torch,
    "F": nn.functional,
    "nn": nn,
    "Tensor": torch.Tensor,
}

# Attributes of tensors, of torch and its modules, of math, and of Python's containers. None of them
# is an answer, opens a file, or leads to the rest of the process.
ATTRIBUTE_NAMES = """
T mT H mH Tensor nn functional shape ndim dtype device layout size dim numel nelement stride item
tolist new_zeros new_ones new_full new_tensor new_empty is_floating_point is_contiguous is_nonzero
finfo iinfo min max eps tiny resolution bfloat16 float16 float32 float64 float half double int8
int16 int32 int64 uint8 int long short bool to type_as cpu detach clone contiguous requires_grad
requires_grad_ no_grad enable_grad autocast type enabled promote_types result_type
get_default_dtype is_tensor
tensor as_tensor scalar_tensor zeros ones full empty eye arange linspace logspace range zeros_like
ones_like full_like empty_like complex tril_indices triu_indices cartesian_prod combinations
meshgrid
view view_as reshape reshape_as ravel flatten unflatten unsqueeze unsqueeze_ squeeze squeeze_
transpose transpose_ permute swapaxes swapdims movedim moveaxis t t_ adjoint expand expand_as
broadcast_to broadcast_tensors repeat repeat_interleave tile chunk split tensor_split hsplit vsplit
unbind unfold stack cat concat concatenate hstack vstack dstack column_stack row_stack atleast_1d
atleast_2d atleast_3d block_diag narrow select select_scatter slice_scatter diagonal_scatter
index_select index_add index_add_ index_copy index_copy_ index_fill index_fill_ index_put
index_put_ index_reduce gather take take_along_dim put put_ scatter scatter_ scatter_add
scatter_add_ scatter_reduce scatter_reduce_ masked_fill masked_fill_ masked_scatter
masked_scatter_ masked_select where nonzero argwhere flip fliplr flipud rot90 roll tril triu tril_
triu_ diag diagonal diag_embed diagflat fill_diagonal_ fill fill_ zero_ copy_
add add_ sub sub_ subtract subtract_ rsub mul mul_ multiply multiply_ div div_ divide divide_
true_divide true_divide_ floor_divide neg neg_ negative negative_ positive pow pow_ float_power
square square_ sqrt sqrt_ rsqrt rsqrt_ exp exp_ exp2 log log_ log1p log1p_ log2 log10 logaddexp
logaddexp2 xlogy expm1 expm1_ abs abs_ absolute sign sgn sin sin_ cos cos_ tan sinh cosh tanh tanh_
atan2 sigmoid sigmoid_ logit erf erf_ erfc erfinv lgamma reciprocal reciprocal_ clamp clamp_
clamp_min clamp_min_ clamp_max clamp_max_ clip clip_ minimum maximum fmin fmax addcmul addcmul_
addcdiv addcdiv_ lerp lerp_ round round_ floor ceil floor_ ceil_ trunc trunc_ frac fix remainder
fmod heaviside hypot bitwise_and bitwise_or bitwise_xor bitwise_not
sum nansum mean nanmean prod var std var_mean std_mean median nanmedian quantile mode norm linalg
vector_norm matrix_norm multi_dot amax amin aminmax argmax argmin cumsum cumsum_ cummax cummin
cumprod cumprod_ logcumsumexp diff count_nonzero trace sort argsort msort topk kthvalue unique
unique_consecutive bincount histc bucketize searchsorted cdist dist renorm
all any logsumexp softmax softmin log_softmax logsigmoid softplus relu relu_ isfinite isnan isinf
isneginf isposinf isclose isin allclose equal eq ne lt le gt ge less less_equal greater
greater_equal not_equal logical_and logical_or logical_not logical_xor nan_to_num values indices
matmul mm bmm mv einsum dot vdot vecdot outer ger inner kron baddbmm baddbmm_ addbmm addmm addmm_
addmv addr tensordot matrix_power
rand randn rand_like randn_like randint randint_like randperm bernoulli bernoulli_ multinomial
normal normal_ uniform_ random_ exponential_ dropout Dropout Identity linear Linear normalize
cosine_similarity CosineSimilarity pairwise_distance one_hot pad cross_entropy CrossEntropyLoss
nll_loss NLLLoss binary_cross_entropy_with_logits BCEWithLogitsLoss binary_cross_entropy BCELoss
mse_loss MSELoss l1_loss kl_div gelu GELU ReLU Sigmoid Tanh Softmax LogSoftmax LogSigmoid Softplus
layer_norm embedding in_features out_features num_embeddings embedding_dim normalized_shape
pi inf e nan tau fsum isqrt degrees radians comb real imag polar conj
accumulate chain compress cycle from_iterable islice pairwise permutations product repeat starmap
takewhile zip_longest
append appendleft extend pop popleft popitem get keys items update index insert sort count copy
setdefault clear reverse fromkeys join add discard remove union intersection difference
symmetric_difference issubset issuperset startswith endswith lower upper strip replace weight bias
is_integer padding_idx isdisjoint difference_update intersection_update
symmetric_difference_update cbrt fabs copysign frexp ldexp modf gcd lcm asin acos atan arctan
split_with_sizes sum_to_size unravel_index inverse det solve cross trapezoid vander vmap signbit
sinc logical_and_ logical_not_ logical_or_ logical_xor_ bitwise_and_ bitwise_or_ asarray is_complex
contiguous_format preserve_format
is_grad_enabled is_autocast_enabled detach_ binomial poisson geometric_ embedding_bag
smooth_l1_loss huber_loss silu elu leaky_relu hardtanh relu6 softsign threshold rms_norm glu
Sequential ModuleList L1Loss Embedding LayerNorm Flatten probability training
distributions Categorical Bernoulli Uniform Normal sample probs logits log_prob
Size LongTensor FloatTensor DoubleTensor BoolTensor Parameter newaxis itemsize element_size nbytes
is_cuda is_sparse is_same_size is_signed can_cast broadcast_shapes set_grad_enabled inference_mode
arcsin arccos arctan2 acosh asinh atanh angle addbmm_ bitwise_not_ bitwise_xor_ erfc_ eq_ ne_ gt_
ge_ lt_ le_ exp2_ float_power_ fmod_ log2_ log10_ logit_ remainder_ nan_to_num_ sign_ renorm_ sinh_
xlogy_ index_reduce_ dsplit matrix_exp pinverse svd qr nanquantile swapaxes_ special expit entr
ndtr cdf cumulative_trapezoid pdist corrcoef cov conj_physical narrow_copy nonzero_static isreal
cosine_embedding_loss CosineEmbeddingLoss hinge_embedding_loss margin_ranking_loss
triplet_margin_loss gaussian_nll_loss poisson_nll_loss multi_margin_loss soft_margin_loss selu mish
celu hardswish hardsigmoid softshrink gumbel_softmax alpha_dropout Softmin SiLU ELU LeakyReLU
Unflatten ModuleDict PairwiseDistance SmoothL1Loss HuberLoss KLDivLoss
factorial perm gamma nextafter ulp combinations_with_replacement dropwhile filterfalse groupby tee
batched reduce partial cache lru_cache defaultdict Counter OrderedDict deque most_common elements
total rotate extendleft maxlen move_to_end itemgetter truediv floordiv mod and_ or_ xor not_
call contains countOf delitem getitem setitem iadd iand iconcat ifloordiv ilshift imatmul imod imul
indexOf inv invert ior ipow irshift is_ is_not isub itruediv ixor length_hint lshift pos rshift
truth cmp_to_key ChainMap
capitalize casefold center find isalnum isalpha isdigit islower isnumeric isspace isupper ljust
lstrip partition removeprefix removesuffix rfind rindex rjust rpartition rsplit rstrip splitlines
swapcase title zfill as_integer_ratio bit_count bit_length denominator numerator conjugate send
close
"""
BUILTINS = BUILTIN_NAMES.split()
COMMON = ATTRIBUTE_NAMES.split()


class Allowed(NamedTuple):
    """What one function may use beside the names for all."""

    # Names of its own module, such as helpers that are given.
    names: str = ""

    # Attributes, such as those of `self`. `data` may also be assigned.
    attributes: str = ""


HEADS = "query key value output project split_heads num_heads head_size dropout_probability forward"
ALLOWED: dict[str, Allowed] = {
    "attention": Allowed("dropout"),
    "mask_to_bias": Allowed(),
    "MultiHeadAttention.project": Allowed(attributes=HEADS),
    "MultiHeadAttention.forward": Allowed("attention dropout", f"{HEADS} training is_fused"),
    "AdamW.update": Allowed(attributes="state grad data"),
    "BertEmbeddings.forward": Allowed(
        attributes="word position segment positions_of first_position norm project forward"
    ),
    "FeedForward.forward": Allowed(attributes="up down activation forward"),
    "BertLayer.forward": Allowed(
        "tokens_at", "attention attention_norm feed_forward feed_forward_norm forward"
    ),
    "linear": Allowed("warmup constant"),
    "cosine": Allowed("warmup constant"),
    "mask_tokens": Allowed("share_within_words IGNORED MaskedBatch", "input_ids labels"),
    "sentiment_loss": Allowed(),
    "paraphrase_loss": Allowed("shape_error"),
    "similarity_loss": Allowed("shape_error"),
    "info_nce": Allowed(
        "check_same_shape check_positive similarities diagonal_mask score_dtype Similarity"
    ),
    "joint": Allowed("first_passes epoch_round_robin drawn_steps TaskBatch Step", "task rows"),
    "mt_dnn": Allowed(
        "first_passes epoch_round_robin drawn_steps check_names TaskBatch Step", "task rows"
    ),
    "pcgrad_weights": Allowed("reduce"),
}

# Kinds of syntax. No import, class, global, or pattern of a class (which reads attributes).
KINDS = (
    *(ast.FunctionDef, ast.Lambda, ast.arguments, ast.arg, ast.Return, ast.Delete, ast.Assign),
    *(ast.AugAssign, ast.AnnAssign, ast.For, ast.While, ast.If, ast.With, ast.withitem, ast.Raise),
    *(ast.Try, ast.ExceptHandler, ast.Assert, ast.Expr, ast.Pass, ast.Break, ast.Continue),
    *(ast.BoolOp, ast.NamedExpr, ast.BinOp, ast.UnaryOp, ast.IfExp, ast.Dict, ast.Set, ast.List),
    *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.comprehension, ast.Compare),
    *(ast.Call, ast.keyword, ast.FormattedValue, ast.JoinedStr, ast.Constant, ast.Attribute),
    *(ast.Subscript, ast.Slice, ast.Starred, ast.Name, ast.Tuple, ast.expr_context),
    *(ast.boolop, ast.operator, ast.unaryop, ast.cmpop, ast.Yield, ast.YieldFrom),
    *(ast.Match, ast.match_case, ast.MatchValue, ast.MatchSingleton, ast.MatchSequence),
    *(ast.MatchStar, ast.MatchAs, ast.MatchOr, ast.MatchMapping, ast.Nonlocal),
)

# A text for `format` whose fields are numbers or names: none looks an attribute up.
PLAIN_FORMAT = re.compile(r"([^{}]|{{|}}|{\w*(![rsa])?(:[^{}]*)?})*")

Names = dict[str, Any]


class Refused(ValueError):
    """A body uses something that its exercise does not allow."""


# --- taking a function ----------------------------------------------------------------------------


class Graft(NamedTuple):
    """A student's function, with the functions that it calls."""

    function: Any  # to call
    methods: dict[str, Any]  # new methods of its class, by name


def graft(clean: str, student: str, name: str, module: ModuleType) -> Graft:
    """Make a student's function callable.

    clean, student: the text of the file as handed out, and as handed in. name: such as
    "AdamW.update". module: the clean file, imported. Raises Refused, which says where and why.
    """
    clean_functions = functions(ast.parse(clean))
    tree = parse(student)
    by_name = functions(tree)
    if name not in by_name:
        raise Refused(f"{name} is not in the file.")
    node = by_name[name]
    given = clean_functions[name].args
    if argument_names(node.args) != argument_names(given):
        raise Refused(
            f"line {node.lineno}: {name} has other arguments than those that were handed out."
        )
    node.args = given

    allowed = ALLOWED[name]
    attributes = {*COMMON, *allowed.attributes.split()}
    # Functions that the student added, in the module and in the class, or wrote for this exercise.
    near = ("", name.rpartition(".")[0])
    siblings = {*exercise_of(name).to_write} - {name, *allowed.names.split()}
    added: dict[str, ast.FunctionDef] = {}
    # A new method gives no access to what has its name elsewhere, such as a function of torch.
    methods = {}
    for function_name, body in by_name.items():
        owner = function_name.rpartition(".")[0]
        is_new = function_name not in clean_functions or (not owner and function_name in siblings)
        if is_new and owner in near:
            added[function_name] = body
            if owner:
                methods[body.name] = body.name if body.name in attributes else f"new_{body.name}"

    names = {"__name__": "answer", **GLOBALS}
    names |= {word: getattr(module, word) for word in allowed.names.split()}
    names = {**names_at_the_top(tree, dict(names), attributes), **names}
    for function_name, body in {**added, name: node}.items():
        try:
            check_code(body, attributes, methods)
            run(body, names, attributes)
        except Refused as error:
            if function_name == name:
                raise
            names[body.name] = refusing(error)
    # A constant may hold functions, such as a table of them.
    names |= names_at_the_top(tree, dict(names), attributes) | names
    return Graft(names[node.name], {new: names[word] for word, new in methods.items()})


def refusing(error: Refused) -> Callable[..., Any]:
    """A function in the place of one that is refused. It says so when it is called."""

    def refuse(*arguments: Any, **options: Any) -> None:
        raise error

    return refuse


def parse(student: str) -> ast.Module:
    """Parse a student's file. Raises Refused where it is no Python."""
    try:
        return ast.parse(student)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise Refused(f"the file is no Python: {error}") from error


def argument_names(args: ast.arguments) -> list[str]:
    """The names of the arguments of a function, in order."""
    return [node.arg for node in ast.walk(args) if isinstance(node, ast.arg)]


def names_at_the_top(tree: ast.Module, names: Names, attributes: set[str]) -> Names:
    """Add the names that a file imports and computes at its top, as a body could.

    Such as `import math` and `LOWEST = float("-inf")`. The others are left out.
    """
    for node in tree.body:
        for statement in assignments_of(node):
            with contextlib.suppress(Refused):
                check_code(statement, attributes, {})
                run(statement, names, attributes)
    return names


def assignments_of(node: ast.stmt) -> list[ast.stmt]:
    """The names that a statement assigns, where `from math import e as E` is `E = math.e`."""
    if isinstance(node, ast.Assign | ast.AnnAssign):
        return [node]
    statements = []
    if isinstance(node, ast.Import | ast.ImportFrom):
        module = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
        for item in node.names:
            with contextlib.suppress(Refused):
                statements += parse(f"{item.asname or item.name} = {module}{item.name}").body
    return statements


def safe_builtins(attributes: set[str]) -> Names:
    """The builtins of a body. print does nothing, so that a forgotten one costs no points.

    getattr and hasattr know the attributes of an exercise alone, however a name is put together.
    """

    def checked(look_up: Callable[..., Any]) -> Callable[..., Any]:
        def checked_look_up(owner: Any, name: str, *default: Any) -> Any:
            if type(name) is not str or name not in attributes:
                raise AttributeError(f"{name!r} may not be used in this exercise.")
            return look_up(owner, name, *default)

        return checked_look_up

    def safe_type(value: Any) -> type:
        """The type of a value, but not that of types and functions, which would make new ones."""
        if isinstance(value, type | Callable):
            raise TypeError("type() may be used for plain values and tensors alone.")
        return type(value)

    names = {word: getattr(builtins, word) for word in BUILTINS}
    names |= {"getattr": checked(getattr), "hasattr": checked(hasattr), "type": safe_type}
    names["print"] = lambda *values, **options: None
    # torch's own code imports with the builtins of its caller. A body cannot use this name.
    names["__import__"] = __import__
    return names


def without_annotations(node: ast.stmt) -> None:
    """Put None in place of annotations, which no answer needs."""
    for inner in ast.walk(node):
        for field in {"annotation", "returns"}.intersection(inner._fields):
            setattr(inner, field, ast.copy_location(ast.Constant(None), inner))


def check_code(node: ast.stmt, attributes: set[str], methods: Mapping[str, str]) -> None:
    """Raise Refused where a function or a constant uses something that is on no list.

    Names are not looked up here: those that are not given are not there when it runs. methods: the
    student's, by name. They get a new name, which is put in its place.
    """
    without_annotations(node)
    for inner in ast.walk(node):
        line = f"line {getattr(inner, 'lineno', node.lineno)}"
        word = getattr(inner, "id", getattr(inner, "name", None))
        if not isinstance(inner, KINDS):
            kind = type(inner).__name__
            raise Refused(f"{line}: {kind} is not allowed in an answer.")
        if str(word).startswith("__"):
            raise Refused(f"{line}: the name {word} is not allowed in an answer.")
        if isinstance(inner, ast.Attribute) and not is_plain_format(inner):
            is_read = isinstance(inner.ctx, ast.Load)
            word = methods.get(inner.attr, inner.attr)
            if word == inner.attr and word not in attributes or not (is_read or word == "data"):
                verb = "used" if is_read else "assigned"
                raise Refused(f"{line}: .{word} may not be {verb} in this exercise.")
            inner.attr = word


def is_plain_format(node: ast.Attribute) -> bool:
    """Whether a node is such as `"expected {}, found {}".format`, whose fields look nothing up."""
    text = node.value.value if isinstance(node.value, ast.Constant) else None
    is_plain = isinstance(text, str) and PLAIN_FORMAT.fullmatch(text)
    return node.attr == "format" and bool(is_plain)


def run(node: ast.stmt, names: Names, attributes: set[str]) -> None:
    """Define a checked function or constant, with `names` and safe builtins as its only names.

    Raises Refused where a default value or a constant cannot be computed.
    """
    # Each time anew: an import of the student may have this name.
    names["__builtins__"] = safe_builtins(attributes)
    code = compile(ast.Module([node], []), "the answer", "exec")
    try:
        FunctionType(code, names)()
    except Exception as error:
        raise Refused(f"line {node.lineno}: {type(error).__name__}: {error}") from error


def module_of(file: str) -> ModuleType:
    """Import a file of the exercises, such as "minbert/attention.py"."""
    return import_module(file.removesuffix(".py").replace("/", "."))


def released_function(name: str) -> Any:
    """The function of this clone that the students write, such as "AdamW.update"."""
    return operator.attrgetter(name)(module_of(exercise_of(name).file))
