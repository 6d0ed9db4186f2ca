"""The Relax dialect of TVM 0.27: prepare, extract, rewrite, build. Only this room imports it."""

import tvm_ffi

# Callbacks of TVM would make a RuntimeError of Ctrl-C, which passes and we take for TVM's refusal.
tvm_ffi.register_error("KeyboardInterrupt", KeyboardInterrupt)
