"""Where the names of points stand in a picture: beside their points, and on nothing else. pictures.py asks for them.

All numbers are units of the picture, rows counted downwards; a box is left, top, right, bottom.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence

LETTER = 8  # a letter's width, in a wide font of 13 units
Box = tuple[float, float, float, float]


def name_places(
    points: Sequence[tuple[float, float]],
    names: Sequence[str],
    important: Sequence[int],
    frame: Box,
) -> dict[int, tuple[float, float]]:
    """Centre and baseline of each name that is shown, by number of its point: above, below or beside it.

    points: joined by a line in this order. names: "" for a point without one. A name stands within the frame and on no
    other name, no point and no line, or is left out. The important ones choose first, in their order, and stand on
    points or lines before they are left out.
    """
    on_points = [(column - 5, row - 5, column + 5, row + 5) for column, row in points]
    on_lines = [
        box for first, second in itertools.pairwise(points) for box in _boxes_along(first, second)
    ]
    on_names: list[Box] = []
    found = {}
    for number in dict.fromkeys((*important, *range(len(points)))):
        if not names[number]:
            continue
        half = LETTER * len(names[number]) / 2
        beside = [
            (0, -10),
            (0, 19),
            (half + 9, 4),
            (-half - 9, 4),
            (half + 6, -9),
            (-half - 6, -9),
            (half + 6, 17),
            (-half - 6, 17),
        ]
        places = [(points[number][0] + right, points[number][1] + below) for right, below in beside]
        boxes = {
            place: (place[0] - half, place[1] - 10, place[0] + half, place[1] + 3)
            for place in places
        }
        inside = [
            place
            for place, box in boxes.items()
            if box[0] >= frame[0]
            and box[1] >= frame[1]
            and box[2] <= frame[2]
            and box[3] <= frame[3]
            and _is_free(box, on_names)
        ]
        free = [place for place in inside if _is_free(boxes[place], on_points + on_lines)]
        if chosen := free or (inside if number in important else []):
            found[number] = chosen[0]
            on_names.append(boxes[chosen[0]])
    return found


def _is_free(box: Box, taken: Iterable[Box]) -> bool:
    return not any(
        box[0] < other[2] and other[0] < box[2] and box[1] < other[3] and other[1] < box[3]
        for other in taken
    )


def _boxes_along(first: tuple[float, float], second: tuple[float, float]) -> list[Box]:
    """Small boxes along the line between two points, at most eight units apart."""
    num_parts = math.ceil(math.dist(first, second) / 8) or 1
    middles = (
        [a + (b - a) * part / num_parts for a, b in zip(first, second, strict=True)]
        for part in range(num_parts)
    )
    return [(column - 1, row - 1, column + 1, row + 1) for column, row in middles]
