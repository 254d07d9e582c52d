"""Each lesson test runs twice: with the readable branches, then with the fast ones."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from minbert import fast


@pytest.fixture(autouse=True, params=["readable", "fast"])
def formulas(request: pytest.FixtureRequest) -> Iterator[str]:
    """Take one kind of branches in a test. The readable ones come first."""
    with fast.switched(is_fast=request.param == "fast"):
        yield request.param
