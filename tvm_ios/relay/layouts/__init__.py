"""Layouts of images, operator by operator, before TVM chooses them for a model as a whole."""
