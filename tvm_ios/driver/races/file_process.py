"""A compiled file in a process of its own, whose TVM is the one that the file is of.

One process has one TVM, so files of two of them race in two processes, by turns: one line of JSON
on standard input is a request, one on standard output its answer.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from tvm_ios.errors import ExecutionError, TvmIosError
from tvm_ios.host.relax_tvm import is_relax_version
from tvm_ios.install.finder import CHOICE_VARIABLE
from tvm_ios.runtime.artifact.footer import read_footer

__all__ = ["FileProcess", "is_of_relax"]

ASLEEP_NS = 1_000_000
"""Nanoseconds since the last run after which caches are another's, and lanes sleep."""
WARM_UP_NS = 5_000_000
"""Least length of the runs that wake them, and do not count."""


def is_of_relax(path: Path) -> bool:
    """True if the kernels of a compiled file are those of a TVM with Relax."""
    return is_relax_version(read_footer(path).identity.tvm_version)


class FileProcess:
    """A compiled file that is loaded, with made-up inputs; ends with this process at the latest.

    Raises
    ------
    ExecutionError
        If the file cannot be loaded or run; the message is that of its process.
    """

    def __init__(self, path: Path, *, lanes: int | None, any_processor_model: bool) -> None:
        self._path = path
        self._waited_ns: int | None = None
        identity = read_footer(path).identity
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tvm_ios.driver.races.file_process",
                str(path),
                json.dumps([lanes, any_processor_model]),
            ],
            env=os.environ
            | {
                CHOICE_VARIABLE: "path" if is_of_relax(path) else "auto",
                "TVM_NUM_THREADS": str(lanes or identity.lanes),
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._answer()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def time_ns(self, number: int) -> int:
        """Nanoseconds of back-to-back runs."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended; why is told where the answer is read
            print(number, file=self._process.stdin, flush=True)
        answer = self._answer()
        self._waited_ns = answer["waited_ns"]
        return int(answer["ns"])

    def waited_ns(self) -> int | None:
        """Nanoseconds that lanes waited for a core while timed; None where nobody counts them."""
        return self._waited_ns

    def close(self) -> None:
        """End the process; may be called twice."""
        self._process.kill()
        self._process.communicate()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        answer: dict[str, Any] = json.loads(line) if line else {}
        failed = answer.get("failed", "" if line else f"its process ended: {self._process.wait()}")
        if failed:
            self.close()
            told = failed.removeprefix(f"{self._path}: ")  # errors of files begin with it
            raise ExecutionError(f"{self._path}: {told}")
        return answer


def _serve(path: Path, lanes: int | None, *, any_processor_model: bool) -> None:
    from tvm_ios.driver.run_inputs import run_inputs  # noqa: PLC0415 - TVM comes in here
    from tvm_ios.runtime.artifact.artifact import load  # noqa: PLC0415

    with load(path, lanes=lanes, any_processor_model=any_processor_model) as executor:
        executor.run(**run_inputs(executor.plan, executor.input_names, None))
        _say({})
        last_ns = time.perf_counter_ns()
        for line in sys.stdin:
            if time.perf_counter_ns() - last_ns > ASLEEP_NS:
                end_ns = time.perf_counter_ns() + WARM_UP_NS
                while time.perf_counter_ns() < end_ns:
                    executor.time_ns(1)
            found_ns = executor.time_ns(int(line))
            _say({"ns": found_ns, "waited_ns": executor.waited_ns()})
            last_ns = time.perf_counter_ns()


def _say(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    try:
        given_lanes, any_model = json.loads(sys.argv[2])
        _serve(Path(sys.argv[1]), given_lanes, any_processor_model=any_model)
    except TvmIosError as error:
        _say({"failed": str(error)})
