"""The shares of the five grades in sentences of reviews. Imports nothing heavy."""

from __future__ import annotations

from typing import NamedTuple


class Shares(NamedTuple):
    """The shares of a polarity that are not simply 3 or 1, from 0 to 1.

    neutral: of film sentences, those that are least clear. They become 2.
    strong: of film sentences and phrases, those that are clearest. They become 4, or 0.
    """

    neutral: float
    strong: float


SHARES = Shares(neutral=0.15, strong=0.25)
