"""Take a network from an ONNX file that somebody else made; runs in the project's environment.

onnxruntime and OpenVINO read the very file, with its open dimensions given extents; we read it
through ``tvm_ios.from_onnx``. PyTorch stays away, since nobody describes the network to it.

::

    python -m tvm_ios_lab.peers.import_onnx NAME=FILE --input-shapes "x:[1,3,320,320]" [--input NPY]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from tvm import relay
from tvm.relay.analysis import get_total_mac_number

from tvm_ios.driver.input_shapes import InputShapes
from tvm_ios.driver.model_source import ModelSource
from tvm_ios.driver.onnx_file import OnnxFile
from tvm_ios.errors import TvmIosError
from tvm_ios_lab.peers.errors import PeerError
from tvm_ios_lab.peers.export import outweighing_image, unoptimised
from tvm_ios_lab.peers.network import NETWORKS, Case, Network, write_case
from tvm_ios_lab.peers.subject import EXPORTED, Subject

__all__ = ["import_case", "main"]


def import_case(
    name: str, file: OnnxFile, folder: Path, image: NDArray[np.float32] | None = None
) -> Case:
    """Read a file, compute its reference and write both to a folder of its own in ``folder``.

    Parameters
    ----------
    image
        What it is run on; noise that shows in the output where omitted. What a trained network
        makes of noise may be next to nothing, and then no two frameworks agree in it.
    """
    shapes = tuple(file.shapes.items())
    outputs = [str(each.name) for each in file.model.graph.outputs]
    if len(shapes) != 1 or len(outputs) != 1:
        raise PeerError(
            f"{file.name} has {len(shapes)} inputs and {len(outputs)} outputs; give a file with "
            "one of each"
        )
    [(data, shape)] = shapes
    source = ModelSource.of_onnx(file)
    mod, params = relay.transform.InferType()(source.mod), source.params
    network = Network(
        name=name,
        batch_size=shape[0],
        input=data,
        input_shape=shape,
        output=outputs[0],
        macs=get_total_mac_number(mod["main"]),
    )
    run = unoptimised(mod, params or {}, data)
    if image is None:
        image = outweighing_image(run, network)
    elif image.shape != shape:
        raise PeerError(f"the input has shape {image.shape}, and {data!r} of {file.name} {shape}")
    reference = run(image)
    if not np.isfinite(reference).all() or not reference.any():
        raise PeerError(f"{file.name} makes nothing, or no numbers, of this input; give another")
    case = Case(network=network, weights={}, input=image, reference=reference)
    folder /= Subject(name, network.batch_size).stem
    write_case(case, folder)
    onnx.save(_with_shapes(file), folder / "network.onnx")
    return case


def _with_shapes(file: OnnxFile) -> onnx.ModelProto:
    """The model as it lies in its file, and no normal form of it, with the shapes of its inputs."""
    model = onnx.load(file.name)
    for value in model.graph.input:
        for place, extent in enumerate(file.shapes.get(value.name, ())):
            value.type.tensor_type.shape.dim[place].dim_value = extent
    return model


def main(arguments: Sequence[str] | None = None) -> int:
    """Import a file; 0 when that is done."""
    parser = argparse.ArgumentParser(
        prog="python -m tvm_ios_lab.peers.import_onnx",
        description="Take a network from an ONNX file, to be built and measured like the others.",
    )
    parser.add_argument("model", metavar="NAME=FILE", help="how it is called, and where it lies")
    parser.add_argument("--input-shapes", help="extents of open dimensions, as tvm-ios tune has it")
    parser.add_argument(
        "--folder", type=Path, default=EXPORTED, help="has one folder a network (%(default)s)"
    )
    parser.add_argument("--input", type=Path, metavar="NPY", help="what it is run on (noise)")
    options = parser.parse_args(arguments)
    name, _, path = options.model.partition("=")
    try:
        if not path or not name.replace("_", "").isalnum():
            raise PeerError(f"{options.model!r} is no NAME=FILE, such as detector=det.onnx")
        if name in NETWORKS:
            raise PeerError(f"{name} is one of our networks; call the file something else")
        file = OnnxFile.open(path, InputShapes.parse(options.input_shapes))
        image = None if options.input is None else _image(options.input)
        network = import_case(name, file, options.folder, image).network
    except (OSError, ValueError, TvmIosError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"{Subject(name, network.batch_size).stem}: {network.macs / 1e9:.3f} GMAC")
    return 0


def _image(path: Path) -> NDArray[np.float32]:
    array = np.load(path)
    if not isinstance(array, np.ndarray):
        raise PeerError(f"{path} holds several arrays; give one that numpy.save wrote")
    return array.astype("float32")


if __name__ == "__main__":
    sys.exit(main())
