"""Budgets in files: those of the repository load, and what is wrong is named."""

from __future__ import annotations

import inspect
import tomllib
from dataclasses import fields

import pytest

import tvm_ios
from tvm_ios import (
    BuildOptions,
    CompareOptions,
    Conversion,
    DatabaseOptions,
    DeviceOptions,
    MeasureOptions,
    ModeOptions,
    SearchOptions,
    TuneOptions,
    TuningOptions,
)
from tvm_ios.core.endings import EndingRule
from tvm_ios.core.schedule import Strategy
from tvm_ios.driver.config import TuneConfig
from tvm_ios.errors import OptionError


def parsed(text):
    return TuneConfig.of_tables(tomllib.loads(text))


def test_every_configuration_of_the_repository_loads(project_root):
    loaded = {path.stem: TuneConfig.load(path) for path in (project_root / "configs").iterdir()}
    assert sorted(loaded) == ["paper", "tuned"]
    paper, tuned = loaded["paper"], loaded["tuned"]
    assert paper.options.build.libraries == ()
    assert (paper.options.search.max_group_size, paper.options.search.max_num_groups) == (3, 8)
    assert paper.options.search.endings is EndingRule.PUBLISHED
    assert paper.options.search.predict_stages is False
    measure = paper.options.measure
    assert (measure.warmup, measure.number, measure.repeat) == (2, 6, 6)
    assert paper.tuning is None
    assert (paper.options.build.pad_channels, tuned.options.build.pad_channels) == (False, True)
    assert (tuned.tuning, tuned.options.kernels.tuner) == ("autotvm", "layout")


def test_nothing_said_is_the_defaults():
    assert parsed("") == TuneConfig()
    assert parsed('[tuning]\nbackend = "none"\n') == TuneConfig()


def test_a_table_goes_over_the_effort_of_its_file_and_a_flag_over_that_effort():
    tables = tomllib.loads(
        'effort = "quick"\n[build]\ntf32 = true\n[compare.mode]\nslow_ns = 0\n[tuning]\ntrials = 3'
    )
    quick = TuneConfig.of_tables(tables).options
    assert quick.build == BuildOptions(tf32=True, race_forms=False)
    assert quick.compare.mode == ModeOptions(slow_ns=0, patience_s=2.0)
    assert quick.search.list_only
    thorough = TuneConfig.of_tables(tables, "thorough")
    assert thorough.options.build == BuildOptions(tf32=True, all_kernels=True)
    assert (thorough.tuning, thorough.options.kernels.trials) == ("autotvm", 3)
    assert thorough.options.kernels.time_budget_s == 1800


EVERYTHING = """
effort = "balanced"
time_budget = 5
[search]
strategies = "merge"
endings = "published"
max_chain_size = 2
[measure]
repeat = 3
[compare]
rounds = 9
[conversion]
desired_layout = "NHWC"
[precision]
dtype = "float32"
[build]
libraries = ["cudnn"]
[tuning]
backend = "autotvm"
trials = 3
[device]
rpc_tracker = "127.0.0.1:9190"
rpc_key = "cpu"
[database]
fresh = true
"""


def test_there_is_a_table_for_every_noun():
    config = parsed(EVERYTHING)
    assert config.arguments() == {
        "time_budget": 5,
        "options": TuneOptions(
            search=SearchOptions(
                strategies=frozenset({Strategy.MERGE}),
                endings=EndingRule.PUBLISHED,
                max_chain_size=2,
            ),
            measure=MeasureOptions(repeat=3),
            compare=CompareOptions(rounds=9),
            conversion=Conversion(desired_layout="NHWC"),
            build=BuildOptions(libraries=("cudnn",)),
            kernels=TuningOptions(backend="autotvm", trials=3),
            device=DeviceOptions(rpc_tracker="127.0.0.1:9190", rpc_key="cpu"),
            database=DatabaseOptions(fresh=True),
        ),
    }
    assert EVERYTHING.count("\n[") == len(fields(TuneOptions))


def test_the_slow_mode_is_a_table_in_the_table_of_its_noun():
    options = parsed("[measure.mode]\nslow_ns = 0\n[compare]\nmode.patience_s = 5").options
    assert options.measure == MeasureOptions(mode=ModeOptions(slow_ns=0))
    assert options.compare == CompareOptions(mode=ModeOptions(patience_s=5))


