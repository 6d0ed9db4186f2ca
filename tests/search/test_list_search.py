"""The search for short lists: better than what it starts from, and repeatable."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.search.list_bounds import lower_bound_ns
from tvm_ios.errors import OptionError
from tvm_ios.search.list_decoder import ListProblem, ListTask, Source, make_list_decoder
from tvm_ios.search.list_search import ListOptions, best_list


def random_problem(seed, count=60, lanes=2):
    chooser = np.random.default_rng(seed)
    tasks = []
    for number in range(count):
        alone_ns = int(chooser.integers(1000, 12_000))
        chosen = chooser.choice(number, min(number, 2), replace=False)
        tasks.append(
            ListTask(
                alone_ns=alone_ns,
                helped_ns=alone_ns if chooser.random() < 0.7 else int(alone_ns * 0.6),
                sources=tuple(
                    Source(int(task), int(chooser.integers(4000))) for task in sorted(chosen)
                ),
            )
        )
    return ListProblem(tasks=tuple(tasks), lanes=lanes, signal_ns=300)


@pytest.mark.slow(1)
@given(seed=st.integers(0, 1000))
def test_more_effort_finds_no_longer_lists(seed):
    problem = random_problem(seed, count=12)
    decoder = make_list_decoder(problem)
    lengths = [
        decoder.lengths_ns(best_list(problem, decoder, options)[np.newaxis])[0]
        for options in (
            ListOptions(draws=0, moves=0),
            ListOptions(draws=64, moves=0),
            ListOptions(draws=64, moves=160),
        )
    ]
    keys = np.stack([-np.arange(12.0), problem.upward_ranks()])
    basic = np.stack([np.stack([row, np.full(12, sign)]) for row in keys for sign in (-1, 1)])
    assert lengths[0] == decoder.lengths_ns(basic).min()
    assert lengths[0] >= lengths[1] >= lengths[2] >= lower_bound_ns(problem)


def test_changing_tasks_brings_what_drawing_does_not():
    """Sixty tasks on two lanes: within a quarter of what no schedule can be below."""
    problem = random_problem(5)
    decoder = make_list_decoder(problem)
    drawn, changed = (
        decoder.lengths_ns(best_list(problem, decoder, options)[np.newaxis])[0]
        for options in (ListOptions(moves=0), ListOptions())
    )
    assert changed < drawn
    assert changed <= 1.25 * lower_bound_ns(problem)


def test_equal_seeds_give_equal_lists():
    problem = random_problem(1)
    decoder = make_list_decoder(problem)
    first, again, other = (
        best_list(problem, decoder, ListOptions(draws=32, moves=320, seed=seed))
        for seed in (7, 7, 8)
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_no_tasks_are_a_list():
    problem = ListProblem(tasks=(), lanes=2, signal_ns=1)
    assert best_list(problem, make_list_decoder(problem), ListOptions()).shape == (2, 0)


@pytest.mark.parametrize("options", [{"draws": -1}, {"moves": 0.5}, {"seed": True}])
def test_bad_options_are_named(options):
    ((name, value),) = options.items()
    with pytest.raises(OptionError, match=f"{name} is {value}; give a whole number of 0 or more"):
        ListOptions(**options)
