from __future__ import annotations

import importlib.util
import signal
import subprocess
import sys

import pytest

from tvm_ios.cli import main as command_line
from tvm_ios.cli.main import VERBS, Verb, main
from tvm_ios.errors import OptionError

RAISES = """
def add_parser(subparsers):
    subparsers.add_parser("raises").add_argument("kind")
def run(arguments):
    raise {"ours": __import__("tvm_ios.errors").errors.OptionError("r is -1; give 0 or more"),
           "interrupt": KeyboardInterrupt()}[arguments.kind]
"""


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_every_verb_has_its_module_and_help(verb, capsys):
    assert importlib.util.find_spec(f"tvm_ios.cli.{verb.module}") is not None
    with pytest.raises(SystemExit) as ended:
        main([verb.name, "--help"])
    assert ended.value.code == 0
    assert f"usage: tvm-ios {verb.name}" in capsys.readouterr().out


def test_help_lists_every_verb_and_imports_none(run_python):
    program = (
        "import sys\nfrom tvm_ios.cli.main import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        "print([n for n in sys.modules if n.startswith('tvm_ios.')])\n"
    )
    done = run_python("-c", program)
    assert all(verb.summary.split(",")[0] in " ".join(done.stdout.split()) for verb in VERBS)
    assert "['tvm_ios.cli', 'tvm_ios.errors', 'tvm_ios.cli.main']" in done.stdout


def test_version(run_python):
    done = run_python("-m", "tvm_ios", "--version")
    assert (done.returncode, done.stdout.split()[0]) == (0, "tvm-ios")


def test_no_verb_and_unknown_verb_are_wrong_use(run_python):
    for words in ([], ["sovle"]):
        done = run_python("-m", "tvm_ios", *words)
        assert done.returncode == 2
        assert "Traceback" not in done.stderr


@pytest.fixture
def raising_verb(monkeypatch):
    module = type(sys)("tvm_ios.cli.raises")
    exec(RAISES, module.__dict__)
    monkeypatch.setitem(sys.modules, "tvm_ios.cli.raises", module)
    verb = Verb(name="raises", module="raises", summary="raise")
    monkeypatch.setattr(command_line, "VERBS", (*VERBS, verb))


@pytest.mark.usefixtures("raising_verb")
def test_an_error_of_ours_is_one_line_and_exit_2(capsys):
    assert main(["raises", "ours"]) == 2
    assert capsys.readouterr().err == "tvm-ios: error: r is -1; give 0 or more\n"


@pytest.mark.usefixtures("raising_verb")
@pytest.mark.parametrize("words", [["--debug", "raises", "ours"], ["raises", "ours", "--debug"]])
def test_debug_lets_the_traceback_through(words):
    with pytest.raises(OptionError):
        main(words)


@pytest.mark.usefixtures("raising_verb")
def test_interrupt_is_exit_130(capsys):
    assert main(["raises", "interrupt"]) == 130
    assert capsys.readouterr().err == "tvm-ios: interrupted\n"


def test_a_reader_that_goes_away_is_no_error():
    program = (
        "import sys; from tvm_ios.cli import main as m; import types\n"
        "v = types.ModuleType('tvm_ios.cli.much')\n"
        "v.add_parser = lambda s: s.add_parser('much')\n"
        "v.run = lambda a: print('line\\n' * 100000) or 0\n"
        "sys.modules['tvm_ios.cli.much'] = v\n"
        "m.VERBS = (m.Verb(name='much', module='much', summary='much'),)\n"
        "sys.exit(m.main(['much']))\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        assert child.stdout.readline() == b"line\n"
        child.stdout.close()
        assert child.stderr.read() == b""
        assert child.wait() == 128 + signal.SIGPIPE
