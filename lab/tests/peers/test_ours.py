"""Tests of our part in the measurement of the peers, and of what is made of its results."""

from __future__ import annotations

import json
import os
import sys

import numpy as np
import pytest

from tests.onnx_models import write_two_ways
from tvm_ios.errors import OptionError
from tvm_ios.measure.comparison import CompareRound, Comparison
from tvm_ios_lab.bench.records import BenchmarkRecord
from tvm_ios_lab.places import LAB, ROOT

HASTY = """
time_budget = 3
[measure]
repeat = 2
max_repeat = 2
min_repeat_ms = 0.05
[compare]
rounds = 6
min_repeat_ms = 0.5
[search]
max_group_size = 1
"""


def kernels(folder, name="tuned", configuration="", schedules=("sequential", "ios")):
    """A set of kernels whose exported files are empty."""
    from tvm_ios_lab.peers.build import Build, Kernels, write_kernels

    builds = tuple(
        Build(kernels=name, schedule=schedule, lanes=2, kept=schedule == "ios")
        for schedule in schedules
    )
    for build in builds:
        build.path(folder).parent.mkdir(parents=True, exist_ok=True)
        build.path(folder).touch()
    made = Kernels(
        name=name,
        builds=builds,
        configuration=configuration,
        target="llvm",
        command="python -m tvm_ios_lab.peers.ours",
        versions=(("tvm", "0.17"),),
        seconds=1.5,
        report="kept ios",
    )
    write_kernels(made, folder)
    return made


def test_kernels_are_read_as_they_were_written(tmp_path):
    from tvm_ios_lab.peers.build import builds_of, kernels_of

    tuned = kernels(tmp_path)
    untuned = kernels(tmp_path, "untuned", schedules=("greedy, untuned kernels",))
    assert kernels_of(tmp_path) == (tuned, untuned)
    assert [build.name for build in builds_of(tmp_path)] == [
        "tuned sequential",
        "tuned ios",
        "untuned greedy, untuned kernels",
    ]
    assert untuned.builds[0].path(tmp_path).name == "untuned-greedy-untuned-kernels.so"


def test_lost_builds_say_what_to_do(tmp_path):
    from tvm_ios_lab.peers.build import builds_of, kernels_of
    from tvm_ios_lab.peers.errors import PeerError

    with pytest.raises(PeerError, match="no build of ours.*python -m tvm_ios_lab.peers.ours"):
        builds_of(tmp_path)
    made = kernels(tmp_path)
    made.builds[1].path(tmp_path).unlink()
    with pytest.raises(PeerError, match=r"tuned-ios\.so is gone"):
        kernels_of(tmp_path)
    (tmp_path / "ours" / "tuned.json").write_text("{}")
    with pytest.raises(PeerError, match=r"tuned\.json does not say what was built: 'builds'"):
        kernels_of(tmp_path)


def test_recipes_are_a_name_and_a_file(tmp_path):
    from tvm_ios_lab.peers.errors import PeerError
    from tvm_ios_lab.peers.ours import Recipe

    path = tmp_path / "tuned.toml"
    path.write_text('time_budget = 9\n[tuning]\nbackend = "autotvm"\n')
    recipe = Recipe.parse(f"tuned={path}")
    assert (recipe.name, recipe.config.tuning, recipe.config.time_budget) == ("tuned", "autotvm", 9)
    assert recipe.text == path.read_text()
    assert Recipe.parse("untuned").config.tuning is None
    assert recipe.log is None
    log = tmp_path / "x.log"
    with_log = Recipe.parse(f"tuned={path}+{log}")
    assert (with_log.config, with_log.log) == (recipe.config, log)
    with pytest.raises(PeerError, match="cannot name kernels"):
        Recipe.parse(f"a/b={path}")
    with pytest.raises(OptionError, match="nowhere.toml"):
        Recipe.parse("tuned=nowhere.toml")


def test_the_same_options_are_not_built_again(tmp_path):
    from tvm_ios_lab.peers.ours import Recipe, _is_done

    recipe = Recipe.parse("tuned")
    assert not _is_done(recipe, tmp_path, 2)
    kernels(tmp_path, configuration="time_budget = 9")
    assert not _is_done(recipe, tmp_path, 2)
    kernels(tmp_path)
    assert _is_done(recipe, tmp_path, 2)
    assert not _is_done(recipe, tmp_path, 1)
    (tmp_path / "ours" / "tuned.json").write_text("{")
    assert not _is_done(recipe, tmp_path, 2)


