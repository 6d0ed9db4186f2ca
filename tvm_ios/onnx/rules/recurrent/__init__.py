"""Recurrent layers: their activations, cells and directions."""
