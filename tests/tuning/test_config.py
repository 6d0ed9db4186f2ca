"""Budgets in files: those of the repository load, and what is wrong is named."""

from __future__ import annotations

import pytest

from tvm_ios.core.endings import EndingRule
from tvm_ios.core.schedule import Strategy
from tvm_ios.errors import OptionError
from tvm_ios.tuning.config import TuneConfig


def test_every_configuration_of_the_repository_loads(project_root):
    loaded = {path.stem: TuneConfig.load(path) for path in (project_root / "configs").iterdir()}
    assert sorted(loaded) == ["paper", "quick", "thorough"]
    paper, quick, thorough = (loaded[name] for name in sorted(loaded))
    assert (paper.search.max_group_size, paper.search.max_num_groups) == (3, 8)
    assert paper.search.endings is EndingRule.PUBLISHED
    assert (paper.measure.warmup, paper.measure.number, paper.measure.repeat) == (2, 6, 6)
    assert paper.tuning is None
    assert (paper.search.pad_channels, quick.search.pad_channels) == (False, True)
    assert (quick.tuning, quick.tuning_options.tuner) == ("autotvm", "layout")
    assert quick.tuning_options.time_budget_s < quick.search.time_budget < 300
    assert thorough.tuning == "auto_scheduler"
    assert thorough.tuning_options.trials > 100 * quick.tuning_options.trials
    assert thorough.search.time_budget is None


def test_nothing_said_is_the_defaults():
    assert TuneConfig.parse("") == TuneConfig()
    assert TuneConfig.parse('[tuning]\nbackend = "none"\n') == TuneConfig()


def test_arguments_are_those_of_tune():
    config = TuneConfig.parse(
        '[search]\nstrategies = "merge"\ntime_budget = 5\n[tuning]\nbackend = "autotvm"\ntrials = 3'
    )
    arguments = config.arguments()
    assert arguments["strategies"] == {Strategy.MERGE}
    assert arguments["time_budget"] == 5
    assert arguments["tuning"] == "autotvm"
    assert arguments["tuning_options"].trials == 3


def test_tune_takes_the_arguments():
    import inspect

    import tvm_ios

    assert set(TuneConfig().arguments()) <= set(inspect.signature(tvm_ios.tune).parameters)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[tunning]\n", r"has no key 'tunning', did you mean 'tuning'\?"),
        ("[search]\nmax_grup_size = 3\n", r"\[search\] has no key .* mean 'max_group_size'\?"),
        ("[search]\nfoo = 3\n", r"There are max_group_size, max_num_groups, strategies"),
        ("[tuning]\nbackends = 3\n", r"\[tuning\] has no key .* mean 'backend'\?"),
        ("[measure]\nmode = 3\n", r"\[measure\] has no key 'mode'"),
        ("[search]\nmax_group_size = '3'\n", r"max_group_size is '3'; give a whole number"),
        ("[search]\nmax_group_size = -1\n", r"max_group_size is -1"),
        ("[search]\nmax_group_size = true\n", r"max_group_size is True"),
        ("[search]\npad_channels = 1\n", r"pad_channels is 1; give true or false"),
        (
            "[search]\npad_merged_kernels = 'no'\n",
            r"pad_merged_kernels is 'no'; give true or false",
        ),
        ("[search]\ntime_budget = 'long'\n", r"time_budget is 'long'; give a number"),
        ("[search]\ntime_budget = 0\n", r"time_budget is 0"),
        ("[search]\nstrategies = ['parallel']\n", r"'parallel'; choose from 'concurrent', 'merge'"),
        ("[search]\nstrategies = []\n", r"strategies is"),
        ("[search]\nstrategies = 3\n", r"strategies is 3; give a list of names"),
        ("[search]\nendings = 'all'\n", r"'all'; choose from 'complete', 'published'"),
        ("[tuning]\nbackend = 'ansor'\n", r"backend is 'ansor'; choose from none, autotvm, auto"),
        ("[tuning]\nbackend = ['autotvm']\n", r"backend is \['autotvm'\]"),
        ("[tuning]\ntrials = 1.5\n", r"trials is 1.5; give a whole number"),
        ("[tuning]\nrpc_tracker = 3\nrpc_key = 'k'\n", r"rpc_tracker is 3; give a string"),
        ("[tuning]\ntuner = 'ga'\n", r"tuner is 'ga'; choose from layout"),
        ("[measure]\nrepeat = 0\n", r"\[measure\] repeat is 0"),
        ("search = 3\n", r"search is 3; make it a table, \[search\]"),
        ("[search\n", r"this is no TOML: .*line 1"),
    ],
)
def test_what_is_wrong_is_named_with_its_file(text, message, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(OptionError, match=message) as caught:
        TuneConfig.load(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_a_file_that_cannot_be_read_is_named(content, tmp_path):
    path = tmp_path / "mine.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(OptionError, match=r"cannot read the configuration .*mine\.toml"):
        TuneConfig.load(path)
