"""Rules that bring one node into the normal form, a file for each kind of operator."""

from __future__ import annotations

import importlib
import pkgutil

for _file in pkgutil.walk_packages(__path__, f"{__name__}."):  # each adds its rules to RULES
    importlib.import_module(_file.name)
