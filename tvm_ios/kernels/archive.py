"""Archives of compiled kernels: an object for the host's linker, and code for a device.

A zip archive holds ``host.o``, and on a GPU ``device.cubin`` (or ``device.ptx``) with TVM's files
beside it. Its members carry checksums.
"""

from __future__ import annotations

import io
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tvm

from tvm_ios.errors import ModelError

__all__ = ["import_kernels", "pack_kernel"]

HOST, DEVICE = "host.o", "device"
DEVICE_FORMATS = ("cubin", "ptx")
LONG_AGO = (1980, 1, 1, 0, 0, 0)
"""Time of every member, so that equal kernels make equal archives."""


def pack_kernel(module: Any) -> bytes:
    """Archive of a kernel that ``tvm.build`` compiled."""
    with tempfile.TemporaryDirectory(prefix="tvm-ios-") as name:
        folder = Path(name)
        # TVM tells the kind of code by the end of the name: `.o` is what a linker takes.
        module.save(str(folder / HOST))
        for device in module.imported_modules:
            _save_device(device, folder)
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            for path in sorted(folder.iterdir()):
                archive.writestr(zipfile.ZipInfo(path.name, LONG_AGO), path.read_bytes())
    return packed.getvalue()


def import_kernels(library: Any, archives: Mapping[str, bytes]) -> None:
    """Import kernels, by symbol, into a model's module that declares but does not define them.

    Exporting that module links all of them in one call of the C compiler.
    """
    for symbol, archive in archives.items():
        library.import_module(_unpacked(archive, symbol))


def _unpacked(archive: bytes, symbol: str) -> Any:
    """Module that TVM can link into a library, with its device code imported.

    ``symbol`` is the function that the object of the archive defines.
    """
    with tempfile.TemporaryDirectory(prefix="tvm-ios-") as name:
        folder = Path(name)
        with zipfile.ZipFile(io.BytesIO(archive)) as members:
            members.extractall(folder)
        module = tvm.runtime.load_static_library(str(folder / HOST), [symbol])
        for device_format in DEVICE_FORMATS:
            device = folder / f"{DEVICE}.{device_format}"
            if device.exists():
                module.import_module(tvm.runtime.load_module(str(device)))
    return module


def _save_device(module: Any, folder: Path) -> None:
    """Save device code in its format, which TVM knows, does not tell, and demands."""
    for device_format in DEVICE_FORMATS:
        path = folder / f"{DEVICE}.{device_format}"
        try:
            module.save(str(path))
        except tvm.TVMError as error:
            path.unlink(missing_ok=True)
            refused = error
        else:
            return
    raise ModelError(
        f"device code of kind {module.type_key!r} can be kept in no format of "
        f"{', '.join(DEVICE_FORMATS)}: {str(refused).splitlines()[-1]}"
    )
