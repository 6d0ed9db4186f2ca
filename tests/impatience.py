"""Child interpreters that do not wait for a quiet machine, as tests themselves do not.

Those that run examples have networks of few modules.
"""

from __future__ import annotations

IMPATIENT = """
from dataclasses import replace

from tvm_ios.measure.machine_mode import ModeWatch

def impatient(watch, *arguments, begin=ModeWatch.__init__, **options):
    begin(watch, *arguments, **options)
    watch._options = replace(watch._options, patience_s=0.0)
    watch._waited_ns = lambda: None

ModeWatch.__init__ = impatient
"""
"""What such a child runs first; it imports no TVM."""

SMALL_NETWORKS = """
import functools
import sys

import tvm_ios.models

squeezenet = sys.modules["tvm_ios.models.squeezenet"]
squeezenet._FIRES = squeezenet._FIRES[3:4]
tvm_ios.models.nasnet_small = functools.partial(tvm_ios.models.nasnet_small, num_cells=1)
"""
"""What examples run first: inputs and outputs of networks keep their shapes."""
