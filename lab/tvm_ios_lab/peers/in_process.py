"""onnxruntime inside this process, for ``tvm-ios demo``: an entry point of ``tvm_ios.peers``.

Tables race peers in processes of their own (:mod:`tvm_ios_lab.peers.measure`), where no pool of
threads is in another one's way. Here its threads stop to spin at the end of each run.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from tvm_ios.driver.races.peers import PeerContestant
from tvm_ios.runtime.base.tvm_names import IS_FFI
from tvm_ios_lab.peers.errors import PeerError

__all__ = ["onnxruntime_contestants"]


def onnxruntime_contestants(
    mod: Any, params: Mapping[str, Any], *, lanes: int
) -> tuple[PeerContestant, ...]:
    """Onnxruntime on one thread and on all; none where it is not installed.

    Raises
    ------
    PeerError
        If the network has an operator that nobody has described, or is in Relax.
    """
    if IS_FFI:
        raise PeerError("networks are described from Relay, and this TVM has Relax")
    if importlib.util.find_spec("onnxruntime") is None:
        return ()
    # TVM and onnxruntime are there, and come in only now.
    import onnxruntime  # noqa: PLC0415

    from tvm_ios_lab.peers.describe import describe  # noqa: PLC0415
    from tvm_ios_lab.peers.network import Case  # noqa: PLC0415
    from tvm_ios_lab.peers.normal_form import normal_form  # noqa: PLC0415
    from tvm_ios_lab.peers.onnx_file import onnx_model  # noqa: PLC0415
    from tvm_ios_lab.peers.onnxruntime_peer import (  # noqa: PLC0415
        OnnxruntimeRunner,
        session_options,
    )
    from tvm_ios_lab.peers.peer import Contestant, Peer  # noqa: PLC0415

    described, weights = normal_form(mod, params)
    network = describe(described, name="demo")
    values = {name: value.numpy() for name, value in weights.items()}
    model = onnx_model(network, values).SerializeToString()
    case = Case(
        network=network,
        weights=values,
        input=np.random.default_rng(0).standard_normal(network.input_shape, dtype=np.float32),
        reference=np.zeros(network.nodes[-1].shape, np.float32),
    )
    found = []
    for threads in dict.fromkeys((1, lanes)):
        contestant = Contestant(Peer.ONNXRUNTIME, threads)
        options = session_options(contestant)
        options.add_session_config_entry("session.force_spinning_stop", "1")
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        found.append(
            PeerContestant(
                name=contestant.name,
                explanation=f"version {onnxruntime.__version__} with all graph optimisations, one "
                "operator after another, each on all its threads",
                time_ns=partial(_time_ns, OnnxruntimeRunner(session, case)),
            )
        )
    return tuple(found)


def _time_ns(runner: Any, runs: int) -> int:
    begin_ns = time.perf_counter_ns()
    for _ in range(runs):
        runner.run()
    return time.perf_counter_ns() - begin_ns
