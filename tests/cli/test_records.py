"""``tvm-ios records`` as a user runs it."""

from __future__ import annotations

import json

import pytest

from tvm_ios.cli.main import main
from tvm_ios.tuning.records.records import read_records


def autotvm_line(cost_s, *, index=0, size=16, error=0):
    return json.dumps(
        {
            "input": ["llvm -keys=cpu", "test.matmul", [size, "float32"], {}],
            "config": {"index": index, "code_hash": None, "entity": [["tile", "ot", index]]},
            "result": [[1e9 if error else cost_s], error, 0.1, 1.5],
            "version": 0.2,
            "tvm_version": "0.17.dev0",
        }
    )


FAST, SLOW = autotvm_line(0.001), autotvm_line(0.002, index=1)
OTHER, FAILED = autotvm_line(0.003, size=32), autotvm_line(1, size=64, error=4)
ANSOR = r'{"i": [["[\"matmul\", 16]", "llvm"], [[], []]], "r": [[0.004], 0, 0.1, 15], "v": "v0.2"}'


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "a.log"
    path.write_text("\n".join([SLOW, FAST, FAILED, OTHER, ANSOR, ""]))
    return path


@pytest.fixture
def torn(tmp_path):
    path = tmp_path / "torn.log"
    path.write_text(f"{FAST}\nforeign \x1b\n{SLOW[:80]}")
    return path


@pytest.fixture
def records(capsys):
    def run(*words, status=0):
        assert main(["records", *map(str, words)]) == status
        return capsys.readouterr()

    return run


def lines(path):
    return [record.line for record in read_records(path).records]


def test_show(records, log):
    out = records("show", log).out.splitlines()
    assert out[0].split() == [
        "workload",
        "target",
        "best",
        "ms",
        "mean",
        "ms",
        "error",
        "file:line",
    ]
    assert [line.split()[-1] for line in out[2:]] == [f"{log}:{number}" for number in range(1, 6)]
    assert "2.0000" in out[2]
    assert "runtime" in out[4]


def test_show_less(records, log):
    out = records("show", log, "--limit", "2").out.splitlines()
    assert len(out) == 2 + 2 + 1
    assert out[-1] == "and 3 more; --limit 0 lists all"
    out = records("show", log, "--format", "auto_scheduler", "--limit", "0").out
    assert len(out.splitlines()) == 3
    assert "--limit is -1" in records("show", log, "--limit", "-1", status=2).err


def test_show_as_json(records, log, torn):
    captured = records("show", log, torn, "--json")
    answer = json.loads(captured.out)
    assert (answer["read"], answer["rejected"]) == (6, 2)
    first, failed = answer["records"][0], answer["records"][2]
    assert first == {
        "format": "autotvm",
        "workload": '["test.matmul", [16, "float32"]]',
        "target": "llvm -keys=cpu",
        "best_ms": 2.0,
        "mean_ms": 2.0,
        "error": 0,
        "path": str(log),
        "line": 1,
    }
    assert (failed["mean_ms"], failed["error"]) == (None, 4)
    assert f"2 lines are no records; for the reasons, run: tvm-ios records check {torn}" in (
        captured.err
    )


def test_best(records, log):
    out = records("best", log).out.splitlines()
    assert [line.split()[-1] for line in out[2:]] == [f"{log}:{number}" for number in (2, 4, 5)]
    out = records("best", log, "--per-workload", "2", "--json").out
    assert [each["line"] for each in json.loads(out)["best"]] == [2, 1, 4, 5]
    assert "per_workload is 0" in records("best", log, "--per-workload", "0", status=2).err


def test_best_into_a_log(records, log, tmp_path):
    output = tmp_path / "new" / "best.log"
    words = ("best", log, "--output", output)
    error = records(*words, status=2).err
    assert "add --format autotvm or --format auto_scheduler" in error
    assert not output.exists()
    out = records(*words, "--format", "autotvm").out
    assert out == f"2 of 4 records are in {output}\n"
    assert lines(output) == [FAST, OTHER]


def test_best_replaces_nothing_unless_forced(records, log, tmp_path):
    before = log.read_text()
    link = tmp_path / "link"
    link.symlink_to(log)
    for output in (log, link):
        words = ("best", log, "--format", "autotvm", "--output", output)
        assert f"{output} is there already" in records(*words, status=2).err
        assert log.read_text() == before
    records(*words, "--force")
    assert lines(log) == [FAST, OTHER]


