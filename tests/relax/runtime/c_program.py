"""The example in C, built with what ``tvm-ios c-api`` prints under TVM 0.27."""

from __future__ import annotations

import shlex
import subprocess
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

from tvm_ios.cli.main import main

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "c" / "run_model.c"


def printed(*words: str) -> list[str]:
    """What a command prints, as words of a shell."""
    out = StringIO()
    with redirect_stdout(out):
        assert main(list(words)) == 0
    return shlex.split(out.getvalue())


def build(path: Path) -> Path:
    """Compile the example, without a warning."""
    words = ["cc", "-O2", "-Wall", "-Wextra", "-Werror", str(EXAMPLE), *printed("c-api")]
    done = subprocess.run([*words, "-o", str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return path


def started(program: Path, *words: Any, **others: str) -> subprocess.CompletedProcess[str]:
    """A run of a program with the variables that find oneDNN, and no variable of Python's."""
    variables = dict(each.split("=", 1) for each in printed("c-api", "--environment"))
    return subprocess.run(
        [str(program), *map(str, words)],
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", **variables, **others},
        timeout=300,
        check=False,
    )