def test_kernels_that_cannot_be_made_anew_do_not_race(tmp_path, capsys):
    from tvm_ios_lab.peers.build import kernels_of
    from tvm_ios_lab.peers.ours import main

    folder = tmp_path / "randwire_small_bs1"
    kernels(folder)
    other = kernels(folder, "untuned")
    (folder / "network.json").touch()  # so that the build fails
    recipe = tmp_path / "tuned.toml"
    recipe.write_text(HASTY)
    place = ("--folder", str(tmp_path), "--networks", "randwire_small")
    assert main([*place, "--kernels", f"tuned={recipe}", "--lanes", "2"]) == 1
    assert "randwire_small_bs1, tuned: " in capsys.readouterr().err
    assert kernels_of(folder) == (other,)


@pytest.mark.slow
def test_an_onnx_file_is_a_network_of_its_own(tmp_path, capsys):
    import onnx
    from onnx.reference import ReferenceEvaluator

    from tvm_ios_lab.peers.import_onnx import main
    from tvm_ios_lab.peers.network import read_case, relative_error
    from tvm_ios_lab.peers.ours import _model
    from tvm_ios_lab.peers.peer import Peer, contestants
    from tvm_ios_lab.peers.subject import Subject

    words = [f"ways={write_two_ways(tmp_path)}", "--folder", str(tmp_path)]
    assert main([*words, "--input-shapes", "x:[2,8,6,6]"]) == 0
    folder = tmp_path / "ways_bs2"
    case = read_case(folder)
    assert (case.network.output, case.network.input_shape) == ("y", (2, 8, 6, 6))
    assert case.network.macs == 2 * 36 * (8 * 8 + 9 * 8 * 16)
    said = ReferenceEvaluator(onnx.load(folder / "network.onnx")).run(None, {"x": case.input})
    assert relative_error(case.reference, said[0]) < 1e-5
    mod, _ = _model(Subject("ways", 2), folder)
    assert mod["main"].params[0].type_annotation.concrete_shape == (2, 8, 6, 6)
    who = contestants(tuple(Peer), 1, described=case.network.is_described)
    assert [one.peer for one in who] == [Peer.ONNXRUNTIME, Peer.OPENVINO, Peer.OPENVINO_DEFAULT]
    given = np.random.default_rng(1).standard_normal((1, 8, 6, 6))
    np.save(tmp_path / "x.npy", given)
    one = ["--input", str(tmp_path / "x.npy"), "--input-shapes", "x:[1,8,6,6]"]
    assert main([*words, *one]) == 0
    np.testing.assert_array_equal(read_case(tmp_path / "ways_bs1").input, given.astype("float32"))
    capsys.readouterr()
    assert main([*words, *one[:2], "--input-shapes", "x:[2,8,6,6]"]) == 1
    assert "has shape (1, 8, 6, 6), and 'x'" in capsys.readouterr().err
    np.savez(tmp_path / "x.npz", x=given)
    assert main([*words, "--input", str(tmp_path / "x.npz"), *one[2:]]) == 1
    assert "x.npz holds several arrays" in capsys.readouterr().err
    assert main(["unet=x.onnx", "--folder", str(tmp_path)]) == 1
    assert "unet is one of our networks" in capsys.readouterr().err
    assert main(words) == 1
    assert "--batch-size" in capsys.readouterr().err
    assert main(["ways", "--folder", str(tmp_path)]) == 1
    assert "'ways' is no NAME=FILE" in capsys.readouterr().err


def test_contestants_are_our_builds_and_what_reads_such_inputs(tmp_path):
    from tvm_ios_lab.peers.peer import Peer, contestants

    builds = kernels(tmp_path).builds
    some = (Peer.TORCH, Peer.TORCH_CHANNELS_LAST, Peer.OURS)
    assert [who.name for who in contestants(some, 2, builds=builds, images=False)] == [
        "torch, 1 thread",
        "torch, 2 threads",
        "tvm-ios tuned sequential, 2 threads",
        "tvm-ios tuned ios, 2 threads",
    ]
    assert len(contestants(some, 2, builds=builds)) == 6
    assert [who.threads for who in contestants(some, 2, builds=builds, one_thread=False)] == [2] * 4
    assert contestants((Peer.OPENVINO,), 1, builds=builds)[-1].peer is Peer.OPENVINO


def test_several_networks_have_a_joint_build_and_a_file_each(tmp_path):
    from tvm_ios_lab.peers.peer import Peer, contestants

    builds = kernels(tmp_path).builds
    some = (Peer.ONNXRUNTIME_STOPS, Peer.ONNXRUNTIME_THREADS, Peer.OURS, Peer.OURS_JOINT)
    who = contestants(some, 2, builds=builds, several=True, one_thread=False)
    assert [one.name for one in who] == [
        "onnxruntime stops, 2 threads",
        "onnxruntime threads, 1 thread",
        "tvm-ios, 2 threads",
        "tvm-ios joint tuned sequential, 2 threads",
        "tvm-ios joint tuned ios, 2 threads",
    ]
    assert len(contestants(some, 2, builds=builds)) == 2


