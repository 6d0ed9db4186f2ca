"""A cell in a process of its own: ``python -m tvm_ios.experiments.grid.cell_process ORDER PARENT``.

So nothing that one cell loads, caches or breaks is there for the next. What is found out lies in
the order's folder afterwards: ``report.json`` and ``job.json``, or ``error.txt`` with the reason.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from tvm_ios.driver.config import TuneConfig
from tvm_ios.driver.input_shapes import InputShapes
from tvm_ios.errors import TvmIosError
from tvm_ios.experiments.grid.cell_result import JobFacts
from tvm_ios.host.processor import default_lanes
from tvm_ios.support.json_nouns import to_json
from tvm_ios.support.messages import Verbosity, shown_messages
from tvm_ios.support.stage_gate import OpenGate, gated_by
from tvm_ios.support.timed_gate import TimedGate
from tvm_ios.support.whole_file import write_text

__all__ = ["ERROR", "FACTS", "LOG", "REPORT", "CellOrder", "main"]

REPORT, FACTS, ERROR, LOG = "report.json", "job.json", "error.txt", "records.log"
PARAMETER_SUFFIXES = (".params", ".npz")
PR_SET_PDEATHSIG = 1
EXIT_ERROR = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class CellOrder:
    """What a cell's process is to do."""

    folder: str
    """An empty folder for what it makes."""
    model: str
    """A network of ours or a file; parameters beside it are taken, too."""
    input_shapes: str
    """Shapes of inputs that an ONNX model leaves open, as ``tvm-ios tune --input-shapes``."""
    batch_size: int | None
    target: str | None
    lanes: int | None
    sla_ms: float | None
    tables: dict[str, Any]
    """Options, as a configuration file has them."""

    def to_json(self) -> str:
        """The fields as JSON."""
        return json.dumps(asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what :meth:`to_json` of this very version made."""
        return cls(**json.loads(text))


def main(arguments: list[str]) -> int:
    """Do what the order in a file says, for the process of this number; return the exit status."""
    path, parent = arguments
    # A grid that is killed leaves nobody behind who would write into the folder of the next one;
    # one that was killed before this line cannot be waited for any more.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(parent):
        return EXIT_ERROR
    order = CellOrder.from_json(Path(path).read_text(encoding="utf-8"))
    folder = Path(order.folder)
    gate = TimedGate(inner=OpenGate(most_cores=default_lanes()))
    try:
        with shown_messages(Verbosity.inherited()), gated_by(gate):
            text = _run(order, folder)
    except TvmIosError as error:
        write_text(folder / ERROR, str(error))
        return EXIT_ERROR
    write_text(folder / FACTS, to_json(JobFacts, JobFacts.of_gate(gate)))
    write_text(folder / REPORT, text)
    return 0


def _run(order: CellOrder, folder: Path) -> str:
    from tvm_ios.driver.simple_tvm import SimpleTVM  # noqa: PLC0415 - TVM is loaded here

    config = TuneConfig.of_tables(order.tables)
    asked = config.arguments()
    chain = SimpleTVM(order.target, lanes=order.lanes, options=asked["options"])
    shapes = InputShapes.parse(order.input_shapes, order.batch_size)
    chain.from_model(order.model, _parameters_beside(Path(order.model)), shapes)
    if config.tuning is not None:
        chain.autotune(
            tuner=config.tuning,
            sla_ms=order.sla_ms,
            time_budget=config.time_budget,
            records=folder / LOG,
        )
    chain.build(time_budget=config.time_budget)
    return chain.evaluate().report().to_json()


def _parameters_beside(model: Path) -> Path | None:
    """The parameters of a model file: those of the same name beside it."""
    if not model.is_file():
        return None
    beside = (model.with_suffix(suffix) for suffix in PARAMETER_SUFFIXES)
    return next((path for path in beside if path.is_file()), None)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
