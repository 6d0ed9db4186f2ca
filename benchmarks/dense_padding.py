"""What padding units or rows of dense layers gives: ``python -m benchmarks.dense_padding``.

Dense layers by TVM's own kernels on all lanes, as the model has them and padded by
:func:`~tvm_ios.relay.transforms.channel_padding.pad_channels`, or by
:func:`~tvm_ios.relay.transforms.row_padding.pad_rows` where the units are whole blocks. The slice
that cuts off what was added is included. Both are raced; medians and ratios go to
``benchmarks/results/dense_padding.json``.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
from tvm import IRModule, relay

from tvm_ios.devices.local import LocalCpu
from tvm_ios.driver.compile_schedule import compile_schedule
from tvm_ios.host import host_target
from tvm_ios.host.machine import machine_facts, version_facts
from tvm_ios.profile.race import race
from tvm_ios.relay.transforms.channel_padding import pad_channels
from tvm_ios.relay.transforms.row_padding import pad_rows

RESULT = Path(__file__).parent / "results" / "dense_padding.json"
LAYERS = (
    (4, 2048, 1000),
    (8, 2048, 1000),
    (32, 768, 1000),
    (128, 768, 30522),
    (128, 768, 50257),
    (197, 768, 3072),
    (77, 512, 512),
    (50, 768, 768),
)
"""Rows, inputs, units: classifiers of images at batch 4, 8 and 32, the vocabularies of BERT and
GPT-2 at 128 words; layers of ViT-B/16, of CLIP's text and of ViT-B/32."""


def _dense(rows: int, inputs: int, units: int) -> tuple[IRModule, dict[str, np.ndarray]]:
    data, weight = relay.var("data", shape=(rows, inputs)), relay.var("w", shape=(units, inputs))
    module = IRModule.from_expr(relay.Function([data, weight], relay.nn.dense(data, weight)))
    values = np.random.default_rng(0).standard_normal((units, inputs), dtype="float32")
    return module, {"w": values}


def main() -> None:
    """Race, print and write."""
    target = host_target()
    found = {}
    for layer in LAYERS:
        module, params = _dense(*layer)
        padded, count = pad_channels(module, params, target)
        if not count:
            padded, count = pad_rows(module, params)
        assert count == 1
        models = {
            "as it is": compile_schedule(module, params, target),
            "padded": compile_schedule(padded, None, target),
        }
        with LocalCpu().open() as session:
            comparison = race(models, until_decided=True, session=session)
        speedup = comparison.speedup("padded", over="as it is")
        found["x".join(map(str, layer))] = {
            "ms": {name: comparison.median_ns(name) / 1e6 for name in comparison.names},
            "times_as_fast": [speedup.ratio, speedup.low, speedup.high],
        }
        print(layer, speedup.as_text(), flush=True)
    record = {
        "command": "python -m benchmarks.dense_padding",
        "taken_at": time.strftime("%Y-%m-%d"),
        "machine": machine_facts(),
        "versions": version_facts(),
        "rows x inputs x units": found,
    }
    RESULT.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
