"""The GPU evaluation of ``lab/gpu.py``, in steps that can be cut short and taken up again.

``agenda`` says which steps there are, ``evaluation`` runs each in a process of its own within the
budget, ``ledger`` keeps what came of them, ``work`` does one, and ``table`` reads the results.
"""
