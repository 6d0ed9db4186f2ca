from __future__ import annotations

import gc
import importlib.metadata
import importlib.util
import logging
import signal
import subprocess
import sys

import pytest

from tvm_ios.cli import main as command_line
from tvm_ios.cli.main import LAB_VERBS, NEW_OBJECTS, VERBS, Verb, main
from tvm_ios.errors import OptionError

RAISES = """
def add_parser(subparsers):
    subparsers.add_parser("raises").add_argument("kind")
def run(arguments):
    raise {"ours": __import__("tvm_ios.errors").errors.OptionError("r is -1; give 0 or more"),
           "interrupt": KeyboardInterrupt()}[arguments.kind]
"""
SAYS = """
import logging, os, subprocess, sys
def add_parser(subparsers):
    actions = subparsers.add_parser("says").add_subparsers(required=True)
    actions.add_parser("inner")
def run(arguments):
    log = logging.getLogger("tvm_ios.anywhere")
    log.debug("a detail"); log.info("a reason"); log.warning("a warning"); log.error("a fault")
    print("the result")
    child = (
        "import logging; from tvm_ios.support.messages import Verbosity, shown_messages\\n"
        "with shown_messages(Verbosity.inherited()):\\n"
        "    logging.getLogger('tvm_ios').info('a child reason')"
    )
    print(subprocess.run([sys.executable, "-c", child], stderr=2, check=True).returncode)
    return 0
"""


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_every_verb_has_its_module_and_help(verb, capsys):
    assert importlib.util.find_spec(f"tvm_ios.cli.{verb.name.replace('-', '_')}") is not None
    with pytest.raises(SystemExit) as ended:
        main([verb.name, "--help"])
    assert ended.value.code == 0
    assert f"usage: tvm-ios {verb.name}" in capsys.readouterr().out


def test_only_a_process_of_its_own_looks_for_cycles_less_often():
    theirs = gc.get_threshold()
    with pytest.raises(SystemExit):
        main(["--version"])
    assert gc.get_threshold() == theirs
    script = "import atexit, gc; atexit.register(lambda: print(gc.get_threshold()))"
    script += "; from tvm_ios.cli.main import main; main()"
    command = [sys.executable, "-c", script, "--version"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert told.splitlines()[-1].startswith(f"({NEW_OBJECTS}, ")


def test_help_lists_every_verb_and_imports_none(run_python):
    program = (
        "import sys\nfrom tvm_ios.cli.main import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        "print([n for n in sys.modules if n.startswith('tvm_ios.')])\n"
    )
    done = run_python("-c", program)
    assert all(
        verb.summary.split(",")[0] in " ".join(done.stdout.split()) for verb in (*VERBS, *LAB_VERBS)
    )
    assert "['tvm_ios.cli', 'tvm_ios.errors', 'tvm_ios.cli.main']" in done.stdout


@pytest.mark.parametrize("verb", LAB_VERBS, ids=lambda verb: verb.name)
def test_verbs_of_the_lab_say_where_they_are(verb, capsys, monkeypatch):
    with pytest.raises(SystemExit) as ended:
        main([verb.name, "--help"])
    assert ended.value.code == 0
    assert f"usage: tvm-ios {verb.name}" in capsys.readouterr().out
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: ())  # as in the wheel
    assert main([verb.name, "--help"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{verb.name} is a verb of tvm-ios-lab" in line
    assert "pip install -e ./lab" in line


def test_version(run_python):
    done = run_python("-m", "tvm_ios", "--version")
    assert (done.returncode, done.stdout.split()[0]) == (0, "tvm-ios")


def test_no_verb_and_unknown_verb_are_wrong_use(run_python):
    for words in ([], ["sovle"]):
        done = run_python("-m", "tvm_ios", *words)
        assert done.returncode == 2
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["tuen", "squeezenet"], "tune"),
        (["jobs", "statsu"], "status"),
        (["tune", "squeezenet", "--tuning", "autotvn"], "autotvm"),
        (["tune", "squeezenet", "--time-budgett", "30"], "--time-budget"),
        (["grid", "run", "grid.toml", "--rety"], "--retry"),
        (["tune", "squeezenet", "--debgu=1"], "--debug"),
    ],
)
def test_of_a_mistyped_word_the_nearest_is_named(words, meant, capsys):
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert told.endswith(f"; did you mean {meant!r}?\n")
    assert told.count("\n") < 5


