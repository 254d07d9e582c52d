"""Ways to damage the bytes of a file, by chance. Each takes bytes and returns other bytes."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable
from typing import Any

Mutation = Callable[[bytes, random.Random], bytes]

# Values that a program may not expect in JSON.
STRANGE: tuple[Any, ...] = (
    None,
    True,
    [],
    {},
    "",
    -1,
    0,
    1,
    1.5,
    10**9,
    10**30,
    2**31,
    2**63,
    float("nan"),
    float("inf"),
    "NaN",
    "../../../etc/passwd",
    "\0",
    "\ud800",
    "x" * 10_000,
    [1, [2]],
    {"a": {}},
)
STRANGE_BYTES = (b"\0", b"\xff\xfe", b"\n", b'"', b"[[", b"1e999", b"\x1b[31m", b"\xe2\x80\xae")
# JSON that is no object, or that no object holds.
STRANGE_JSON = (
    b"",
    b"[]",
    b"null",
    b"1e999",
    b'"x"',
    b"{}",
    b"9" * 5000,
    b"[" * 100_000 + b"]" * 100_000,
    b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
)


def flip_bits(content: bytes, chance: random.Random) -> bytes:
    """Turn over a few bits."""
    damaged = bytearray(content)
    for _ in range(chance.choice([1, 1, 2, 8])):
        if damaged:
            damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
    return bytes(damaged)


def damage_start(content: bytes, chance: random.Random) -> bytes:
    """Replace a few of the first bytes, where formats keep their headers."""
    damaged = bytearray(content)
    span = min(len(damaged), chance.choice([16, 64, 400, 2000]))
    for _ in range(chance.choice([1, 2, 4])):
        if span:
            damaged[chance.randrange(span)] = chance.randrange(256)
    return bytes(damaged)


def cut(content: bytes, chance: random.Random) -> bytes:
    """Keep the beginning only."""
    ends = [0, 1, 7, 8, 9, chance.randrange(len(content) + 1), max(0, len(content) - 1)]
    return content[: chance.choice(ends)]


def insert(content: bytes, chance: random.Random) -> bytes:
    """Put strange bytes somewhere."""
    place = chance.randrange(len(content) + 1)
    return content[:place] + chance.choice(STRANGE_BYTES) + content[place:]


def repeat(content: bytes, chance: random.Random) -> bytes:
    """Repeat a piece."""
    first = chance.randrange(len(content) + 1)
    last = min(len(content), first + chance.randrange(200))
    return content[:last] + content[first:]


# --- JSON -----------------------------------------------------------------------------------------


def change_value(content: bytes, chance: random.Random) -> bytes:
    """Remove a value of a JSON file, or replace it by a strange one."""
    tree = json.loads(content)
    node = tree
    while isinstance(node, dict | list) and node:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        key: Any = chance.choice(keys)
        child = node[key]
        if isinstance(child, dict | list) and child and chance.random() < 0.75:
            node = child
            continue
        if chance.random() < 0.12:
            del node[key]
        else:
            node[key] = chance.choice(STRANGE)
        break
    return json.dumps(tree).encode()


def strange_json(content: bytes, chance: random.Random) -> bytes:
    """Replace the whole file, or change its encoding."""
    text = content.decode("utf-8")
    others = (b"\xef\xbb\xbf" + content, text.encode("utf-16"), content + b"x")
    return chance.choice([*STRANGE_JSON, *others])


def nest_deeply(content: bytes, chance: random.Random) -> bytes:
    """Put a very deep list in the place of the first value."""
    start, colon, rest = content.partition(b":")
    _, comma, end = rest.partition(b",")
    depth = chance.choice([100, 5_000, 60_000])
    return start + colon + b"[" * depth + b"]" * depth + comma + end


def repeat_key(content: bytes, chance: random.Random) -> bytes:
    """Give a key a second value, at the end of the file."""
    tree = json.loads(content)
    key = chance.choice(list(tree)) if isinstance(tree, dict) and tree else "a"
    last = f"{json.dumps(key)}: {json.dumps(chance.choice(STRANGE))}}}"
    return content.strip()[:-1].rstrip() + b"," + last.encode()


# --- tensors --------------------------------------------------------------------------------------


def damage_header(content: bytes, chance: random.Random) -> bytes:
    """Change the entry of one tensor in the header of a safetensors file."""
    length = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8 : 8 + length])
    names = [name for name in header if name != "__metadata__"]
    name = chance.choice(names)
    entry = header[name]
    shape = entry["shape"]
    first, _ = entry["data_offsets"]
    dtype = chance.choice(["F64", "I64", "BOOL", "F8_E4M3", "BF16", "F16", "XX", ""])
    changes: list[dict[str, Any]] = [
        {"shape": [10**9, 10**9]},
        {"shape": [-1, *shape]},
        {"shape": shape[::-1] if len(shape) > 1 else [1, *shape]},
        {"data_offsets": [-5, 10]},
        {"data_offsets": [first, 2**63]},
        {"data_offsets": header[chance.choice(names)]["data_offsets"]},
        {"dtype": dtype},
    ]
    way = chance.randrange(len(changes) + 4)
    if way < len(changes):
        entry |= changes[way]
    elif way == len(changes):
        del header[name]
    elif way == len(changes) + 1:
        header[f"{name}.x"] = header.pop(name)
    elif way == len(changes) + 2:
        header["__metadata__"] = chance.choice([[], 5, {"format": 5}, {"a": "x" * 10**6}])
    else:
        wrong = chance.choice([2**63, 2**40, 0, 100_000_001])
        return struct.pack("<Q", wrong) + content[8:]
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + content[8 + length :]


def strange_number(content: bytes, chance: random.Random) -> bytes:
    """Make one weight nan, infinite or huge."""
    length = struct.unpack("<Q", content[:8])[0]
    start = 8 + length
    place = start + 4 * chance.randrange((len(content) - start) // 4)
    number = chance.choice([float("nan"), float("inf"), 1e38])
    return content[:place] + struct.pack("<f", number) + content[place + 4 :]


# --- lines ----------------------------------------------------------------------------------------


def change_lines(content: bytes, chance: random.Random) -> bytes:
    """Damage a file of lines, such as a vocabulary."""
    lines = content.split(b"\n")
    place = chance.randrange(len(lines))
    strange = chance.choice([lines[0], b"", b"\0\xe2\x80\xae", b"x" * 10**6, b"\xff"])
    shuffled = chance.sample(lines, len(lines))
    ways = [
        [*lines[:place], strange, *lines[place + 1 :]],
        [*lines[:place], b"", *lines[place:]],
        [*lines, *(b"word%d" % number for number in range(10_000))],
        [line + b"\r" for line in lines],
        lines[:place],
        shuffled,
    ]
    return b"\n".join(chance.choice(ways))


ANY = (flip_bits, damage_start, cut, insert, repeat)
JSON = (*ANY, *[change_value] * 6, strange_json, nest_deeply, repeat_key)
TENSORS = (*ANY, *[damage_header] * 6, strange_number)
LINES = (*ANY, *[change_lines] * 4)


def mutations_of(name: str) -> tuple[Mutation, ...]:
    """The ways to damage a file, by the ending of its name."""
    if name.endswith(".json"):
        return JSON
    if name.endswith(".safetensors"):
        return TENSORS
    return LINES if name.endswith((".txt", ".csv", ".md")) else ANY