def test_options_of_tuning_are_left_out_where_nothing_is_tuned():
    idle = parsed("[tuning]\ntrials = 3")
    assert idle.options.kernels.trials == 3
    assert idle.arguments()["options"] == TuneOptions()
    both = "[tuning]\nbackend = '{}'\ntrials = 3\ntuner = 'xgb'\ntask_early_stopping = 9"
    for backend, own in (
        ("autotvm", TuningOptions(backend="autotvm", trials=3, tuner="xgb")),
        (
            "auto_scheduler",
            TuningOptions(backend="auto_scheduler", trials=3, task_early_stopping=9),
        ),
    ):
        assert parsed(both.format(backend)).arguments()["options"].kernels == own


def test_tune_takes_the_arguments():
    assert set(TuneConfig().arguments()) <= set(inspect.signature(tvm_ios.tune).parameters)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("effort = 'fast'\n", r"toml: effort is 'fast'; choose from 'quick', 'balanced', 'thor"),
        ("effort = 3\n", r"toml: effort is 3; choose from 'quick'"),
        (
            "effort = 'quick'\n[search]\nmax_group_size = 2\n",
            r"\[search\] max_group_size given, but",
        ),
        ("[tunning]\n", r"has no key 'tunning', did you mean 'tuning'\?"),
        ("[search]\nmax_grup_size = 3\n", r"\[search\] has no key .* mean 'max_group_size'\?"),
        ("[search]\nfoo = 3\n", r"'foo'\. There are strategies, max_group_size, max_num_groups"),
        ("[search]\ntime_budget = 3\n", r"\[search\] has no key 'time_budget'"),
        ("[tuning]\nrpc_key = 'k'\n", r"\[tuning\] has no key 'rpc_key'"),
        ("[compare]\nmode = 3\n", r"toml: compare.mode is 3; make it a table, \[compare.mode\]"),
        ("[compare]\nrounds = 1\n", r"\[compare\] rounds is 1"),
        ("[conversion]\ndesired_layout = 'CHWN'\n", r"\[conversion\] desired_layout is 'CHWN'"),
        ("[device]\nrpc_tracker = 'h:1'\n", r"\[device\] rpc_tracker is 'h:1' .*; give both"),
        ("[tuning]\nbackends = 3\n", r"\[tuning\] has no key .* mean 'backend'\?"),
        (
            "[measure.mode]\nslow = 3\n",
            r"toml: \[measure.mode\] has no key 'slow', did you mean 'slow_ns'",
        ),
        ("[measure.mode]\nslow_ns = -1\n", r"toml: \[measure.mode\] slow_ns is -1"),
        ("[search]\nmax_group_size = '3'\n", r"max_group_size is '3'; give a whole number"),
        ("[search]\nmax_group_size = -1\n", r"max_group_size is -1"),
        ("[search]\nmax_group_size = true\n", r"max_group_size is True"),
        ("[build]\npad_channels = 1\n", r"pad_channels is 1; give true or false"),
        ("[search]\npredict_stages = 1\n", r"predict_stages is 1; give true or false"),
        (
            "[search]\npad_merged_kernels = 'no'\n",
            r"pad_merged_kernels is 'no'; give true or false",
        ),
        ("time_budget = 'long'\n", r"time_budget is 'long'; give a number"),
        ("time_budget = 0\n", r"time_budget is 0"),
        ("[search]\nstrategies = ['parallel']\n", r"'parallel'; choose from 'concurrent', 'merge'"),
        ("[search]\nstrategies = []\n", r"strategies is empty; give one or several of"),
        (
            "[search]\nstrategies = 3\n",
            r"strategies is 3; give one or several of 'concurrent'",
        ),
        ("[search]\nendings = 'all'\n", r"'all'; choose from 'complete', 'published'"),
        ("[tuning]\nbackend = 'ansor'\n", r"backend is 'ansor'; choose from none, autotvm, auto"),
        ("[tuning]\nbackend = ['autotvm']\n", r"backend is \['autotvm'\]"),
        ("[tuning]\ntrials = 1.5\n", r"trials is 1.5; give a whole number"),
        ("[device]\nrpc_tracker = 3\nrpc_key = 'k'\n", r"rpc_tracker is 3; give a string"),
        ("[tuning]\ntuner = 'ga'\n", r"tuner is 'ga'; choose from layout"),
        ("[measure]\nrepeat = 0\n", r"\[measure\] repeat is 0"),
        ("search = 3\n", r"search is 3; make it a table, \[search\]"),
        ("[search\n", r"this is no TOML: .*line 1"),
        (f"time_budget = {'9' * 4301}", r"this is no TOML: .*4300"),
        (f"[tuning]\ntrials = 0x{'f' * 4301}", r"an integer of more than 64 bits"),
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
