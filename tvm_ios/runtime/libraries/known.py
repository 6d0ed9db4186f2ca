"""The list of operator libraries, the one place that names them. No TVM here.

To add one, write its folder beside :mod:`tvm_ios.runtime.libraries.cudnn` and list it here.
"""

from __future__ import annotations

from tvm_ios.errors import OptionError
from tvm_ios.plan.library_call import LibraryCall
from tvm_ios.runtime.libraries.cudnn.provider import CudnnLibrary
from tvm_ios.runtime.libraries.onednn.provider import OnednnLibrary
from tvm_ios.runtime.libraries.protocol import OperatorLibrary
from tvm_ios.support.stored_value import StoredValue, UnreadableValueError

__all__ = ["LIBRARIES", "find_library", "known_libraries", "read_call", "require_names"]


def known_libraries(*, tf32: bool = False) -> tuple[OperatorLibrary, ...]:
    """Every operator library; cuDNN may round float32 to TF32 or not."""
    return CudnnLibrary(tf32=tf32), OnednnLibrary()


LIBRARIES = known_libraries()
"""Every operator library, with its default options: enough to read its calls and to run them."""


def find_library(key: str) -> OperatorLibrary | None:
    """The operator library with a key (its name in files); None if there is none."""
    return next((library for library in LIBRARIES if library.name.key == key), None)


def require_names(libraries: object) -> None:
    """Refuse what is neither None nor a tuple of keys of operator libraries."""
    if libraries is None:
        return
    if not isinstance(libraries, tuple):
        raise OptionError(
            f"libraries is {libraries!r}; give a tuple of names, such as ('onednn',), () for none, "
            "or None for what is installed"
        )
    known = [library.name.key for library in LIBRARIES]
    if unknown := [name for name in libraries if name not in known]:
        raise OptionError(f"libraries has {unknown[0]!r}; there are {' and '.join(known)}")


def read_call(data: StoredValue) -> LibraryCall:
    """Call in the data of :meth:`~tvm_ios.plan.library_call.LibraryCall.to_data`."""
    named = data.field("library")
    library = find_library(named.text())
    if library is None:
        keys = ", ".join(repr(known.name.key) for known in LIBRARIES)
        raise UnreadableValueError(
            f"{named.where} is {named}; this tvm-ios knows the libraries {keys}"
        )
    return LibraryCall(library.name, library.read_call(data.field("call")))
