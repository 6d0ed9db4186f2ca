"""ONNX models in a normal form, which every importer reads. Free of TVM."""
