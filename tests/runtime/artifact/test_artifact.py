"""One file serves stock TVM and our executor; what does not fit is refused with the reason."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import replace

import numpy as np
import pytest
import tvm

from tvm_ios.errors import ArtifactError, OptionError, PlanError
from tvm_ios.host.processor import usable_cores
from tvm_ios.plan.lower import lower_plan
from tvm_ios.runtime.artifact.artifact import export_artifact, load
from tvm_ios.runtime.artifact.footer import append_footer, read_footer


def assert_outputs(module, expected):
    for index, value in enumerate(expected):
        np.testing.assert_array_equal(module.get_output(index).numpy(), value)


@pytest.mark.slow(1)
def test_the_same_file_serves_stock_and_ours(exported):
    from tvm.contrib import graph_executor

    built, path = exported
    stock = graph_executor.GraphModule(tvm.runtime.load_module(str(path))["default"](tvm.cpu()))
    with load(path, tvm.cpu()) as ours:
        for _ in range(5):
            ours.run(data=built.input)
            stock.run(data=built.input)
            assert_outputs(ours, built.expected)
            assert_outputs(stock, built.expected)


@pytest.mark.slow
def test_a_file_exported_again_is_loaded_anew(build_random, place_built, tmp_path):
    path = tmp_path / "model.so"
    loaded = []
    for seed in (12, 9):
        built = build_random(seed=seed, size=12, opt_level=2)
        plan = lower_plan(built.graph, place_built(built, 0), lanes=1)
        export_artifact(built.factory, plan, path)
        loaded.append((built, load(path)))
    for built, module in loaded:
        module.run(data=built.input)
        assert_outputs(module, built.expected)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"lanes": "2"}, "lanes is '2'; give a whole number of 1 or more"),
        ({"lanes": 1.0}, "lanes is 1.0"),
        ({"lanes": True}, "lanes is True"),
        ({"lanes": 0}, "lanes is 0"),
        ({"options": {"spin_us": 3}}, "options is a dict; give LaneOptions"),
    ],
)
def test_lanes_and_options_of_another_kind_are_refused(exported, given, message):
    with pytest.raises(OptionError, match=message):
        load(exported[1], **given)


def test_lanes_may_differ_from_the_plan(exported):
    built, path = exported
    with load(path, lanes=1) as module:
        assert module.lanes == 1
        module.run(data=built.input)
        assert_outputs(module, built.expected)
    cores = len(usable_cores())
    with pytest.raises(OptionError, match=f"lanes is {cores + 1}, .* {cores} cores"):
        load(path, lanes=cores + 1)


def with_identity(path, folder, **changes):
    """A copy of a file that says it was made for something else."""
    copy = folder / "other.so"
    identity = read_footer(path).identity
    content = path.read_bytes()
    length = len(identity.to_json()) + 4 + 32 + 16
    copy.write_bytes(content[:-length])
    append_footer(copy, replace(identity, **changes))
    return copy


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"plan_version": 99}, "plan version 99, but this tvm-ios reads"),
        ({"tvm_version": "0.1.2"}, r"made with TVM 0\.1\.2, but TVM"),
        ({"tvm_version": "0.1.2", "target": "unheard of"}, r"made with TVM 0\.1\.2, but TVM"),
        ({"architecture": "riscv64"}, "made for riscv64 processors"),
        ({"features": ("avx9000",)}, "use avx9000, which this processor"),
        ({"processor_model": "vendor_id Other"}, "tuned on processor vendor_id Other"),
    ],
)
def test_files_made_for_something_else_are_refused(exported, tmp_path, changes, reason):
    path = with_identity(exported[1], tmp_path, **changes)
    with pytest.raises(ArtifactError, match=reason):
        load(path)


def test_another_processor_model_can_be_allowed(exported, tmp_path):
    built, path = exported
    path = with_identity(path, tmp_path, processor_model="vendor_id Other")
    with load(path, any_processor_model=True) as module:
        module.run(data=built.input)
        assert_outputs(module, built.expected)


@pytest.mark.parametrize("size", [0, 10, 1000, 100_000])
def test_truncated_files_are_refused(exported, tmp_path, size):
    path = tmp_path / "short.so"
    path.write_bytes(exported[1].read_bytes()[:size])
    with pytest.raises(ArtifactError, match="without a tvm-ios footer"):
        load(path)


def test_damaged_files_are_refused(exported, tmp_path):
    content = bytearray(exported[1].read_bytes())
    content[len(content) // 2] ^= 1
    path = tmp_path / "damaged.so"
    path.write_bytes(content)
    with pytest.raises(ArtifactError, match="damaged"):
        load(path)


def test_a_library_with_a_footer_but_no_plan_is_refused(exported, build_random, tmp_path):
    built = build_random(seed=12, size=12, opt_level=2)
    path = tmp_path / "plain.so"
    built.factory.export_library(str(path))
    append_footer(path, read_footer(exported[1]).identity)
    with pytest.raises(ArtifactError, match="plan cannot be read: not the image of a plan"):
        load(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ArtifactError, match="nowhere.so: cannot be read"):
        load(tmp_path / "nowhere.so")


def test_a_plain_library_is_refused(tmp_path, build_random):
    built = build_random(seed=12, size=12, opt_level=2)
    path = tmp_path / "plain.so"
    built.factory.export_library(str(path))
    with pytest.raises(ArtifactError, match="not exported by tvm-ios"):
        load(path)


def test_only_the_cpu_is_offered(exported):
    with pytest.raises(OptionError, match=r"device is cuda.*compiled for tvm\.cpu\(\)"):
        load(exported[1], tvm.cuda())


def test_a_broken_plan_is_not_exported(build_random, place_built, tmp_path):
    built = build_random(seed=12, size=12, opt_level=2)
    plan = lower_plan(built.graph, place_built(built, 1), lanes=2)
    broken = replace(plan, arena_bytes=0)
    with pytest.raises(PlanError, match="rule 2"):
        export_artifact(built.factory, broken, tmp_path / "model.so")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_named(build_random, place_built, tmp_path):
    built = build_random(seed=12, size=12, opt_level=2)
    plan = lower_plan(built.graph, place_built(built, 1), lanes=2)
    with pytest.raises(ArtifactError, match="cannot be exported"):
        export_artifact(built.factory, plan, tmp_path / "none" / "model.so")


def test_a_moved_file_still_loads(exported, tmp_path):
    built, path = exported
    moved = tmp_path / "a folder with spaces" / "model without suffix"
    moved.parent.mkdir()
    shutil.copy(path, moved)
    with load(moved) as module:
        module.run(data=built.input)
        assert_outputs(module, built.expected)


@pytest.mark.slow
def test_an_interpreter_with_a_live_module_exits(exported, run_python):
    built, path = exported
    script = (
        "import numpy as np, tvm_ios.runtime.artifact.artifact as artifact, sys\n"
        "module = artifact.load(sys.argv[1])\n"
        "module.run(data=np.zeros((1, 16, 8, 8), 'float32'))\n"
        "print(module.get_output(0).shape)\n"
    )
    done = run_python("-c", script, str(path), PYTHONPATH=os.pathsep.join(sys.path))
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{built.expected[0].shape}\n"
    assert done.stderr == ""
