"""What a shell is answered, asked as it asks: with the line that was typed, in the environment."""

from __future__ import annotations

import json

import pytest

from tvm_ios.cli.completion import NETWORKS
from tvm_ios.cli.main import LAB_VERBS, VERBS
from tvm_ios.models import MODEL_NAMES
from tvm_ios_lab.papers.registry import EXPERIMENTS

# Answers go to descriptor 8, and 9 is for debugging: argcomplete takes both, so that this is no
# place for the process of the tests. One process that forks for each line is enough.
PROGRAM = """
import json, os, sys
leave = os._exit
def told(status):
    os.write(8, (chr(10) + "loaded " + str("tvm" in sys.modules)).encode())
    leave(status)
os._exit = told  # before argcomplete takes it
import tvm_ios_lab.cli.bench, tvm_ios_lab.cli.experiment, tvm_ios.cli.jobs, tvm_ios.cli.tune
from tvm_ios.cli import completion
from tvm_ios.cli.main import main
asked = {
    "_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": chr(10), "_ARGCOMPLETE_SUPPRESS_SPACE": "1",
    "COMP_TYPE": "9",
}
answers = {}
for line in json.loads(sys.argv[1]):
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        os.dup2(theirs, 8)
        os.environ |= asked | {"COMP_LINE": line, "COMP_POINT": str(len(line))}
        main()
        leave(1)
    os.close(theirs)
    with os.fdopen(ours) as answer:
        answers[line] = [word.strip() for word in answer.read().split(chr(10)) if word.strip()]
    os.waitpid(child, 0)
print(json.dumps(answers))
"""
LINES = {
    "tvm-ios ": {verb.name for verb in (*VERBS, *LAB_VERBS)},
    "tvm-ios co": {"compare"},
    "tvm-ios tune squeezenet --fr": {"--fresh"},
    "tvm-ios -v tune --tuning ": {"none", "autotvm", "auto_scheduler"},
    "tvm-ios tune squeezenet --trials ": set(),
    "tvm-ios tune squeezenet --effort ": {"quick", "balanced", "thorough"},
    "tvm-ios tune ": {*NETWORKS, "net.onnx", "net.json"},
    "tvm-ios tune sq": {"squeezenet"},
    "tvm-ios demo --networks resnet": {"resnet_50", "resnet3d_18"},
    "tvm-ios bench net": {"net.onnx", "net.so", "net.json"},
    "tvm-ios tune unet --config ": {"quick.toml"},
    "tvm-ios run ": {"net.so"},
    "tvm-ios show ": {"net.so", "net.json"},
    "tvm-ios decisions ": {"export", "show"},
    "tvm-ios decisions export ": {"net.so", "net.json"},
    "tvm-ios tune squeezenet --decisions ": {"net.so", "net.json"},
    "tvm-ios jobs run ": {"quick.toml"},
    "tvm-ios jobs s": {"serve", "submit", "status"},
    "tvm-ios jobs status --js": {"--json"},
    "tvm-ios experiment ": {"list", "all", *(each.name for each in EXPERIMENTS)},
}


@pytest.mark.slow(6)
def test_what_may_follow_is_told_without_tvm(project_root, run_python, tmp_path):
    folder = tmp_path / "typed"
    folder.mkdir()
    for name in ("net.onnx", "net.so", "quick.toml", "notes.md", "net.json"):
        (folder / name).write_text("")
    program = f"import os\nos.chdir({str(folder)!r})\n" + PROGRAM
    done = run_python("-c", program, json.dumps([*LINES]), PYTHONPATH=str(project_root))
    assert done.returncode == 0, done.stderr
    answers = {line: words[:-1] for line, words in json.loads(done.stdout).items()}
    assert {line: set(words) for line, words in answers.items()} == LINES
    assert {words[-1] for words in json.loads(done.stdout).values()} == {"loaded False"}


def test_the_networks_are_those_there_are():
    assert sorted(NETWORKS) == sorted(MODEL_NAMES)


def test_the_mark_for_shells_that_complete_everything_is_there(project_root):
    for path in ("tvm_ios/cli/main.py", "tvm_ios/__main__.py"):
        assert "PYTHON_ARGCOMPLETE_OK" in (project_root / path).read_text()[:1024]
