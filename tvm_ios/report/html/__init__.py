"""Report as one HTML page: a model's story with pictures, in a file that needs no other."""
