"""The lane executor: models and stages on threads of this machine."""
