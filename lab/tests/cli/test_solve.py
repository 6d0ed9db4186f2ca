"""``tvm-ios solve`` as a user runs it: answers by the golden files, errors in one line."""

from __future__ import annotations

import copy
import json

import pytest

from tests.json_places import places
from tvm_ios.cli.main import main
from tvm_ios_lab.places import ROOT

GOLDEN = ROOT / "tests" / "golden"


def _solve(capsys, *arguments):
    assert main(["solve", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def _answer(capsys, *arguments):
    return json.loads(_solve(capsys, *arguments, "--json"))


@pytest.mark.parametrize("more", [(), ("--lazy",), ("--no-native",)])
@pytest.mark.parametrize(("network", "total"), [("inception_v3", 1731154), ("squeezenet", 428282)])
def test_golden_networks(capsys, network, total, more):
    path = GOLDEN / f"{network}_bs1.json"
    data = json.loads(path.read_text(encoding="utf-8"))
    answer = _answer(capsys, path, *more)
    assert answer["cost"] == total
    assert answer["sequential_cost"] == sum(data["sequential_cost"])
    assert answer["greedy_cost"] == sum(data["greedy_cost"])
    for number, (part, found) in enumerate(zip(data["parts"], answer["parts"], strict=True)):
        (expected,) = (
            e
            for e in part["expect"]
            if (e["mode"], e["r"], e["s"], e["rule"]) == ("both", 3, 8, "paper")
        )
        assert found["cost"] == expected["cost"]
        assert found["states"] == expected["states"]
        assert found["transitions"] == expected["transitions_without_size1_merge"]
        assert found["distinct_stages"] == expected["distinct_stages"]
        assert found["priced"] <= found["distinct_stages"]
        assert found["sequential_cost"] == data["sequential_cost"][number]
        assert found["greedy_cost"] == data["greedy_cost"][number]
        assert found["seconds"] >= 0
        operators = [i for s in found["schedule"] for group in s["groups"] for i in group]
        assert sorted(operators) == list(range(part["n"]))
        assert {s["strategy"] for s in found["schedule"]} <= {"concurrent", "merge"}


@pytest.mark.parametrize(
    ("endings", "transitions", "schedules"),
    [("published", 4871, 3757392), ("complete", 5040, 4410136)],
)
def test_table_1_by_the_command_line(capsys, endings, transitions, schedules):
    part = _answer(
        capsys,
        GOLDEN / "inception_v3_bs1.json",
        *("--strategies", "concurrent", "--endings", endings),
        *("--max-group-size", 0, "--max-num-groups", 0),
    )["parts"][10]
    assert (part["transitions"], part["num_schedules"]) == (transitions, schedules)


def test_merge_only(capsys):
    answer = _answer(capsys, GOLDEN / "squeezenet_bs1.json", "--strategies", "merge")
    assert answer["cost"] == 435400


def test_the_table(capsys):
    text = _solve(capsys, GOLDEN / "squeezenet_bs1.json")
    lines = text.splitlines()
    assert "max group size 3, max groups 8, complete endings" in lines[0]
    assert lines[-1].split()[:4] == ["total", "483691", "514282", "428282"]
    assert len(lines) == 2 + 12 + 1
    assert max(map(len, lines)) <= 120


def _part(succ, **more):
    return {
        "n": len(succ),
        "succ": succ,
        "prims": [[[70000, 1000, 1]] for _ in succ],
        **more,
    }


def _write(tmp_path, *parts):
    cost = {"PEAK": 7000, "SAT": 163840, "LAUNCH": 5000, "HOST": 2500, "BARRIER": 10000}
    path = tmp_path / "problem.json"
    path.write_text(json.dumps({"cost": cost, "parts": parts}), encoding="utf-8")
    return path


def _conv(**changes):
    return {
        "in_key": [[["x", 0, 8]]],
        "in_shape": [8, 8, 8],
        "out": 4,
        "kernel": [3, 3],
        "stride": [1, 1],
        "pad": [1, 1],
        "groups": 1,
        "act": "relu",
    } | changes


@pytest.mark.parametrize(
    ("first", "second", "merges"),
    [
        (_conv(), _conv(), True),
        (_conv(), _conv(kernel=[1, 1], pad=[0, 0]), True),
        (_conv(groups=4), _conv(), False),
        (_conv(in_key=[[["x", 0, 8], ["y", 0, 8]]]), _conv(), False),
        (_conv(kernel=[2, 2], pad=[0, 0], stride=[2, 2]), _conv(stride=[2, 2]), False),
        (
            _conv(pad=[0, 0], stride=[4, 4], in_shape=[8, 7, 7]),
            _conv(stride=[4, 4], in_shape=[8, 7, 7]),
            False,
        ),
    ],
)
def test_only_right_merges_are_counted(capsys, tmp_path, first, second, merges):
    answer = _answer(capsys, _write(tmp_path, _part([[], []], conv=[first, second])))
    assert answer["parts"][0]["distinct_stages"] == 3 + merges


@pytest.mark.parametrize(
    ("second", "merges"), [(_conv(), True), (_conv(kernel=[1, 1], pad=[0, 0]), False)]
)
def test_merges_that_pad_kernels_can_be_left_out(capsys, tmp_path, second, merges):
    problem = _write(tmp_path, _part([[], []], conv=[_conv(), second]))
    answer = _answer(capsys, problem, "--no-pad-merged-kernels")
    assert not answer["pad_merged_kernels"]
    assert answer["parts"][0]["distinct_stages"] == 3 + merges
    header = _solve(capsys, problem, "--no-pad-merged-kernels").splitlines()[0]
    assert "complete endings, merged kernels of one size" in header
    assert "merged kernels" not in _solve(capsys, problem)


def test_no_parts_and_empty_parts(capsys, tmp_path):
    answer = _answer(capsys, _write(tmp_path))
    assert (answer["cost"], answer["parts"]) == (0, [])
    answer = _answer(capsys, _write(tmp_path, _part([])))
    assert answer["parts"][0]["schedule"] == []
    assert "total" in _solve(capsys, _write(tmp_path, _part([])))


def test_schedules_speak_of_operators_as_the_file_does(capsys, tmp_path):
    answer = _answer(capsys, _write(tmp_path, _part([[], [2], [0]])), "--max-group-size", "1")
    order = [group[0] for stage in answer["parts"][0]["schedule"] for group in stage["groups"]]
    assert order == [1, 2, 0]


@pytest.mark.parametrize("wide", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_part_of_a_thousand_operators(capsys, tmp_path, wide):
    succ = [[] if wide else [i + 1] for i in range(1000)]
    succ[-1] = []
    answer = _answer(capsys, _write(tmp_path, _part(succ)), "--lazy", "--max-num-groups", 3)
    (part,) = answer["parts"]
    assert part["cost"] <= part["sequential_cost"]
    assert "were split into" in part["notes"][0]
    if not wide:
        text = _solve(capsys, _write(tmp_path, _part(succ)), "--lazy", "--max-num-groups", 3)
        assert "note on part 0: 1000 operators" in text


def _fails(capsys, *arguments):
    assert main(["solve", *map(str, arguments)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1
    return captured.err


def test_errors_are_one_line_and_exit_2(capsys, tmp_path):
    good = _write(tmp_path, _part([[], []]))
    assert "max_group_size is -1" in _fails(capsys, good, "--max-group-size", -1)
    assert "max_num_groups is -2" in _fails(capsys, good, "--max-num-groups", -2)
    assert "cannot read" in _fails(capsys, tmp_path / "absent.json")
    assert "cannot read" in _fails(capsys, tmp_path)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    assert "cannot read" in _fails(capsys, tmp_path / "binary")
    cyclic = _write(tmp_path, _part([[1], [0]]))
    assert "problem.json: parts[0].succ has a cycle" in _fails(capsys, cyclic)
    dear = _part([[], []])
    dear["prims"][1] = [[1 << 40, 1, 1 << 40]]
    assert "parts[0]" in _fails(capsys, _write(tmp_path, dear))


def _every_change(data, wrongs):
    """The problem with each place in turn replaced by something wrong."""
    for path in places(data):
        for wrong in wrongs:
            changed = copy.deepcopy(data)
            *front, last = path
            target = changed
            for key in front:
                target = target[key]
            target[last] = wrong
            yield changed


@pytest.mark.slow(1)
@pytest.mark.parametrize(
    "wrongs",
    [(None, -1, "x", [[-1]]), pytest.param((True, 1.5, [], {}, 10**30), marks=pytest.mark.full)],
    ids=str,
)
def test_a_malformed_file_never_shows_a_traceback(capsys, tmp_path, wrongs):
    path = _write(tmp_path, _part([[1], []], conv=[_conv(), None]))
    for changed in _every_change(json.loads(path.read_text(encoding="utf-8")), wrongs):
        path.write_text(json.dumps(changed), encoding="utf-8")
        status = main(["solve", str(path), "--json"])
        captured = capsys.readouterr()
        assert status in (0, 2)
        assert len(captured.err.splitlines()) == (1 if status else 0)
        if status == 0:
            json.loads(captured.out)


def test_as_a_process(run_python, project_root):
    path = GOLDEN / "squeezenet_bs1.json"
    arguments = ("-m", "tvm_ios", "solve", str(path), "--json")
    done = run_python(*arguments, PYTHONPATH=str(project_root))
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["cost"] == 428282
    no_compiler = run_python(
        *arguments,
        PYTHONPATH=str(project_root),
        CC="no-such-compiler",
        TVM_IOS_CACHE_DIR="/nonexistent",
    )
    assert (no_compiler.returncode, no_compiler.stderr) == (0, "")
    assert json.loads(no_compiler.stdout)["cost"] == 428282


def test_wrong_use(run_python, project_root):
    done = run_python("-m", "tvm_ios", "solve", PYTHONPATH=str(project_root))
    assert done.returncode == 2
    assert "PROBLEM.json" in done.stderr


H100 = "analytical model of NVIDIA H100 SXM5 (one CUDA graph, tuned kernels), nothing was measured"


@pytest.mark.parametrize("network", ["inception_v3", "squeezenet"])
def test_a_problem_for_a_gpu(capsys, network):
    path = GOLDEN / f"{network}_bs1.json"
    recorded = _answer(capsys, path)
    assert recorded["prices"] == "synthetic cost recorded in the problem"
    answer = _answer(capsys, path, "--gpu", "h100")
    assert answer["prices"] == H100
    assert answer["cost"] < answer["sequential_cost"]
    assert answer["cost"] <= answer["greedy_cost"]
    lazy = _answer(capsys, path, "--gpu", "h100", "--lazy")
    assert lazy["cost"] == answer["cost"]
    assert sum(p["priced"] for p in lazy["parts"]) < sum(p["priced"] for p in answer["parts"])


def test_the_table_says_that_nothing_was_measured(capsys):
    lines = _solve(capsys, GOLDEN / "squeezenet_bs1.json", "--gpu", "h100").splitlines()
    assert lines[1] == f"prices: {H100}"


def test_a_trace_of_the_simulated_run(capsys, tmp_path):
    trace = tmp_path / "trace.json"
    answer = _answer(
        capsys,
        GOLDEN / "squeezenet_bs1.json",
        *("--gpu", "v100", "--launching", "synchronised", "--kernels", "library"),
        *("--trace", trace),
    )
    events = json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
    (process,) = [e["args"]["name"] for e in events if e["name"] == "process_name"]
    assert process == f"squeezenet, simulated by the {answer['prices']}"
    last = max(event["ts"] + event["dur"] for event in events if event["ph"] == "X")
    assert last <= answer["cost"] / 1000 + 0.001


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--gpu", "tpu"), "no GPU named 'tpu'; choose one of v100"),
        (("--launching", "graph"), "--launching is for the model of a GPU; add --gpu"),
        (("--kernels", "tuned"), "--kernels is for the model of a GPU"),
        (("--trace", "t.json"), "--trace is for the model of a GPU"),
        (("--gpu", "t4", "--trace", "no/such/folder/t.json"), "cannot write the trace"),
    ],
)
def test_wrong_use_of_the_gpu_model(capsys, arguments, message):
    assert main(["solve", str(GOLDEN / "squeezenet_bs1.json"), *arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_cpu_that_is_not_there_predicts_and_says_so(capsys):
    problem = str(GOLDEN / "squeezenet_bs1.json")
    gains = []
    for cores in ("4", "16"):
        assert main(["solve", problem, "--cpu", cores, "--json"]) == 0
        answer = json.loads(capsys.readouterr().out)
        assert f"({cores} cores), a prediction: nothing was measured" in answer["prices"]
        gains.append(answer["sequential_cost"] / answer["cost"])
    assert 1 <= gains[0] < gains[1]
    assert main(["solve", problem, "--cpu", "16"]) == 0
    assert "prices: analytical model of AMD EPYC 9004" in capsys.readouterr().out
    assert main(["solve", problem, "--cpu", "1000"]) == 2
    assert "cores is 1000; give a whole number from 1 to 96" in capsys.readouterr().err
    for option in (("--trace", "t.json"), ("--kernels", "tuned")):
        assert main(["solve", problem, "--cpu", "4", *option]) == 2
        told = (
            f"{option[0]} is for the model of a GPU; use --gpu instead of --cpu, with one of v100"
        )
        assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("device", "message"),
    [(("--gpu", "tpu"), "no GPU named 'tpu'"), (("--cpu", "0"), "cores is 0")],
)
def test_a_device_is_refused_before_the_file_is_read(capsys, tmp_path, device, message):
    assert message in _fails(capsys, _write(tmp_path), *device)
    assert message in _fails(capsys, tmp_path / "absent.json", *device)