@pytest.mark.slow
def test_networks_are_built_alone_and_as_one_and_run_by_a_worker(tmp_path, capsys):
    from tvm_ios_lab.peers.build import builds_of
    from tvm_ios_lab.peers.import_onnx import main as import_onnx
    from tvm_ios_lab.peers.ours import main as build
    from tvm_ios_lab.peers.peer import Peer, contestants
    from tvm_ios_lab.peers.worker import Worker

    model = write_two_ways(tmp_path)
    for name in ("one", "other"):
        words = (f"{name}={model}", "--folder", str(tmp_path), "--input-shapes", "x:[1,8,6,6]")
        assert import_onnx(words) == 0
    place = ("--folder", str(tmp_path), "--lanes", "1", "--networks")

    def built(name, text, *networks):
        (tmp_path / name).write_text(text)
        assert build([*place, *networks, "--kernels", f"{name}={tmp_path / name}"]) == 0
        return builds_of(tmp_path / f"{networks[-1]}_bs1")

    def is_right(who, folder, error):
        worker = Worker(who, folder, sys.executable)
        try:
            assert worker.prepared(120).relative_error < error
            assert worker.time_ns(2, warm_up=True) > 0
        finally:
            worker.close()

    joint = built("hasty", HASTY, "one", "other", "one+other")[:1]
    forms = (Peer.OURS, Peer.OURS_JOINT)
    every = contestants(forms, 1, builds=joint, several=True)
    assert [who.peer for who in every] == list(forms)
    for who in every:
        is_right(who, tmp_path / "one+other_bs1", 1e-5)
    assert "hasty: built before" not in capsys.readouterr().out
    built("hasty", HASTY, "one")
    assert "hasty: built before" in capsys.readouterr().out
    low = f'{HASTY}[precision]\ndtype = "bfloat16"\n'.replace("time_budget = 3", "")
    builds = [each for each in built("low", low, "other") if each.kernels == "low"]
    assert builds[0].schedule == "sequential"
    assert sum(each.kept for each in builds) == 1
    assert {each.precision for each in builds} == {"bfloat16"}
    (who,) = contestants((Peer.OURS,), 1, builds=builds[:1])
    is_right(who, tmp_path / "other_bs1", 0.05)


def test_what_was_measured_is_measured_again_when_something_is_newer(tmp_path):
    from tvm_ios_lab.peers.measure import _is_newer

    result = tmp_path / "result.json"
    assert not _is_newer(result, tmp_path)
    for at, path in ((1, tmp_path / "network.json"), (3, result)):
        path.touch()
        os.utime(path, (at, at))
    assert _is_newer(result, tmp_path)
    kernels(tmp_path)
    assert not _is_newer(result, tmp_path)
    os.utime(tmp_path / "ours" / "tuned.json", (2, 2))
    assert _is_newer(result, tmp_path)


def test_a_network_that_fails_does_not_stop_the_next(tmp_path, capsys):
    from tvm_ios_lab.peers.measure import main

    words = ["--folder", str(tmp_path), "--output", str(tmp_path / "out")]
    assert main([*words, "--networks", "squeezenet", "resnet_50:8"]) == 1
    said = capsys.readouterr().err
    assert "squeezenet_bs1 holds no exported network" in said
    assert "resnet_50_bs8 holds no exported network" in said


def record(network, rounds, **facts):
    """A record of a comparison: nanoseconds of each round by contestant."""
    return BenchmarkRecord(
        network=network,
        batch_size=1,
        target="t",
        lanes=2,
        command="c",
        machine={},
        versions={},
        taken_at="2026-01-01",
        comparison=Comparison(
            names=tuple(rounds),
            rounds=tuple(
                CompareRound(run_ns=run_ns, ping_pong_ns=50.0, slow=False)
                for run_ns in zip(*rounds.values(), strict=True)
            ),
            confidence=0.95,
            notes=(),
        ),
        facts={name.replace("_", " "): value for name, value in facts.items()},
    )


def always(ms):
    return [ms * 1e6] * 6


def our_facts(**builds):
    return {
        f"{what} of tvm-ios {kernels} {schedule}, 2 threads": value
        for kernels, schedules in builds.items()
        for schedule in schedules
        for what, value in (("kernels", kernels), ("schedule", schedule))
    }


def measured():
    fast = record(
        "fast",
        {
            "onnxruntime, 1 thread": always(1),
            "onnxruntime, 2 threads": always(2),
            "torch, 2 threads": always(3),
            "tvm-ios untuned sequential, 2 threads": always(0.7),
            "tvm-ios tuned sequential, 2 threads": always(0.8),
            # Medians are 0.4 and 1, but ratios are taken within rounds.
            "tvm-ios tuned ios, 2 threads": [5e5, 5e5, 4e5, 4e5, 2.5e5, 2.5e5],
        },
        floor_ms="0.25",
        **our_facts(tuned=("sequential", "ios"), untuned=("sequential",)),
    )
    slow = record(
        "slow",
        {"openvino, 1 thread": always(9), "openvino, 2 threads": always(5)},
        floor_ms="2.5",
    )
    return slow, fast


