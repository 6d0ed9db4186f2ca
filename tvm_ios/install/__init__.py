"""Installation: puts a TVM with Relay where a plain ``import tvm`` finds it."""
