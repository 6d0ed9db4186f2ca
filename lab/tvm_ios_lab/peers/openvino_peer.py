"""OpenVINO on the CPU with a hint for latency or throughput."""

from __future__ import annotations

from pathlib import Path

import openvino as ov

from tvm_ios.core.precision.low_precision import FLOAT32
from tvm_ios_lab.peers.network import Case, Floats
from tvm_ios_lab.peers.peer import Contestant, Peer

__all__ = ["OpenvinoRunner", "make"]


class OpenvinoRunner:
    """Runner of one infer request, whose input is set once."""

    def __init__(self, model: ov.CompiledModel, case: Case) -> None:
        self._request = model.create_infer_request()
        self._image = case.input  # the request shares its memory
        self._request.set_input_tensor(ov.Tensor(self._image, shared_memory=True))

    def run(self) -> None:
        """Run the network once."""
        self._request.infer(share_outputs=True)

    def start(self) -> None:
        """Begin a run."""
        self._request.start_async(share_inputs=True)

    def wait(self) -> None:
        """Wait for the end of the run that was begun."""
        self._request.wait()

    def output(self) -> Floats:
        """Output of the last run."""
        output: Floats = self._request.get_output_tensor().data.copy()
        return output


def make(contestant: Contestant, case: Case, folder: Path) -> OpenvinoRunner:
    """Load the network's ONNX file.

    Without the hint for float32 it computes in bfloat16 where the processor can.
    """
    core = ov.Core()
    hint = "THROUGHPUT" if contestant.peer is Peer.OPENVINO_STREAMS else "LATENCY"
    settings = {"PERFORMANCE_HINT": hint, "INFERENCE_NUM_THREADS": contestant.threads}
    if contestant.precision == FLOAT32:
        settings["INFERENCE_PRECISION_HINT"] = "f32"
    model = core.compile_model(core.read_model(folder / "network.onnx"), "CPU", settings)
    return OpenvinoRunner(model, case)
