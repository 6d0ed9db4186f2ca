"""Profiles of operators: their kinds, how they are stored, and the table; no profiler is needed."""

from __future__ import annotations

import json

import pytest


def profile(**changes):
    from tvm_ios_lab.profiles.profile import OperatorTime, Profile, kind_of

    codes = {"first": ("tvmgen_default_fused_nn_conv2d_add", 900.0), "second": ("Pooling", 100.0)}
    values = {
        "network": "unet",
        "batch_size": 1,
        "who": "ours before",
        "threads": 1,
        "runs": 3,
        "run_us": 1100.0,
        "reorder_us": 0.0,
        "operators": tuple(
            OperatorTime(name=name, code=code, kind=kind_of(code), us=us)
            for name, (code, us) in codes.items()
        ),
        "machine": {"processor": "a processor"},
        "versions": {"tvm-ios": "0.1"},
        "taken_at": "2026-01-01T00:00:00+00:00",
        "command": "python",
    }
    return Profile(**values | changes)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("tvmgen_default_fused_nn_conv2d_transpose_nn_bias_add", "transposed convolution"),
        ("Deconvolution jit_avx512", "transposed convolution"),
        ("GroupConvolution brgconv_avx512_dw_f32", "depthwise"),
        ("Convolution brgconv_avx512_1x1_f32", "convolution"),
        ("Conv depthwise", "depthwise"),
        ("ReduceMean jit_avx512_f32", "pooling"),
        ("tvmgen_default_fused_nn_depth_to_space_layout_transform", "layout"),
        ("Gemm", "product"),
        ("Reorder reorder_brgemm_f32", "layout"),
        ("tvmgen_default_fused_concatenate_layout_transform", "concatenation"),
        ("Subgraph jit_avx512_f32", "elementwise"),
    ],
)
def test_kinds_are_those_of_what_comes_first(code, kind):
    from tvm_ios_lab.profiles.profile import kind_of

    assert kind_of(code).value == kind


def test_reorders_are_summed_in_microseconds():
    from tvm_ios_lab.profiles.profilers import reorder_us_of

    lines = [
        "onednn_verbose,exec,cpu,reorder,jit:uni,undef,src_f32,,,1x3x8x8,0.25\n",
        "onednn_verbose,exec,cpu,convolution,jit:avx512_core,forward,src_f32,,,x,7.5\n",
        "onednn_verbose,info,cpu,runtime:OpenMP\n",
        "onednn_verbose,exec,cpu,reorder,jit:uni,undef,src_f32,,,1x3x8x8,0.5\n",
    ]
    assert reorder_us_of(lines) == 750.0


def test_profiles_are_stored_and_make_a_table(tmp_path):
    from tvm_ios_lab.profiles.profile import read_profiles
    from tvm_ios_lab.profiles.table import main, profile_table

    other = profile(who="openvino", reorder_us=500.0)
    for each in (other, profile()):
        each.write(tmp_path)
    read = read_profiles(tmp_path)
    assert {each.who: each for each in read} == {"openvino": other, "ours before": profile()}
    table = profile_table(read)
    rows = [dict(zip(table.header, row, strict=True)) for row in table.rows]
    assert [(row["who"], row["convolution"], row["pooling"]) for row in rows] == [
        ("openvino", "0.900", "0.100"),
        ("ours before", "0.900", "0.100"),
    ]
    assert [row["reorders in calls"] for row in rows] == ["0.500", "-"]
    readme = tmp_path / "README.md"
    readme.write_text("before\n<!-- profiles: begin -->\nold\n<!-- profiles: end -->\nafter\n")
    assert main(["--folder", str(tmp_path), "--write", "--readme", str(readme)]) == 0
    text = readme.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "openvino" in text
    assert "old" not in text


def test_a_profile_from_before_it_named_a_machine_is_read(tmp_path):
    from tvm_ios_lab.profiles.profile import read_profiles

    profile().write(tmp_path)
    (path,) = tmp_path.iterdir()
    stored = json.loads(path.read_text())
    for name in ("machine", "taken_at", "commit"):
        del stored[name]
    path.write_text(json.dumps(stored | {"versions": [["tvm-ios", "0.1"]]}))
    assert read_profiles(tmp_path) == [profile(taken_at="")]


def test_what_sharing_costs_is_told_operator_by_operator(tmp_path):
    from tvm_ios_lab.profiles.profile import OperatorTime, kind_of, read_profiles

    rows = (("even", 50.0, 100.0), ("kept whole", 40.0, 40.0), ("uneven", 70.0, 100.0))
    shared = profile(
        threads=2,
        operators=tuple(
            OperatorTime(name=name, code="conv2d", kind=kind_of("conv2d"), us=us, alone_us=alone_us)
            for name, us, alone_us in rows
        ),
    )
    assert [each.lost_us(2) for each in shared.operators] == [0.0, 40.0, 40.0]
    assert shared.lost_us == 40.0
    first, *lines = shared.losses_text(count=2).splitlines()
    assert first == "a thread of 2 loses 0.040 ms; on one thread operators take 0.240 ms"
    assert [line.split(":")[0].strip() for line in lines] == ["kept whole", "uneven"]
    shared.write(tmp_path)
    assert read_profiles(tmp_path) == [shared]
    assert profile().lost_us == 0.0


def test_what_is_no_profile_is_one_line(tmp_path, capsys):
    from tvm_ios_lab.profiles.table import main

    assert main(["--folder", str(tmp_path)]) == 1
    assert "run python -m tvm_ios_lab.profiles.measure first" in capsys.readouterr().err
    (tmp_path / "a.json").write_text("{}")
    assert main(["--folder", str(tmp_path)]) == 1
    assert "a.json is no profile" in capsys.readouterr().err
