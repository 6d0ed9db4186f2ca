"""Rules for operators of onnxruntime's own domain (``com.microsoft``)."""
