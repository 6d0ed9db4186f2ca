"""Keys of calls: whatever may change a result changes the key."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.driver.kept.conftest import export
from tvm_ios.core.conversion import Conversion
from tvm_ios.core.precision.low_precision import Precision
from tvm_ios.driver.build_options import BuildOptions, DatabaseOptions
from tvm_ios.driver.kept.asked import Asked
from tvm_ios.driver.kept.store import KeptResults
from tvm_ios.driver.options import TuneOptions
from tvm_ios.host.processor import default_lanes
from tvm_ios.measure.compare import CompareOptions
from tvm_ios.search.options import SearchOptions
from tvm_ios.tuning.device_options import DeviceOptions
from tvm_ios.tuning.options import default_records_path


@pytest.fixture
def asked(tmp_path):
    return Asked(
        model="model",
        target="",
        lanes=None,
        tuning=None,
        tuning_records=None,
        decisions=None,
        time_budget=None,
        database=tmp_path / "p.sqlite",
        options=TuneOptions(),
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"model": "other"},
        {"target": "llvm -mcpu=haswell"},
        {"lanes": default_lanes() + 1},
        {"tuning": "autotvm"},
        {"options": TuneOptions.of("quick")},
        {"options": TuneOptions.of("thorough")},
        {"tuning_records": "some.log"},
        {"decisions": __file__},
        {"options": TuneOptions(search=SearchOptions(max_group_size=2))},
        {"options": TuneOptions(search=SearchOptions.of(strategies="merge"))},
        {"options": TuneOptions(build=BuildOptions(libraries=()))},
        {"options": TuneOptions(conversion=Conversion(desired_layout="NHWC"))},
        {"options": TuneOptions(compare=CompareOptions(rounds=9))},
        {"options": TuneOptions(precision=Precision(dtype="bfloat16"))},
        {"options": TuneOptions(precision=Precision(dtype="bfloat16", max_relative_error=0.1))},
        {"inputs": "digest"},
    ],
)
def test_another_argument_is_another_key(asked, changes):
    assert asked.key() not in ("", replace(asked, **changes).key())


def test_another_database_is_another_key(asked, tmp_path):
    assert replace(asked, database=tmp_path / "other").key() != asked.key()


def test_what_changes_no_result_changes_no_key(asked):
    same = [
        {"lanes": default_lanes()},
        {"time_budget": 5.0},
        {"options": TuneOptions(database=DatabaseOptions(fresh=True))},
        {"options": TuneOptions(compare=CompareOptions(reuse=False))},
    ]
    assert {replace(asked, **each).key() for each in same} == {asked.key()}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LD_LIBRARY_PATH", "/opt/other/lib"),
        ("TOPHUB_LOCATION", "/opt/tophub"),
        ("TVM_IOS_ONEDNN", __file__),
        ("ONEDNN_MAX_CPU_ISA", "AVX2"),
    ],
)
def test_another_environment_is_another_key(asked, monkeypatch, name, value):
    before = asked.key()
    monkeypatch.setenv(name, value)
    assert asked.key() != before


def test_records_count_by_their_content(asked, fresh_cache):
    tuned = replace(asked, tuning="autotvm")
    keys = [tuned.key()]
    for content in ("a record\n", "a record\nanother\n"):
        default_records_path("autotvm").write_text(content)
        keys.append(tuned.key())
    assert len(set(keys)) == 3


@pytest.mark.parametrize(
    "changes",
    [
        {"target": "cuda -arch=sm_90"},
        {"options": TuneOptions(device=DeviceOptions(rpc_tracker="h:1", rpc_key="board"))},
    ],
)
def test_other_devices_keep_nothing(asked, changes):
    assert replace(asked, **changes).key() == ""


def test_without_its_database_a_result_is_not_taken(asked, make_result):
    key = asked.key()
    KeptResults().keep(key, make_result(), export(b"code"))
    assert asked.find(key) is None
    asked.database.write_text("")
    assert asked.find(key) is not None
    for options in (
        TuneOptions(database=DatabaseOptions(fresh=True)),
        TuneOptions(compare=CompareOptions(reuse=False)),
    ):
        assert replace(asked, options=options).find(key) is None


@pytest.mark.parametrize(
    ("target", "kept"),
    [
        ('{"kind": "llvm", "mcpu": "haswell"}', True),
        ('{"kind": "cuda"}', False),
        ('{"kind": ', False),
        ("cuda", False),
    ],
)
def test_results_of_cpus_are_kept_in_words_and_in_json(asked, target, kept):
    assert bool(replace(asked, target=target).key()) is kept
