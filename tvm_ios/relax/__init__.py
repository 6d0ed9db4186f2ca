"""The Relax dialect of TVM 0.27: prepare, extract, rewrite, build. Only this room imports it."""
