"""A search of lists that is over soon, for tests of what comes before it and after."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from tvm_ios.profile import list_choice


@pytest.fixture(scope="session", autouse=True)
def little_list_search() -> Iterator[None]:
    """How good lists of ``tune`` are is a concern of the tests of their search alone."""
    little = partial(list_choice.ListOptions, draws=200, moves=800)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(list_choice, "ListOptions", little)
        yield
