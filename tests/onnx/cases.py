"""Cases of a test: all combinations of values, of which few run each time."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

__all__ = ["cases"]


def cases(where: Callable[..., bool] | None = None, **values: Iterable[Any]) -> Any:
    """Mark of a test for each combination of values that ``where`` takes, given by name.

    Any two values that go together meet in a case that runs each time; all others are slow.
    """
    columns = [list(each) for each in values.values()]
    drawn = {}
    for place in itertools.product(*map(range, map(len, columns))):
        case = [column[index] for column, index in zip(columns, place, strict=True)]
        if where is None or where(**dict(zip(values, case, strict=True))):
            drawn[place] = case
    quick = _of_all_pairs(list(drawn))
    return pytest.mark.parametrize(
        list(values),
        [
            pytest.param(*each, marks=() if place in quick else pytest.mark.slow)
            for place, each in drawn.items()
        ],
    )


def _of_all_pairs(places: Sequence[tuple[int, ...]]) -> set[tuple[int, ...]]:
    """Some of the combinations, which have all pairs of values that all of them have."""
    met: set[Any] = set()
    taken = set()
    pairs = {place: set(itertools.combinations(enumerate(place), 2)) for place in places}
    for least in range(max(map(len, pairs.values())), 0, -1):
        for place in places:
            if len(pairs[place] - met) >= least:
                met |= pairs[place]
                taken.add(place)
    return taken
