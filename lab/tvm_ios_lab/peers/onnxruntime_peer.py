"""onnxruntime with its CPU provider, sequential or with ``ORT_PARALLEL``."""

from __future__ import annotations

from pathlib import Path

import onnxruntime as ort

from tvm_ios_lab.peers.network import Case, Floats
from tvm_ios_lab.peers.peer import Contestant, Peer

__all__ = ["OnnxruntimeRunner", "make", "session_options"]

_PARALLEL = (Peer.ONNXRUNTIME_PARALLEL, Peer.ONNXRUNTIME_PARALLEL_WIDE)


class OnnxruntimeRunner:
    """A session whose input and output are bound once, so a run copies nothing."""

    def __init__(self, session: ort.InferenceSession, case: Case) -> None:
        self._session = session
        self._binding = session.io_binding()
        self._binding.bind_ortvalue_input(
            case.network.input, ort.OrtValue.ortvalue_from_numpy(case.input)
        )
        self._output = ort.OrtValue.ortvalue_from_numpy(case.reference * 0)
        self._binding.bind_ortvalue_output(case.network.output, self._output)

    def run(self) -> None:
        """Run the network once."""
        self._session.run_with_iobinding(self._binding)

    def output(self) -> Floats:
        """Output of the last run."""
        output: Floats = self._output.numpy().copy()
        return output


def make(contestant: Contestant, case: Case, folder: Path) -> OnnxruntimeRunner:
    """Load the network's ONNX file."""
    session = ort.InferenceSession(
        folder / "network.onnx", session_options(contestant), providers=["CPUExecutionProvider"]
    )
    return OnnxruntimeRunner(session, case)


def session_options(contestant: Contestant) -> ort.SessionOptions:
    """Options with all graph optimisations, and the threads of the contestant."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.intra_op_num_threads = contestant.threads
    if contestant.peer is Peer.ONNXRUNTIME_STOPS:
        options.add_session_config_entry("session.force_spinning_stop", "1")
    if contestant.peer in _PARALLEL:
        options.execution_mode = ort.ExecutionMode.ORT_PARALLEL
        options.inter_op_num_threads = contestant.threads
    if contestant.peer is Peer.ONNXRUNTIME_PARALLEL:
        options.intra_op_num_threads = 1
    return options