def test_a_name_that_is_too_long_is_one_line(capsys):
    assert main(["tune", "." * 5000]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(": File name too long; give a shorter one")


def add_verb(monkeypatch, name, source):
    module = type(sys)(f"tvm_ios.cli.{name}")
    exec(source, module.__dict__)
    monkeypatch.setitem(sys.modules, f"tvm_ios.cli.{name}", module)
    verb = Verb(name=name, summary=name)
    monkeypatch.setattr(command_line, "VERBS", (*VERBS, verb))


@pytest.fixture
def raising_verb(monkeypatch):
    add_verb(monkeypatch, "raises", RAISES)


@pytest.fixture
def saying_verb(monkeypatch):
    add_verb(monkeypatch, "says", SAYS)


@pytest.mark.usefixtures("raising_verb")
def test_an_error_of_ours_is_one_line_and_exit_2(capsys):
    assert main(["raises", "ours"]) == 2
    assert capsys.readouterr().err == "tvm-ios: error: r is -1; give 0 or more\n"


PRINTS = """
import logging, sys
def add_parser(subparsers):
    subparsers.add_parser("prints").add_argument("name")
def run(arguments):
    print("result\\t" + arguments.name)
    print(arguments.name, file=sys.stderr)
    logging.getLogger("tvm_ios").error(arguments.name)
    raise __import__("tvm_ios.errors").errors.OptionError(f"no network named {arguments.name}")
"""


def test_control_characters_reach_neither_terminal_nor_log(monkeypatch, capsys):
    add_verb(monkeypatch, "prints", PRINTS)
    name = "\x1b[2J\x9b\x07\r\u202e"
    assert main(["prints", name]) == 2
    shown = capsys.readouterr()
    told = r"\x1b[2J\x9b\x07\r\u202e"
    assert shown.out == f"result\t{told}\n"
    assert shown.err.splitlines() == [
        told,
        f"tvm-ios: {told}",
        f"tvm-ios: error: no network named {told}",
    ]
    with pytest.raises(SystemExit):
        main(["prints", "a", name])
    assert f"unrecognized arguments: {told}" in capsys.readouterr().err


@pytest.mark.usefixtures("raising_verb")
@pytest.mark.parametrize("words", [["--debug", "raises", "ours"], ["raises", "ours", "--debug"]])
def test_debug_lets_the_traceback_through(words):
    with pytest.raises(OptionError):
        main(words)


USUAL = ["a warning", "a fault"]


@pytest.mark.usefixtures("saying_verb")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["says", "inner"], USUAL),
        (["says", "--quiet", "inner"], ["a fault"]),
        (["-q", "says", "inner"], ["a fault"]),
        (["says", "inner", "-v"], ["a reason", *USUAL, "a child reason"]),
        (["--verbose", "says", "inner"], ["a reason", *USUAL, "a child reason"]),
    ],
)
def test_what_is_said_besides_results_is_chosen_in_one_place(words, said, capfd):
    assert main(words) == 0
    shown = capfd.readouterr()
    assert shown.out == "the result\n0\n"
    assert shown.err.splitlines() == [f"tvm-ios: {line}" for line in said]
    logging.getLogger("tvm_ios.anywhere").error("after it, the library is as silent as before")
    assert "tvm-ios: after it" not in capfd.readouterr().err


@pytest.mark.usefixtures("saying_verb")
def test_twice_verbose_is_everything_with_times_and_places(capfd):
    assert main(["says", "inner", "-vv"]) == 0
    lines = capfd.readouterr().err.splitlines()
    assert [line.rpartition(": ")[2] for line in lines] == [
        "a detail",
        "a reason",
        *USUAL,
        "a child reason",
    ]
    assert all("tvm_ios.anywhere: " in line for line in lines[:-1])


@pytest.mark.usefixtures("saying_verb")
def test_less_and_more_together_are_one_line(capsys):
    assert main(["-q", "says", "inner", "-v"]) == 2
    assert capsys.readouterr().err == (
        "tvm-ios: error: --quiet and --verbose are given; give one of them\n"
    )


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_every_verb_has_the_common_options(verb):
    parser = command_line._parser(verb.name)
    for one in parsers_of(parser):
        assert {"--debug", "--quiet", "--verbose"} <= set(one._option_string_actions), one.prog


def parsers_of(parser):
    """A parser and those of its verbs that were loaded."""
    yield parser
    for action in parser._actions:
        for each in (action.choices or {}).values() if action.nargs == "A..." else ():
            if len(each._actions) > 1:
                yield from parsers_of(each)


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
        "m.VERBS = (m.Verb(name='much', summary='much'),)\n"
        "sys.exit(m.main(['much']))\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        assert child.stdout.readline() == b"line\n"
        child.stdout.close()
        assert child.stderr.read() == b""
        assert child.wait() == 128 + signal.SIGPIPE