def test_best_of_failures(records, tmp_path):
    path, output = tmp_path / "failed.log", tmp_path / "best.log"
    path.write_text(FAILED + "\n")
    assert records("best", path, "--output", output, status=1).out == "none of 1 records ran\n"
    assert not output.exists()


def test_merge(records, log, tmp_path):
    second, output = tmp_path / "b.log", tmp_path / "merged.log"
    second.write_text(f"{FAST}\n{autotvm_line(0.005, size=8)}\n{FAST[:50]}\n")
    captured = records("merge", second, log, "--format", "autotvm", "--output", output)
    assert captured.out == f"5 records are in {output}, 1 duplicates left out\n"
    assert "1 lines are no records" in captured.err
    assert lines(output) == [FAST, autotvm_line(0.005, size=8), SLOW, FAILED, OTHER]
    assert "is there already" in records("merge", second, "--output", output, status=2).err
    answer = records("merge", second, "--output", output, "--force", "--json").out
    assert json.loads(answer) == {"kept": 2, "duplicates": 0, "read": 2, "rejected": 1}
    nothing = records("merge", second, "--format", "auto_scheduler", "--output", output, status=1)
    assert nothing.out == "there are no records\n"


def test_check(records, log, torn, tmp_path):
    out = records("check", log).out
    assert out.splitlines()[0] == (
        f"{log}: 4 of autotvm, of which 1 failed; 1 of auto_scheduler, of which 0 failed; "
        "0 lines rejected"
    )
    assert "TVM reads logs of one format" in out
    out = records("check", log, torn, status=1).out.splitlines()
    assert out[2] == f"{torn}: 1 of autotvm, of which 0 failed; 2 lines rejected"
    assert out[3].startswith("  line 2: no JSON, perhaps torn")
    assert out[4].startswith("  line 3: no JSON, perhaps torn")
    assert out[5].endswith(f"run: tvm-ios records check --fix {torn}")
    (tmp_path / "empty").touch()
    assert "no records; 0 lines rejected" in records("check", tmp_path / "empty").out


def test_check_as_json(records, torn):
    (answer,) = json.loads(records("check", torn, "--json", status=1).out)["files"]
    assert answer["autotvm"] == {"ok": 1, "failed": 0}
    assert answer["auto_scheduler"] == {"ok": 0, "failed": 0}
    assert [line["line"] for line in answer["rejected"]] == [2, 3]
    assert answer["moved"] == 0


def test_check_fixes(records, torn):
    out = records("check", torn, "--fix").out
    assert out.splitlines()[-1] == f"  2 lines were moved to {torn}.rejected"
    assert torn.read_text() == FAST + "\n"
    assert "0 lines rejected" in records("check", torn).out


def test_check_of_much_that_is_none(records, tmp_path):
    path = tmp_path / "log"
    path.write_text("x\n" * 100)
    assert "and 80 more; --json lists all" in records("check", path, status=1).out
    assert "100 lines and no tuning record" in records("check", path, "--fix", status=2).err
    assert path.read_text() == "x\n" * 100


@pytest.mark.parametrize("action", ["show", "best", "merge", "check"])
def test_a_missing_file_is_named(records, tmp_path, action):
    more = ["--output", tmp_path / "out"] if action == "merge" else []
    captured = records(action, tmp_path / "absent", *more, status=2)
    assert captured.out == ""
    assert "cannot read the tuning records" in captured.err
    assert len(captured.err.splitlines()) == 1


@pytest.mark.parametrize("words", [(), ("show",), ("merge", "a.log"), ("pick", "a.log")])
def test_wrong_use(words):
    with pytest.raises(SystemExit) as ended:
        main(["records", *words])
    assert ended.value.code == 2


def test_no_tvm_is_needed(run_python, project_root, log):
    program = (
        "import sys\nfrom tvm_ios.cli.main import main\n"
        f"status = main(['records', 'show', {str(log)!r}])\n"
        "print(status, [n for n in sys.modules if n.split('.')[0] == 'tvm'])\n"
    )
    done = run_python("-c", program, PYTHONPATH=str(project_root))
    assert (done.stdout.splitlines()[-1], done.stderr) == ("0 []", "")
