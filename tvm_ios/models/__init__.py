"""The benchmark networks of the IOS paper and others, built in Relay (float32, any batch size).

Every function returns ``(module, params)`` with seeded weights. Images are NCHW. The networks of
the paper end at their global average pooling, without a classifier, as in the published benchmark.
"""

from __future__ import annotations

from tvm_ios.models.bert import bert_base
from tvm_ios.models.catalog import MODEL_NAMES, NetworkFactory, by_name
from tvm_ios.models.densenet import densenet_121
from tvm_ios.models.googlenet import googlenet
from tvm_ios.models.inception import inception_v3
from tvm_ios.models.mobilenet import mobilenet_v2, mobilenet_v3_large
from tvm_ios.models.nasnet import nasnet_large, nasnet_small
from tvm_ios.models.randwire import randwire, randwire_small
from tvm_ios.models.resnet import resnet_50
from tvm_ios.models.squeezenet import squeezenet
from tvm_ios.models.tvm_testing import dcgan, resnet3d_18
from tvm_ios.models.unet import unet
from tvm_ios.models.weights import Network
from tvm_ios.models.wiring import Wiring, watts_strogatz

__all__ = [
    "MODEL_NAMES",
    "Network",
    "NetworkFactory",
    "Wiring",
    "bert_base",
    "by_name",
    "dcgan",
    "densenet_121",
    "googlenet",
    "inception_v3",
    "mobilenet_v2",
    "mobilenet_v3_large",
    "nasnet_large",
    "nasnet_small",
    "randwire",
    "randwire_small",
    "resnet3d_18",
    "resnet_50",
    "squeezenet",
    "unet",
    "watts_strogatz",
]
