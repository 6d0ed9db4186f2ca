"""The Relax dialect of TVM 0.27: prepare, extract, rewrite, build. Only this room imports it."""

import tvm_ffi

from tvm_ios import errors

# Callbacks of TVM would make a RuntimeError of Ctrl-C, which passes and we take for TVM's refusal.
tvm_ffi.register_error("KeyboardInterrupt", KeyboardInterrupt)
# TVM-FFI carries exceptions of Python through C++ by name, and TVM has a ScheduleError as well.
for _error in vars(errors).values():
    if isinstance(_error, type) and issubclass(_error, errors.TvmIosError):
        tvm_ffi.register_error(f"tvm_ios.{_error.__name__}", _error)
