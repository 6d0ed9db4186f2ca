"""Child interpreters that do not wait for a quiet machine, as tests themselves do not.

Those that run examples have a SqueezeNet of two fire modules.
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

SMALL_SQUEEZENET = """
import sys

import tvm_ios.models

squeezenet = sys.modules["tvm_ios.models.squeezenet"]
squeezenet._FIRES = squeezenet._FIRES[2:4]
"""
"""What examples of a SqueezeNet run first: shapes of its input and output stay."""
