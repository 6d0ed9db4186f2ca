"""Options nobody can honour are refused by name."""

from __future__ import annotations

import pytest

from tvm_ios.core.endings import EndingRule
from tvm_ios.core.schedule import Strategy
from tvm_ios.errors import OptionError
from tvm_ios.search.options import SearchOptions


def test_defaults_are_the_papers():
    options = SearchOptions()
    assert options.strategies == frozenset(Strategy)
    assert (options.max_group_size, options.max_num_groups) == (3, 8)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_group_size": -1}, "max_group_size is -1.*0 means no limit"),
        ({"max_num_groups": -3}, "max_num_groups is -3.*0 means no limit"),
        ({"max_group_size": 1.5}, "max_group_size is 1.5"),
        ({"max_num_groups": True}, "max_num_groups is True"),
        ({"max_block_size": 0}, "max_block_size is 0; give a whole number from 1"),
        ({"max_block_size": 1001}, "max_block_size is 1001"),
        ({"max_block_states": 1}, "max_block_states is 1"),
        ({"max_block_transitions": 0}, "max_block_transitions is 0"),
        ({"max_chain_size": 0}, "max_chain_size is 0; give a whole number from 1"),
        ({"bound_margin_percent": 101}, "bound_margin_percent is 101"),
        ({"bound_margin_percent": -5}, "bound_margin_percent is -5; give a whole number from 0"),
        ({"least_gain_percent": -1.0}, "least_gain_percent is -1.0; give per cent from 0"),
        ({"strategies": frozenset()}, "strategies is frozenset()"),
        ({"strategies": {"merge"}}, "strategies is {'merge'}"),
        ({"memory_limit_mb": 0}, "memory_limit_mb is 0; give megabytes above 0, or leave it out"),
        ({"deadlines_ms": {"a": -1}}, "deadlines_ms has -1 for 'a'; give milliseconds above 0"),
        ({"list_only": 1}, "list_only is 1; give True or False"),
        ({"predict_stages": "no"}, "predict_stages is 'no'; give True or False"),
        ({"native": "no"}, "native is 'no'; give True or False"),
        ({"centred_merges": None}, "centred_merges is None; give True or False"),
        ({"pad_merged_kernels": "no"}, "pad_merged_kernels is 'no'; give True or False"),
        ({"endings": "complete"}, "endings is 'complete'"),
    ],
)
def test_refused(change, message):
    with pytest.raises(OptionError, match=message.replace("(", r"\(").replace(")", r"\)")):
        SearchOptions(**change)


def test_strategies_and_endings_are_taken_by_name_and_by_member():
    by_name = SearchOptions.of(strategies="merge", endings="published", max_group_size=2)
    by_member = SearchOptions.of(
        strategies=[Strategy.MERGE], endings=EndingRule.PUBLISHED, max_group_size=2
    )
    strict = SearchOptions(
        strategies=frozenset({Strategy.MERGE}), endings=EndingRule.PUBLISHED, max_group_size=2
    )
    assert by_name == by_member == strict
    assert SearchOptions.of() == SearchOptions()
    assert not SearchOptions.of(pad_merged_kernels=False).pad_merged_kernels


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"strategies": ()}, "strategies is empty; give one or several of 'concurrent', 'merge'"),
        ({"strategies": ["parallel"]}, "strategies has 'parallel'; choose from 'concurrent', 'mer"),
        ({"strategies": [["merge"]]}, r"strategies has \['merge'\]; choose from"),
        ({"strategies": 3}, "strategies is 3; give one or several of 'concurrent', 'merge'"),
        ({"strategies": None}, "strategies is None; give one or several of"),
        ({"endings": "all"}, "endings is 'all'; choose from 'complete', 'published'"),
        ({"max_group_size": -1}, "max_group_size is -1"),
        ({"max_num_groups": -3}, "max_num_groups is -3"),
        ({"pad_merged_kernels": "no"}, "pad_merged_kernels is 'no'; give True or False"),
    ],
)
def test_names_nobody_knows_are_refused_with_those_there_are(given, message):
    with pytest.raises(OptionError, match=message):
        SearchOptions.of(**given)


def test_some_defaults_depend_on_where_prices_come_from():
    measured = SearchOptions().completed(measured=True)
    assert (measured.max_chain_size, measured.bound_margin_percent) == (3, 3)
    assert measured.least_gain_percent == 4
    exact = SearchOptions().completed(measured=False)
    assert (exact.max_chain_size, exact.bound_margin_percent, exact.least_gain_percent) == (1, 0, 0)
    assert (measured.predict_stages, exact.predict_stages) == (True, False)
    given = SearchOptions(
        max_chain_size=2, bound_margin_percent=0, least_gain_percent=1.0, predict_stages=False
    )
    assert given.completed(measured=True) == given == given.completed(measured=False)


def test_stages_are_searched_where_they_can_gain_what_a_race_can_tell():
    assert SearchOptions().is_worth(1.05)
    assert not SearchOptions().is_worth(1.03)
    assert SearchOptions(least_gain_percent=0.0).is_worth(1.0)
    merges = SearchOptions().without_concurrency()
    assert merges.strategies == {Strategy.MERGE}
    assert not merges.list_only
    assert SearchOptions.of(strategies="concurrent").without_concurrency().list_only