def test_standing_is_our_best_against_the_best_peer():
    from tvm_ios_lab.peers.summary import Standing, standing_of

    slow, fast = measured()
    assert standing_of(slow) is None
    assert standing_of(fast) == Standing(
        network="fast",
        batch=1,
        ours="tvm-ios tuned ios, 2 threads",
        ours_ms=0.4,
        best_peer="onnxruntime, 1 thread",
        best_peer_ms=1.0,
        ratio=2.5,
        interval=(2.0, 4.0),
        sequential_ms=0.8,
        floor_ms=0.25,
    )


def together():
    joint = our_facts(ours=("sequential",))
    return record(
        "a+b",
        {
            "onnxruntime threads, 1 thread": always(3),
            "tvm-ios, 2 threads": always(0.9),
            "tvm-ios joint ours sequential, 2 threads": always(1),
        },
        floor_ms="0.5",
        **{name.replace("tvm-ios", "tvm-ios joint"): value for name, value in joint.items()},
        **{"kernels of tvm-ios, 2 threads": "a file each", "schedule of tvm-ios, 2 threads": "-"},
    )


def test_files_of_each_network_have_a_column_and_no_part_in_the_ratio():
    from tvm_ios_lab.peers.table import peer_table

    table = peer_table([together()])
    assert dict(zip(table.header, table.rows[0], strict=True)) == {
        "network": "a+b",
        "batch": "1",
        "floor": "0.500",
        "onnxruntime threads": "3.000 (1)",
        "a file each": "0.900 (2)",
        "sequential": "1.000",
        "ours": "1.000",
        "which": "ours sequential",
        "best peer / ours": "3.00 (3.00-3.00)",
    }


def test_table_has_the_better_thread_count_and_ours():
    from tvm_ios_lab.peers.table import peer_table

    table = peer_table(measured())
    rows = [dict(zip(table.header, row, strict=True)) for row in table.rows]
    assert [row["network"] for row in rows] == ["fast", "slow"]
    assert rows[0]["onnxruntime"] == "1.000 (1)"
    assert rows[1]["onnxruntime"] == "-"
    assert "onnxruntime parallel" not in rows[0]
    assert rows[0]["torch"] == "3.000 (2)"
    assert (rows[0]["batch"], rows[0]["floor"]) == ("1", "0.250")
    assert (rows[0]["sequential"], rows[0]["ours"], rows[0]["which"]) == (
        "0.800",
        "0.400",
        "tuned ios",
    )
    assert rows[0]["best peer / ours"] == "2.50 (2.00-4.00)"
    assert (rows[1]["openvino"], rows[1]["ours"], rows[1]["best peer / ours"]) == (
        "5.000 (2)",
        "-",
        "-",
    )


def test_all_files_are_written_from_the_results(tmp_path):
    from tvm_ios_lab.peers.table import MARKERS, main

    results, long, short = tmp_path / "results", tmp_path / "long.md", tmp_path / "short.md"
    results.mkdir()
    for found in measured():
        (results / f"{found.network}_bs1.json").write_text(found.to_json())
    for path in (long, short):
        path.write_text("\n".join(["before", *MARKERS, "after", ""]))
    words = ["--folder", str(results), "--write", "--long", str(long), "--short", str(short)]
    assert main(words) == 0
    summary = json.loads((results / "summary.json").read_text())
    assert [(row["network"], row["ratio"], row["interval"]) for row in summary] == [
        ("fast", 2.5, [2.0, 4.0])
    ]
    written = long.read_text(), short.read_text()
    assert all(text.startswith("before\n") and text.endswith("\nafter\n") for text in written)
    assert "slow" in written[0]
    assert "slow" not in written[1]
    assert main(words) == 0  # its own summary is no result
    assert (long.read_text(), short.read_text()) == written


def test_results_without_us_are_not_written(tmp_path, capsys):
    from tvm_ios_lab.peers.table import main

    slow, _ = measured()
    (tmp_path / "slow_bs1.json").write_text(slow.to_json())
    assert main(["--folder", str(tmp_path), "--write"]) == 1
    assert "python -m tvm_ios_lab.peers.ours" in capsys.readouterr().err
    assert not (tmp_path / "summary.json").exists()


def test_the_documents_have_room_for_the_tables():
    from tvm_ios_lab.peers.table import MARKERS

    for path in (ROOT / "docs" / "when.md", LAB / "README.md"):
        assert all(marker in path.read_text() for marker in MARKERS)
