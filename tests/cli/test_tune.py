"""The verb that tunes a model: refusals before any work, flags over files, and whole runs."""

from __future__ import annotations

import argparse
import json
import re
import sys

import numpy as np
import onnx
import pytest
import tvm

import tvm_ios
from tests.onnx.cut_models import ENDS
from tests.onnx_models import write_two_ways
from tvm_ios import Conversion, Precision
from tvm_ios.cli import tune as verb
from tvm_ios.cli.main import main
from tvm_ios.driver.config import TuneConfig
from tvm_ios.driver.options import DEFAULTS
from tvm_ios.errors import OptionError
from tvm_ios.host import default_lanes
from tvm_ios.report.html.templates import templates

TARGET = "llvm -opt-level=0"  # LLVM need not optimise what runs a few times


def tune(*words):
    return main(["tune", *map(str, words)])


def parsed(*words):
    parser = argparse.ArgumentParser()
    verb.add_parser(parser.add_subparsers())
    return verb._config(parser.parse_args(["tune", "squeezenet", *map(str, words)]))


def test_flags_alone_are_a_configuration():
    assert parsed() == TuneConfig()
    config = parsed("--tuning", "autotvm", "--trials", 5, "--timeout", 3, "--tuner", "gridsearch")
    assert config.tuning == "autotvm"
    kernels = config.options.kernels
    assert kernels.trials == 5
    assert kernels.timeout_s == kernels.build_timeout_s == 3
    assert kernels.tuner == "grid"


