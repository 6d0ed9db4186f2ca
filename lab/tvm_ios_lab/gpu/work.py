"""Does one step in this process and writes down what came of it.

python -m tvm_ios_lab.gpu.work FOLDER STEP LEFT_S
"""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tvm_ios.support.whole_file import write_text
from tvm_ios_lab.gpu import compare_steps, cpu_steps, search_step, tune_step
from tvm_ios_lab.gpu.agenda import Step, Work
from tvm_ios_lab.gpu.jobs import die_with_parent
from tvm_ios_lab.gpu.ledger import Ledger, Outcome
from tvm_ios_lab.gpu.settings import Settings
from tvm_ios_lab.gpu.workplace import SkippedError, UnfinishedError, Workplace
from tvm_ios_lab.harness.ledger import Status

__all__ = ["main"]

_WORKS: Mapping[Work, Callable[[Workplace, Step], dict[str, Any]]] = {
    Work.REFERENCE: cpu_steps.reference,
    Work.BUILD: cpu_steps.build,
    Work.SEARCH: search_step.search,
    Work.LOWER: cpu_steps.lower,
    Work.TORCH: compare_steps.torch,
    Work.OUTPUTS: compare_steps.outputs,
    Work.MEASURE: compare_steps.measure,
    Work.TUNE: tune_step.tune,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Do the step; 0 whatever came of it, since that is written down."""
    folder, name, left_s = sys.argv[1:] if arguments is None else arguments
    die_with_parent()
    begin = time.monotonic()
    settings = Settings.read(Path(folder))
    place = Workplace(Path(folder), settings, begin + float(left_s))
    step = next(step for step in settings.steps if step.name == name)
    status, reason, data = _done(place, step)
    seconds = time.monotonic() - begin
    place.ledger.write(Outcome(step=name, status=status, seconds=seconds, reason=reason, data=data))
    return 0


def _done(place: Workplace, step: Step) -> tuple[Status, str, dict[str, Any]]:
    try:
        return Status.DONE, "", _WORKS[step.work](place, step)
    except SkippedError as why:
        return Status.SKIPPED, str(why), {}
    except UnfinishedError as why:
        return Status.CUT, str(why), {}
    except Exception as error:  # noqa: BLE001 - one step must not end the others
        path = Ledger(place.folder).traceback(step.name)
        write_text(path, traceback.format_exc())
        lines = str(error).strip().splitlines() or [""]
        return Status.FAILED, f"{type(error).__name__}: {lines[-1][:300]} ({path})", {}


if __name__ == "__main__":
    sys.exit(main())
