"""ONNX into Relay by TVM's importer, with what it gets wrong mended or refused by name."""
