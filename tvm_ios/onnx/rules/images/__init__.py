"""Convolutions and poolings, by windows that move over images."""
