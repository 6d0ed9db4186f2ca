"""Times of cold calls of ``tvm-ios tune``: its first model, its end, and how fast the first one is.

``python -m tvm_ios_lab.scripts.first_models NETWORK… [--rounds 3] [-- OPTIONS]`` runs each call as
a process of the command line with an empty cache, so that the C code of tvm-ios is compiled, too.
Seconds of the first model are those that the call tells, those of the end the shell's; both begin
with the process. Then the first file and the last one race. What was found goes to
``lab/results/tune_time/first_models.json``, networks of earlier runs included.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

from tvm_ios.cli.measuring import prepare_process
from tvm_ios.driver.races.compiled_race import lanes_of_files, race_files
from tvm_ios.measure.compare import CompareOptions
from tvm_ios_lab.measurement import Measurement, program_command
from tvm_ios_lab.places import RESULTS, ROOT

OUTPUT = RESULTS / "tune_time" / "first_models.json"
TOLD = re.compile(r"after ([0-9.]+) s: a first model in")


def main() -> None:
    """Time, race, print, and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="+")
    parser.add_argument("--rounds", type=int, default=1)
    own, _, options = " ".join(sys.argv[1:]).partition(" -- ")
    arguments = parser.parse_args(own.split())
    known = json.loads(OUTPUT.read_text("utf-8")) if OUTPUT.exists() else {}
    for network in arguments.networks:
        calls = [_cold_call(network, options.split()) for _ in range(arguments.rounds)]
        print(
            f"{network}: first model after {median(each['first_s'] for each in calls):.1f} s, "
            f"finished after {median(each['finished_s'] for each in calls):.1f} s; the first one "
            f"is {median(each['first_speed'] for each in calls):.3f} times as fast as the finished",
            flush=True,
        )
        origin = Measurement.here(program_command("tvm_ios_lab.scripts.first_models")).origin()
        known[" ".join((network, options)).strip()] = {**origin, "calls": calls}
        OUTPUT.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")


def _cold_call(network: str, options: list[str]) -> dict[str, Any]:
    """Seconds of one cold call, and the speed of its first model over that of its last one."""
    with tempfile.TemporaryDirectory() as folder:
        last, first = Path(folder, "last.so"), Path(folder, "first.so")
        begin_s = time.monotonic()
        call = subprocess.Popen(
            [Path(sys.executable).with_name("tvm-ios"), "tune", network, "-o", last, *options],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            cwd=folder,
            env=os.environ | {"PYTHONPATH": str(ROOT), "TVM_IOS_CACHE_DIR": f"{folder}/cache"},
        )
        first_s, lines = None, []
        assert call.stderr is not None, "it is a pipe"
        for line in call.stderr:
            lines.append(line)
            found = TOLD.search(line)
            if found:
                first_s = float(found[1])
                with suppress(OSError):  # a better one takes its place by a rename
                    first.hardlink_to(last)
        if call.wait():
            raise SystemExit("".join(lines))
        finished_s = time.monotonic() - begin_s
        if first_s is None:
            raise SystemExit(f"tune {network} told of no first model:\n{''.join(lines)}")
        files = {"first": first, "finished": last}
        prepare_process(lanes_of_files(files))
        speedup = race_files(files, CompareOptions()).speedup("first", over="finished")
    return {
        "first_s": first_s,
        "finished_s": round(finished_s, 2),
        "first_speed": speedup.ratio,
        "first_speed_interval": [speedup.low, speedup.high],
    }


if __name__ == "__main__":
    main()
