"""Models and stages on a device of an RPC tracker."""
