"""The benchmark networks of the IOS paper, built in Relay (float32, NCHW, any batch size).

Every function returns ``(module, params)`` with seeded weights. Networks end at their global
average pooling, without a classifier, as in the published benchmark.
"""

from __future__ import annotations

from tvm_ios.models.builder import Network
from tvm_ios.models.catalog import MODEL_NAMES, NetworkFactory, by_name
from tvm_ios.models.count import ModelTotals, count
from tvm_ios.models.inception import inception_v3
from tvm_ios.models.nasnet import nasnet_large, nasnet_small
from tvm_ios.models.randwire import randwire, randwire_small
from tvm_ios.models.squeezenet import squeezenet
from tvm_ios.models.wiring import Wiring, watts_strogatz

__all__ = [
    "MODEL_NAMES",
    "ModelTotals",
    "Network",
    "NetworkFactory",
    "Wiring",
    "by_name",
    "count",
    "inception_v3",
    "nasnet_large",
    "nasnet_small",
    "randwire",
    "randwire_small",
    "squeezenet",
    "watts_strogatz",
]
