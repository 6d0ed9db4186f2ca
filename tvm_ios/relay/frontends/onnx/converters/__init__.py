"""Converters of ONNX's operators, in the normal form, to Relay, a file for each kind."""

from __future__ import annotations

import importlib
import pkgutil

from tvm_ios.relay.frontends.onnx.converters.converter import CONVERTERS

__all__ = ["CONVERTERS"]

for _file in pkgutil.iter_modules(__path__):  # each adds its converters to CONVERTERS
    importlib.import_module(f"{__name__}.{_file.name}")
