"""The command that installs packages which tvm-ios needs only for some uses."""

from __future__ import annotations

__all__ = ["install_command"]


def install_command(extra: str) -> str:
    """The ``pip install`` that brings what an extra of tvm-ios names, such as ``onnx``.

    It names packages: no index has tvm-ios, whose name alone pip would not find.
    """
    from importlib import metadata  # noqa: PLC0415 - takes longer than what only reads files may

    try:
        needed = metadata.requires("tvm-ios") or ()
    except metadata.PackageNotFoundError:  # run from a checkout
        needed = ()
    marker = f"extra=={extra}"
    packages = [
        package.strip()
        for package, _, markers in (each.partition(";") for each in needed)
        if marker in markers.translate(_PLAIN)
    ] or ["-e", f".[{extra}]"]
    return "pip install " + " ".join(each if each == "-e" else f"'{each}'" for each in packages)


_PLAIN = str.maketrans("", "", " '\"()")
"""Leaves out what may stand in a marker in one way or another."""
