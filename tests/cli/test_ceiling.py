"""The verb that says what scheduling can gain, and the first line of ``tune``."""

from __future__ import annotations

import json

import pytest

from tests.onnx_models import write_two_ways
from tvm_ios.cli.main import main


def ceiling(*words):
    return main(["ceiling", *map(str, words)])


def test_a_file_in_onnx_has_a_row_for_each_number_of_lanes(tmp_path, capsys):
    path = write_two_ways(tmp_path)
    assert ceiling(path, "--batch-size", 1, "--lanes", "2,16") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"{path}: scheduling on 2 lanes gains at most about ")
    assert lines[1].startswith("2 operators, ")
    assert [line.split()[0] for line in lines if line[:1].isdigit()][1:] == ["2", "16"]
    assert len(lines) < 25


def test_json_has_all_of_it(tmp_path, capsys):
    path = write_two_ways(tmp_path, batch=1)
    assert ceiling(path, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["lanes"] for row in found["rows"]] == [2, 4, 8, 16]
    assert found["operators"] == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["net.onnx"], "cannot read net.onnx"),
        (["net.onnx", "--lanes", "2,x"], "--lanes has '2,x'; give whole numbers above 0"),
        (["net.onnx", "--lanes", "0"], "--lanes has '0'; give whole numbers above 0"),
        (["resnet_9000"], "no network and no file named 'resnet_9000'"),
    ],
)
def test_what_cannot_be_honoured_is_one_line_and_exit_2(words, message, capsys):
    assert ceiling(*words) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert shown.out == ""


@pytest.mark.slow
def test_the_first_line_of_tune_goes_where_messages_go(tmp_path, capsys):
    path = write_two_ways(tmp_path, batch=1)
    assert main(["tune", str(path), "--lanes", "999"]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    first, *others = shown.err.splitlines()
    assert first.startswith("tvm-ios: ceiling: scheduling on 999 lanes gains at most about")
    assert not [line for line in others if "ceiling" in line]
    assert main(["tune", str(path), "--lanes", "999", "-q"]) == 2
    assert "ceiling" not in capsys.readouterr().err
