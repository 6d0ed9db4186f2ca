"""Changes of a model before its operators are fused.

A module that is changed is straight-line code of static shapes, with types inferred.
"""
