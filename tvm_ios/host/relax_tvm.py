"""The release of TVM with Relax that is known here."""

from __future__ import annotations

from types import ModuleType

__all__ = ["RELAX_RELEASE", "is_relax_tvm", "is_relax_version"]

RELAX_RELEASE = "0.27"
"""Release of TVM whose names and calling convention are known."""


def is_relax_tvm(tvm: ModuleType) -> bool:
    """True if a TVM is of the release with Relax that is known here."""
    return is_relax_version(str(getattr(tvm, "__version__", "")))


def is_relax_version(version: str) -> bool:
    """True if a version of TVM is of that release."""
    return version.startswith(f"{RELAX_RELEASE}.")
