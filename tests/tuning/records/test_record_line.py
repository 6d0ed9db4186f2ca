"""A line is taken for a record exactly where stock TVM can read it."""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path

import pytest

from tests.json_places import places
from tvm_ios.errors import RecordError
from tvm_ios.report.records_in_force import RecordFormat
from tvm_ios.tuning.records.record_line import RejectedLine, TuningRecord, parse_line, parse_record

AUTOTVM = (
    '{"input": ["llvm -keys=cpu -mcpu=core-avx2", "dense_nopack.x86", [["TENSOR", [1, 64], '
    '"float32"], ["TENSOR", [32, 64], "float32"], null, "float32"], {}], "config": {"index": 7, '
    '"code_hash": null, "entity": [["tile_y", "sp", [-1, 4]], ["order", "re", [0, 1]], '
    '["vec", "an", ["vectorize"]], ["unroll", "ot", true]]}, "result": [[0.002, 0.004], 0, 0.3, '
    '1795233558.95], "version": 0.2, "tvm_version": "0.17.dev0"}'
)
AUTOTVM_OLD = (
    '{"input": ["cuda -model=1080ti", "conv2d_nchw.cuda", [["TENSOR", [1, 3], "float32"]], {}], '
    '"config": {"index": 5, "code_hash": "a1", "entity": []}, "result": [[1e-05], 0, 3, 1548], '
    '"version": 0.2, "tvm_version": "0.7.dev1"}'
)
TASK = r'"[\"matmul\", 128]", "llvm -keys=cpu", [2, 64, 64, 0, 0, 0, 0, 0], "", 1, ["a"]'
STEPS = '[[], [["SP", 2, 0, 16, [4], 1], ["AN", 2, 1, 2]]]'
ANSOR = f'{{"i": [[{TASK}], {STEPS}], "r": [[0.001, 0.003], 0, 0.1, 1795233558], "v": "v0.6"}}'
ANSOR_OLD = [
    f'{{"i": [[{task}], [[], []]], "r": [[0.001], 0, 0.5, 1604], "v": "{version}"}}'
    for version, task in (
        ("v0.2", r'"[\"matmul\", 128]", "llvm"'),
        ("v0.3", r'"[\"matmul\", 128]", "llvm", [2, 64, 64, 0, 0, 0, 0, 0]'),
        ("v0.5", r'"[\"matmul\", 128]", "llvm", [2, 64, 64, 0, 0, 0, 0, 0], "llvm", 1'),
    )
]
ALL = [AUTOTVM, AUTOTVM_OLD, ANSOR, *ANSOR_OLD]


def parse(text):
    return parse_record(text, path=Path("log"), line_number=3)


def reason(text):
    with pytest.raises(RecordError) as caught:
        parse(text)
    return str(caught.value)


def test_a_record_of_autotvm():
    record = parse(AUTOTVM)
    assert record.format is RecordFormat.AUTOTVM
    assert record.line == AUTOTVM
    assert json.loads(record.workload)[0] == "dense_nopack.x86"
    assert record.target == "llvm -keys=cpu -mcpu=core-avx2"
    assert (record.costs_s, record.error, record.ok) == ((0.002, 0.004), 0, True)
    assert record.mean_s == pytest.approx(0.003)
    assert (record.path, record.line_number) == (Path("log"), 3)
    assert json.loads(record.candidate())[0] == ["tile_y", "sp", [-1, 4]]


def test_a_record_of_auto_scheduler():
    record = parse(ANSOR)
    assert record.format is RecordFormat.AUTO_SCHEDULER
    assert record.workload == '["matmul", 128]'
    assert record.target == "llvm -keys=cpu"
    assert record.mean_s == pytest.approx(0.002)
    assert json.loads(record.candidate()) == json.loads(STEPS)


@pytest.mark.parametrize("line", ALL)
def test_every_version_that_tvm_reads(line):
    assert parse(line).ok
    assert parse(f" {line}\r").line == line


def changed(line, *path, to):
    data = json.loads(line)
    *front, last = path
    place = data
    for key in front:
        place = place[key]
    place[last] = to
    return json.dumps(data, ensure_ascii=False)


