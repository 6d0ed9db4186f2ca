"""A file says what it was made for, and a machine that does not fit is refused with the reason."""

from __future__ import annotations

import json

import pytest

from tvm_ios.errors import ArtifactError
from tvm_ios.plan.image import PLAN_VERSION
from tvm_ios.runtime.artifact.identity import (
    ArtifactIdentity,
    Processor,
    needed_features,
    read_processor,
)

HERE = Processor(architecture="x86_64", model="vendor_id A", features=frozenset({"avx2", "fma"}))


def identity(**changes):
    values = {
        "plan_version": PLAN_VERSION,
        "tvm_version": "0.17.0",
        "target": "llvm -mcpu=haswell",
        "architecture": "x86_64",
        "processor_model": "vendor_id A",
        "features": ("avx2",),
        "lanes": 2,
    }
    return ArtifactIdentity(**(values | changes))


def test_json_reads_back():
    assert ArtifactIdentity.from_json(identity().to_json()) == identity()


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"plan_version": 1, "more": 2}'])
def test_garbage_is_refused(text):
    with pytest.raises(ArtifactError, match="cannot be read|plan version"):
        ArtifactIdentity.from_json(text)


@pytest.mark.parametrize(
    "change", [{"features": "avx2"}, {"lanes": "2"}, {"target": None}, {"plan_version": True}]
)
def test_a_field_of_another_kind_is_named(change):
    text = json.dumps(json.loads(identity().to_json()) | change)
    (name,) = change
    with pytest.raises(ArtifactError, match=f"cannot be read: {name} is .*; expected"):
        ArtifactIdentity.from_json(text)


def test_another_plan_version_is_refused_before_its_fields_are_read():
    with pytest.raises(ArtifactError, match="plan version 7, but this tvm-ios reads"):
        ArtifactIdentity.from_json(json.dumps({"plan_version": 7, "unheard_of": True}))


def test_the_same_machine_fits():
    identity().require_tvm("0.17.0")
    identity().require_fit(HERE)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"architecture": "aarch64"}, "for aarch64 processors, but this one is x86_64"),
        ({"features": ("avx2", "avx512f")}, "use avx512f, which this processor"),
        ({"processor_model": "vendor_id B"}, "any_processor_model=True"),
    ],
)
def test_what_differs_is_named(changes, message):
    with pytest.raises(ArtifactError, match=message):
        identity(**changes).require_fit(HERE)


def test_another_tvm_is_named():
    with pytest.raises(ArtifactError, match=r"TVM 0\.16\.0, but TVM 0\.17\.0 is installed"):
        identity(tvm_version="0.16.0").require_tvm("0.17.0")


def test_another_model_may_be_allowed_but_never_missing_features():
    identity(processor_model="vendor_id B").require_fit(HERE, any_model=True)
    with pytest.raises(ArtifactError, match="use avx512f"):
        identity(features=("avx512f",)).require_fit(HERE, any_model=True)


def test_processors_are_read_from_cpuinfo(tmp_path):
    file = tmp_path / "cpuinfo"
    file.write_text("processor\t: 0\nvendor_id\t: V\ncpu family\t: 6\nmodel\t: 7\nflags\t: a b\n")
    processor = read_processor(file)
    assert processor.model == "vendor_id V cpu family 6 model 7"
    assert processor.features == {"a", "b"}
    assert read_processor(tmp_path / "none").features == frozenset()


def test_llvm_names_become_the_kernels():
    assert needed_features(["avx2", "sse4.2", "64bit", "cmov"]) == ("avx2", "sse4_2")
    assert needed_features(["avxvnni", "gfni"]) == ("avx_vnni", "gfni")