def test_flags_go_over_the_file_and_the_file_over_the_effort(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("effort = 'thorough'\n[build]\ntf32 = true\n[tuning]\ntrials = 7\n")
    thorough = parsed("--config", path)
    assert (thorough.tuning, thorough.options.kernels.repeat) == ("autotvm", 5)
    quick = parsed("--config", path, "--effort", "quick", "--libraries", "none")
    assert quick.tuning is None
    assert (quick.options.build.tf32, quick.options.build.race_forms) == (True, False)
    assert quick.options.build.libraries == ()
    assert parsed("--effort", "thorough", "--trials", 9).options.kernels.trials == 9
    assert parsed("--effort", "thorough", "--tuning", "none").arguments()["options"].kernels == (
        DEFAULTS.kernels
    )
    assert parsed("--effort", "quick", "--race-forms").options.build.race_forms


def test_flags_go_over_the_file(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(
        "time_budget = 5\n[search]\nmax_group_size = 2\n[build]\npad_channels = false\n"
        "[tuning]\nbackend = 'autotvm'\ntrials = 7\nrepeat = 2\n"
    )
    kept = parsed("--config", path)
    assert (kept.tuning, kept.options.kernels.trials, kept.options.search.max_group_size) == (
        "autotvm",
        7,
        2,
    )
    over = parsed("--config", path, "--trials", 9, "--time-budget", 6, "--max-num-groups", 4)
    assert (over.options.kernels.trials, over.options.kernels.repeat) == (9, 2)
    assert (over.time_budget, over.options.search.max_group_size) == (6, 2)
    assert over.options.search.max_num_groups == 4
    assert not over.options.build.pad_channels
    assert parsed("--config", path, "--pad-channels").options.build.pad_channels
    assert not parsed("--no-pad-channels").options.build.pad_channels
    assert parsed("--config", path, "--tuning", "none").tuning is None


def test_layout_and_types_are_flags_and_keys_as_in_tvmc(tmp_path):
    assert parsed().options.conversion == Conversion()
    given = parsed("--desired-layout", "NHWC", "--mixed-precision").options.conversion
    assert given == Conversion(desired_layout="NHWC", mixed_precision=True)
    assert given.mixed_precision_acc_type == "float32"
    path = tmp_path / "half.toml"
    path.write_text('[conversion]\ndesired_layout = "NCHW"\nmixed_precision = true\n')
    words = ("--config", path, "--mixed-precision-acc-type", "float16")
    assert parsed(*words).options.conversion == Conversion(
        desired_layout="NCHW", mixed_precision=True, mixed_precision_acc_type="float16"
    )
    with pytest.raises(SystemExit):
        parsed("--desired-layout", "CHWN")


def test_precision_is_a_flag_and_a_table(tmp_path):
    path = tmp_path / "low.toml"
    path.write_text('[precision]\ndtype = "bfloat16"\nmax_relative_error = 0.01\n')
    assert parsed().options.precision == Precision()
    low = Precision(dtype="bfloat16", max_relative_error=0.01)
    assert parsed("--config", path).options.precision == low
    flags = ("--precision", "bfloat16", "--max-relative-error", 0.01)
    assert parsed(*flags).options.precision == low
    assert not parsed("--config", path, "--precision", "float32").options.precision.is_low
    with pytest.raises(OptionError, match="max_relative_error is 0.2, but everything is"):
        parsed("--max-relative-error", 0.2)
    with pytest.raises(OptionError, match="precision is 'bfloat16', but exact=True"):
        parsed("--config", path, "--exact")


def test_inputs_that_cannot_be_read_end_the_call_at_once(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert tune("squeezenet", "--precision", "bfloat16", "--inputs", "no.npz") == 2
    assert "cannot read the inputs no.npz" in capsys.readouterr().err


def test_operator_libraries_are_a_flag_and_a_key(tmp_path):
    path = tmp_path / "gpu.toml"
    path.write_text('[build]\nlibraries = ["cudnn"]\ntf32 = true\n')
    assert parsed().options.build.libraries is None
    assert parsed("--libraries", "onednn,cudnn").options.build.libraries == ("onednn", "cudnn")
    assert parsed("--libraries", "none").options.build.libraries == ()
    build = parsed("--config", path, "--no-tf32").options.build
    assert (build.libraries, build.tf32) == (("cudnn",), False)
    assert parsed("--config", path, "--libraries", "onednn").options.build.libraries == ("onednn",)


@pytest.mark.parametrize(
    ("section", "key", "usual", "other", "flag", "back"),
    [
        ("build", "exact", False, True, ["--exact"], ["--no-exact"]),
        ("search", "list_only", False, True, ["--list-only"], ["--no-list-only"]),
        ("search", "memory_limit_mb", None, 8.0, ["--memory-limit-mb", "8"], None),
        ("measure", "wait_quiet_s", 0, 5, ["--wait-quiet", "5"], ["--wait-quiet", "0"]),
        ("database", "fresh", False, True, ["--fresh"], None),
        (
            *("search", "pad_merged_kernels", True, False),
            *(["--no-pad-merged-kernels"], ["--pad-merged-kernels"]),
        ),
    ],
)
def test_an_option_is_a_flag_and_a_key(section, key, usual, other, flag, back, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(f"[{section}]\n{key} = {json.dumps(other)}\n")

    def value(*words):
        return getattr(getattr(parsed(*words).options, section), key)

    assert value() == usual
    assert value(*flag) == value("--config", path) == other
    assert back is None or value("--config", path, *back) == usual


@pytest.mark.parametrize(
    ("text", "words", "message"),
    [
        ("[build]\nexact = true\n", ["--libraries", "onednn"], "exact is True, but libraries="),
        ("", ["--libraries", "mkl"], "libraries has 'mkl'; there are cudnn and onednn"),
        ("", ["--wait-quiet", "-1"], r"wait_quiet_s is -1.0; give seconds, 0 for no waiting"),
        ("[database]\nfresh = 'yes'\n", [], "fresh is 'yes'; give true or false"),
    ],
)
def test_a_value_that_no_option_has_is_named(text, words, message, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(OptionError, match=message):
        parsed("--config", path, *words)


def test_deadlines_stand_on_the_command_line_or_in_a_table(tmp_path, capsys):
    path = tmp_path / "mine.toml"
    path.write_text("[search.deadlines_ms]\na = 5\n")
    assert parsed("--config", path).options.search.deadlines_ms == {"a": 5}
    path.write_text("[search]\ndeadlines_ms = 5\n")
    with pytest.raises(OptionError, match="deadlines_ms is 5; make it a table"):
        parsed("--config", path)
    path.write_text("[search.deadlines_ms]\na = 5\n")
    given = parsed("--config", path, "--deadline", "a=2.5", "--deadline", "b=7")
    assert given.options.search.deadlines_ms == {"a": 2.5, "b": 7.0}
    with pytest.raises(SystemExit):
        main(["tune", "net.onnx", "--deadline", "a"])
    assert "'a' is no part and its milliseconds; give them as in" in capsys.readouterr().err


def test_help_tells_the_defaults_of_the_options(capsys):
    with pytest.raises(SystemExit):
        main(["tune", "--help"])
    told = " ".join(capsys.readouterr().out.split())
    for flag, default in (
        ("the paper's r; 0 means no limit", DEFAULTS.search.max_group_size),
        ("the paper's s; 0 means no limit", DEFAULTS.search.max_num_groups),
        ("padded to whole vectors", "yes"),
        ("or none", "what is installed"),
        ("may round float32 to TF32", "no"),
        ("what they sum up in", "float32"),
    ):
        assert f"{flag} (default: {default})" in told


def test_names_of_tvmc_and_short_ones_are_the_same():
    words = ["--tuning", "autotvm", "--rpc-tracker", "localhost:9190"]
    assert parsed(*words, "--rpc-key", "cpu") == parsed(*words, "--key", "cpu")


@pytest.mark.slow(1)
def test_open_dimensions_are_told_before_tvm_is_loaded(tmp_path, run_python, project_root):
    path = write_two_ways(tmp_path)
    code = (
        "import sys; from tvm_ios.cli.main import main; "
        f"status = main(['tune', {str(path)!r}, '--input-shapes', 'y:[1]']); "
        "print(status, 'tvm' in sys.modules)"
    )
    done = run_python("-c", code, PYTHONPATH=str(project_root))
    assert done.stdout == "2 False\n"
    assert "two.ways.onnx has no input 'y'; its inputs are x:[batch,8,6,6]" in done.stderr


@pytest.mark.slow
def test_an_onnx_file_is_tuned_into_a_library(tmp_path, monkeypatch, capsys):
    path, output = write_two_ways(tmp_path), tmp_path / "out.so"
    words = ["--database", tmp_path / "p.sqlite", "--target", TARGET, "--lanes", 1]
    words += ["--effort", "quick"]
    assert tune(path, "--batch-size", 2, "--output", output, *words) == 0
    assert f"wrote {output}" in capsys.readouterr().out
    with tvm_ios.load(output) as executor:
        executor.run(x=np.zeros((2, 8, 6, 6), "float32"))
        assert executor.get_output(0).shape == (2, 24, 6, 6)


@pytest.mark.slow(3)
def test_several_files_become_one_with_named_parts(tmp_path, fresh_cache, monkeypatch, capsys):
    monkeypatch.delenv("TVM_IOS_KEPT_MIB")
    path, output = write_two_ways(tmp_path), tmp_path / "out.so"
    words = ["--database", tmp_path / "p.sqlite", "--target", TARGET, "--lanes", 1, "-o", output]
    words += ["--share", "x", "--batch-size", 1, "--effort", "quick"]
    assert tune(path, f"again={path}", *words) == 0
    assert main(["show", str(output)]) == 0
    assert "part again: reads x; gives again" in capsys.readouterr().out
    assert main(["run", str(output), "--parts", "again", "-o", str(tmp_path / "y.npz")]) == 0
    assert np.load(tmp_path / "y.npz").files == ["again"]
    with tvm_ios.load(output) as executor:
        executor.run(x=np.ones((1, 8, 6, 6), "float32"))
        one, again = (executor.get_output(number).numpy() for number in range(2))
        np.testing.assert_array_equal(one, again)
    capsys.readouterr()
    assert tune(path, f"again={path}", *words) == 0
    assert "kept from an equal call" in capsys.readouterr().out


@pytest.mark.slow(6)
def test_several_shapes_become_one_file(tmp_path, fresh_cache, monkeypatch, capsys):
    monkeypatch.delenv("TVM_IOS_KEPT_MIB")
    path, output, page = write_two_ways(tmp_path), tmp_path / "out.so", tmp_path / "out.html"
    words = ["--database", tmp_path / "p.sqlite", "--target", TARGET, "--lanes", 1, "-o", output]
    words += ["--input-shapes", "x:[1,8,6,6]", "--input-shapes", "x:[2,8,6,6]"]
    words += ["--effort", "quick", "-v", "--report", page]
    assert tune(path, *words) == 0
    first = capsys.readouterr().out
    for each in ("x:[1,8,6,6]", "x:[2,8,6,6]"):
        assert first.count(f"\n{each} ") == 1  # its row
        assert first.count(f"\n{each}\n") == 2  # its report, its schedule
    pages = [page, tmp_path / "out_x_2_8_6_6.html"]
    assert all(each.is_file() and f"wrote {each}" in first for each in pages)
    assert main(["show", str(output)]) == 0
    assert capsys.readouterr().out.count("\nkept ") == 2
    assert main(["run", str(output)]) == 0
    assert capsys.readouterr().out.startswith("x:[1,8,6,6]: time of a run")
    assert main(["run", str(output), "--input-shapes", "x:[2,8,6,6]", "--profile", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["shape"], told["outputs"]["output_0"]["shape"]) == ("x:[2,8,6,6]", [2, 24, 6, 6])
    np.savez(tmp_path / "in.npz", x=np.ones((2, 8, 6, 6), "float32"))
    assert main(["run", str(output), "-i", str(tmp_path / "in.npz"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["shape"] == "x:[2,8,6,6]"
    assert main(["run", str(output), "--input-shapes", "x:[3,8,6,6]"]) == 2
    assert "it has x:[1,8,6,6] or x:[2,8,6,6]" in capsys.readouterr().err
    assert tune(path, *words) == 0
    assert f"its report:\n{first}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["a=squeezenet"], "names of parts and --share are for several models"),
        (["squeezenet", "--share", "data"], "names of parts and --share are for several models"),
        (["a=squeezenet", "a=squeezenet"], "two parts are named 'a'"),
        (["a.json", "b.json", "--params", "c.npz"], "--params is for a single Relay file"),
        (
            ["a.onnx", "b.onnx", *["--input-shapes", "x:[1]"] * 2],
            "--input-shapes is given 2 times, which is for a single model",
        ),
    ],
)
def test_what_does_not_fit_several_models_is_one_line(words, told, capsys):
    assert tune(*words) == 2
    assert told in capsys.readouterr().err


@pytest.mark.slow
def test_what_onnxruntime_runs_is_told(tmp_path, capsys):
    path, output, page = tmp_path / "net.onnx", tmp_path / "out.so", tmp_path / "page.html"
    onnx.save(ENDS["places"], path)
    words = ["--database", tmp_path / "p.sqlite", "--target", TARGET, "--lanes", 1]
    assert tune(path, "--output", output, "--report", page, *words) == 0
    told = r"1 of 3 nodes are run by onnxruntime .*, since node 'places' .*; times are of the other"
    assert re.search(told, capsys.readouterr().out)
    assert "are run by onnxruntime" in page.read_text()
    assert main(["show", str(output)]) == 0
    assert len(re.findall(told, capsys.readouterr().out)) == 1
    assert main(["run", str(output), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["outputs"]["output_0"]["dtype"] == "int64"
    assert tune(path, "--rest", "refuse", *words) == 2
    assert "node 'places' (NonZero) gives a result" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["resnet_9000"], "no network and no file named 'resnet_9000'"),
        (["squeezenet", "--params", "p.npz"], "squeezenet has weights of its own"),
        (["net.relay"], "cannot read net.relay"),
        (["net.onnx"], "cannot read net.onnx"),
        (["net.onnx", "--params", "p.npz"], "net.onnx holds its own parameters; leave out p.npz"),
        (["net.onnx", "--input-shapes", "x"], "--input-shapes has 'x'; give such as"),
        (["net.onnx", "--batch-size", "0"], "batch_size is 0"),
        (["net.json", "--batch-size", "2"], "net.json has shapes of its own; leave out --input-"),
        (
            ["squeezenet", "--effort", "quick", "--trials", "3"],
            "--trials given, but no kernels are",
        ),
        (["squeezenet", "--effort", "quick", "--max-num-groups", "3"], "max_num_groups given, but"),
        (["squeezenet", "--trials", "3"], "--trials given, but no kernels are tuned"),
        (["squeezenet", "--tuning", "auto_scheduler", "--tuner", "grid"], "--tuner is for AutoTVM"),
        (["squeezenet", "--tuning", "autotvm", "--trials", "0"], "trials is 0"),
        (["squeezenet", "--tuning", "autotvm", "--rpc-tracker", "h:1"], "rpc_key None; give both"),
        (["squeezenet", "--config", "no.toml"], "cannot read the configuration no.toml"),
        (["squeezenet", "--time-budget", "-1"], "time_budget is -1"),
        (["squeezenet", "--max-group-size", "-1"], "max_group_size is -1"),
        (["squeezenet", "--output", "no/folder/out.so"], "cannot write no/folder/out.so"),
        (["squeezenet", "--output", "."], "cannot write ."),
        (["squeezenet", "--report", "no/out.html"], "cannot write no/out.html: give --report a"),
        (["squeezenet", "--lanes", default_lanes() + 1], f"lanes is {default_lanes() + 1}"),
        (["squeezenet", "--records", "no.log"], "there are no tuning records at no.log"),
    ],
)
def test_what_cannot_be_honoured_is_one_line_and_exit_2(
    words, message, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert tune(*words) == 2
    shown = capsys.readouterr()
    (line,) = [line for line in shown.err.splitlines() if line.startswith("tvm-ios: error: ")]
    assert message in line
    assert shown.out == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [[], ["--target", "cuda"]])
def test_lanes_that_nobody_named_are_those_of_the_device(words, tmp_path, monkeypatch, capsys):
    given = {}

    def found_out(mod, params, target, **options):
        given.update(options)
        raise OptionError("that is all")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys.modules["tvm_ios.driver.tune"], "tune", found_out)
    assert tune("nasnet_small", *words) == 2
    assert "that is all" in capsys.readouterr().err
    assert given["lanes"] is None


def test_a_missing_jinja_is_told_before_anything_is_tuned(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    templates.cache_clear()
    assert tune("squeezenet", "--report", "out.html") == 2
    shown = capsys.readouterr()
    assert "pip install 'jinja2>=3.1'" in shown.err
    assert shown.out == ""
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_back_end_is_wrong_use(capsys):
    with pytest.raises(SystemExit) as ended:
        tune("squeezenet", "--tuning", "metaschedule")
    assert ended.value.code == 2
    assert "none" in capsys.readouterr().err


@pytest.mark.slow
def test_a_model_is_tuned_into_a_file_and_not_again(model, tmp_path, capsys):
    """Kernels, a log in TVM's format, the report; the second call finds all in the log."""
    log, output = tmp_path / "net.log", tmp_path / "net.so"
    words = [model, "--params", tmp_path / "net.params", "--target", TARGET, "--output", output]
    words += ["--lanes", 1]  # two would wait for each other beside other tests
    # Enough for all candidates on a busy machine: what is cut would be measured by the next call.
    words += ["--database", tmp_path / "p.sqlite", "--time-budget", 60]
    words += ["--tuning", "autotvm", "--records", log, "--trials", 1, "--number", 1, "--repeat", 1]
    words += ["--min-repeat-ms", 0, "--libraries", "none", "-v"]
    page = tmp_path / "net.html"
    assert tune(*words, "--report", page) == 0
    shown = capsys.readouterr()
    assert f"wrote {page}" in shown.out
    text = page.read_text()
    assert "<title>net · tvm-ios</title>" in text
    # With one candidate a task there is a curve, and it falls nowhere.
    for section in ("contestants", "schedule", "stages", "lanes", "tuning", "words", "machine"):
        assert f'<section id="{section}">' in text
    assert "GFLOPS" in shown.out
    assert "stage 0 " in shown.out
    assert f"wrote {output}" in shown.out
    assert "] tune" in shown.err
    records = log.read_text()
    assert [line for _, line in tvm.autotvm.record.load_from_file(str(log))]
    with tvm_ios.load(output) as executor:
        executor.run(data=np.zeros((1, 16, 8, 8), "float32"))
        assert executor.get_output(0).shape == (1, 32)
    assert tune(*words) == 0
    assert "autotvm: 0 candidates" in capsys.readouterr().out
    assert log.read_text() == records
    # The records alone, without tuning.
    assert tune(*words[:13], "--libraries", "none", "-v", "--records", log) == 0
    assert "tuned kernels" in capsys.readouterr().out


@pytest.mark.slow
def test_without_kernel_tuning_the_output_is_named_after_the_model(
    model, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    words = [model, "--params", "net.params", "--database", "p.sqlite", "--time-budget", 5]
    words += ["--lanes", 1]
    assert tune(*words) == 0
    shown = capsys.readouterr()
    assert "wrote net.so" in shown.out
    lines = shown.out.splitlines()
    assert len(lines) < 25
    assert lines[0].startswith("kept ")
    assert lines[-1].startswith("next: tvm-ios run net.so, or tvm-ios show net.so")
    assert "stage 0 " not in shown.out
    assert (tmp_path / "net.so").exists()


@pytest.mark.slow
def test_a_model_with_truth_values_is_tuned_into_a_file(masked, tmp_path, capsys):
    mod, params = masked
    model, weights, output = tmp_path / "m.json", tmp_path / "m.params", tmp_path / "m.so"
    model.write_text(tvm.ir.save_json(mod))
    weights.write_bytes(tvm.runtime.save_param_dict(params))
    words = [model, "--params", weights, "--target", TARGET, "--output", output, "--lanes", 1]
    assert tune(*words, "--database", tmp_path / "p.sqlite", "--time-budget", 5) == 0
    assert f"wrote {output}" in capsys.readouterr().out
    mask = np.zeros((1, 16, 8, 8), bool)
    mask[:, :4] = True
    with tvm_ios.load(output) as executor:
        executor.run(data=np.zeros((1, 16, 8, 8), "float32"), mask=mask)
        np.testing.assert_array_equal(executor.get_output(2).numpy(), mask)


@pytest.mark.slow
def test_a_second_call_prints_the_same_and_that_it_is_kept(
    model, tmp_path, fresh_cache, monkeypatch, capsys
):
    monkeypatch.delenv("TVM_IOS_KEPT_MIB")
    output, page = tmp_path / "net.so", tmp_path / "net.html"
    words = [model, "--params", tmp_path / "net.params", "--target", TARGET, "--output", output]
    words += ["--lanes", 1, "--effort", "quick", "-v", "--report", page]
    assert tune(*words) == 0
    first, told = capsys.readouterr().out.splitlines(), page.read_text()
    for path in (output, page):
        path.unlink()
    assert tune(*words) == 0
    again = capsys.readouterr().out.splitlines()
    (kept,) = (line for line in again if line.startswith("kept from an equal call of 2"))
    again.remove(kept)
    assert again == first
    assert page.read_text() == told
    with tvm_ios.load(output) as executor:
        assert executor.get_num_outputs() == 1
    assert tune(*words, "--fresh") == 0
    assert "kept from" not in capsys.readouterr().out
    newest = max((fresh_cache / "kept").glob("*.so"), key=lambda path: path.stat().st_mtime)
    newest.write_bytes(newest.read_bytes()[:-1])
    assert tune(*words) == 0
    shown = capsys.readouterr()
    assert "a kept result is damaged, and made anew" in shown.err
    assert "kept from" not in shown.out
    assert tune(*words) == 0
    assert "kept from" in capsys.readouterr().out
