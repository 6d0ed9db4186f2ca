"""The experiments of the IOS paper, one module each; ``registry.py`` lists them."""