@pytest.mark.parametrize(
    "line",
    [
        changed(AUTOTVM, "result", to=[[1e9], 4, 0.1, 1]),
        changed(ANSOR, "r", to=[[1e10], 6, 0.1, 1]),
        changed(ANSOR, "r", to=[[1e10], 0, 0.1, 1]),
        changed(ANSOR, "r", to=[[0.1, 1e10], 0, 0.1, 1]),
    ],
)
def test_failures_have_no_costs(line):
    record = parse(line)
    assert not record.ok
    assert record.costs_s == ()
    assert record.mean_s == math.inf


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", "the line is empty"),
        (" \t", "the line is empty"),
        (AUTOTVM[:-1], "torn"),
        (AUTOTVM + "}", "torn"),
        ("[" * 100_000, "torn"),
        ("3", "JSON, but no tuning record: a int"),
        ("{}", "neither 'input' nor 'i'"),
        ('{"i": ["llvm", "conv", [], {}, [], {}], "r": [[1], 0, 1, 1], "v": 0.1}', "version 0.1"),
        ("\udc80" + AUTOTVM, "not UTF-8 from character 1"),
        (changed(AUTOTVM, "input", to=["llvm", "conv", []]), "'input' is not"),
        (changed(AUTOTVM, "config", to=None), "'config' is not"),
        (changed(AUTOTVM, "config", "entity", 0, to=["tile", "zz", [1]]), "knob"),
        (changed(AUTOTVM, "result", to=[[], 0, 1, 1]), "'result' is not"),
        (AUTOTVM.replace("0.002", "NaN"), "NaN"),
        (AUTOTVM.replace("0.002", "1e999"), "'result' is not"),
        (changed(AUTOTVM, "result", 0, to=[0.0]), "a cost of 0.0 seconds"),
        (changed(ANSOR, "r", 0, to=[-1.0]), "a cost of -1.0 seconds"),
        (changed(ANSOR, "r", 1, to=True), "'r' is not"),
        (changed(ANSOR, "i", 0, 2, to=[1, 2]), "8 hardware"),
        (changed(ANSOR, "i", 1, 0, to=[1]), "'i' is not"),
        (changed(ANSOR, "i", 1, 1, to=[[]]), "transform step"),
        (changed(ANSOR, "x", to=1), "unknown key 'x'"),
        (changed(ANSOR, "v", to=6), "version 'v' is 6"),
        (ANSOR.replace("matmul", "m\\u0061tmul"), "escape \\u"),
    ],
)
def test_what_is_no_record_has_a_reason(line, words):
    assert words in reason(line)


def test_a_record_behind_half_a_record_is_found():
    parts = parse_line(AUTOTVM[:100] + ANSOR, path=Path("log"), line_number=3)
    assert [type(part) for part in parts] == [RejectedLine, TuningRecord]
    assert parts[0].line == AUTOTVM[:100]
    assert (parts[0].line_number, parts[1].line_number) == (3, 3)
    assert parts[1].line == ANSOR


def test_records_that_share_a_line_are_kept_and_spoken_of():
    first, second, line = parse_line(AUTOTVM + ANSOR, path=Path("log"), line_number=3)
    assert (first.line, second.line) == (AUTOTVM, ANSOR)
    assert line.line == AUTOTVM + ANSOR
    assert line.reason == "2 records without a newline between them"


def test_nothing_in_half_a_record_is_a_record():
    text = AUTOTVM[:100] + ANSOR[:-1]
    assert [part.line for part in parse_line(text, path=Path("log"), line_number=3)] == [text]


def changes(data):
    """The record with each place in turn removed or replaced by something wrong.

    Targets and the insides of transform steps, which only TVM itself can judge, stay.
    """
    for *front, last in places(data):
        path = (*front, last)
        if path in {("input", 0), ("i", 0, 1), ("i", 0, 3)} or path[:3] == ("i", 1, 1):
            continue
        for wrong in (None, True, 0, -1, 1.5, "x", [], {}, [[-1]], 10**30, 10**400):
            changed = copy.deepcopy(data)
            place = changed
            for key in front:
                place = place[key]
            place[last] = wrong
            yield changed
        del place[last]
        yield changed


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_stock_tvm_reads_whatever_we_take_for_a_record():
    from tvm import autotvm
    from tvm.auto_scheduler.measure_record import load_record_from_string

    taken = 0
    for line in ALL:
        read = autotvm.record.decode if '"input"' in line else load_record_from_string
        for data in changes(json.loads(line)):
            try:
                text = parse(json.dumps(data)).line
            except RecordError:
                continue
            measured, result = read(text)
            assert measured is not None
            assert len(result.costs) > 0
            taken += 1
    assert taken > 100
