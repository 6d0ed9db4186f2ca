"""Networks of the zoo, compiled for an H100 by the real nvcc, exported, and loaded again.

Nothing here has a GPU: what loads is TVM, its modules and our executor, under a stand-in for CUDA.
Images are smaller than usual, which changes no operator's kind and keeps nearly all kernels.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from functools import partial

import pytest

from tests.relay_modules import quantised_images
from tvm_ios.models import (
    MODEL_NAMES,
    bert_base,
    by_name,
    densenet_121,
    googlenet,
    inception_v3,
    mobilenet_v2,
    mobilenet_v3_large,
    nasnet_large,
    randwire,
    resnet_50,
    squeezenet,
    unet,
)

TARGET = "cuda -arch=sm_90"
SMALLER = {
    "quantised": lambda: (quantised_images(), {}),
    "bert_base": partial(bert_base, layers=1),
    "densenet_121": partial(densenet_121, image_size=64),
    "googlenet": partial(googlenet, image_size=64),
    "inception_v3": partial(inception_v3, image_size=75),
    "mobilenet_v2": partial(mobilenet_v2, image_size=64),
    "mobilenet_v3_large": partial(mobilenet_v3_large, image_size=64),
    "nasnet_large": partial(
        nasnet_large, image_size=64, stem_channels=24, filters=44, normal_cells=1
    ),
    "randwire": partial(randwire, image_size=64),
    "resnet_50": partial(resnet_50, image_size=64),
    "squeezenet": partial(squeezenet, image_size=64),
    "unet": partial(unet, image_size=64),
}
LOAD = """
import json, sys
import numpy as np
import tvm
import tvm_ios

path = sys.argv[1]
with tvm_ios.load(path, tvm.cuda(0)) as module:
    module.run()
    module.run()
    print(json.dumps({
        "launches": len(module.plan.launches),
        "streams": module.num_streams,
        "shape": list(module.get_output(0).numpy().shape),
        "fallback": module.fallback,
    }))
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on PATH")
@pytest.mark.parametrize(
    "name",
    [
        name if name == "quantised" else pytest.param(name, marks=pytest.mark.full)
        for name in (*MODEL_NAMES, "quantised")
    ],
)
def test_it_is_compiled_exported_and_loaded_for_an_h100(name, cuda_stand_in_library, tmp_path):
    from tvm_ios.compile.built_model import build_model
    from tvm_ios.compile.lower import lower_schedule
    from tvm_ios.search.baselines import greedy_schedule

    module, params = (SMALLER.get(name) or by_name(name))()
    built = build_model(module, params, TARGET, name=name)
    model = lower_schedule(built, greedy_schedule(built.graph), lanes=4)
    hosts = model.kernels.staged.factory.lib.imported_modules
    for_device = [device for host in hosts for device in host.imported_modules]
    assert len(for_device) >= len({launch.kernel for launch in model.plan.launches})
    assert {device.type_key for device in for_device} == {"cuda"}
    path = tmp_path / f"{name}.so"
    model.export_library(path)
    done = subprocess.run(
        [sys.executable, "-c", LOAD, str(path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        env=os.environ
        | {
            "LD_PRELOAD": cuda_stand_in_library,
            "CUDA_STAND_IN_LOG": str(tmp_path / "calls"),
        },
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    (output,) = model.plan.outputs
    assert seen == {
        "launches": len(model.plan.launches),
        "streams": len({group.lane for group in model.plan.groups}),
        "shape": list(model.plan.tensors[output].shape),
        "fallback": None,
    }
    assert name == "quantised" or seen["streams"] > 1
