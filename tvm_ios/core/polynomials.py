"""Coefficients by which exp, erf, tanh and log of float32 are arithmetic, for any TVM.

Those of the highest powers come first. All take e^x as 2^n e^r, with n an integer and r at most
ln(2)/2 (Cody and Waite, 1980).
"""

from __future__ import annotations

__all__ = [
    "ERF_FAR",
    "ERF_FROM",
    "ERF_NEAR",
    "ERF_ONE",
    "EXP",
    "EXPM1",
    "EXP_LEAST",
    "EXP_MOST",
    "LN2",
    "LN2_HIGH",
    "LN2_LOW",
    "LOG1P",
    "LOG2_E",
    "TANH",
    "TANH_FROM",
    "TANH_ONE",
]

LOG2_E = 1.4426950408889634
LN2 = 0.6931471805599453
LN2_HIGH, LN2_LOW = 0.693359375, -2.12194440e-4
"""ln(2) in two parts. The first has so few bits that its products with integers are exact."""
EXPM1 = (
    0.0013882509665563703,
    0.008366580121219158,
    0.04166720062494278,
    0.1666654348373413,
    0.4999999701976776,
)
"""Coefficients of q in e^r - 1 = r + r^2 q(r): a minimax fit relative to e^r - 1, for results that
hang on the last bit of e^x."""
EXP = (
    0.008319866843521595,
    0.04188201203942299,
    0.16666992008686066,
    0.4999929368495941,
    1.0,
    1.0,
)
"""Coefficients of e^r to one part in 10^7: a minimax fit in which r below 0.27 count more, where
tanh and erf need it."""
EXP_LEAST, EXP_MOST = -104.0, 89.0
"""Arguments beyond which exp is 0 and infinity."""
TANH = (
    -0.006179815623909235,
    0.021007463335990906,
    -0.053837429732084274,
    0.1333245187997818,
    -0.3333331346511841,
)
"""Coefficients of q in tanh(x) = x + x^3 q(x^2), up to :data:`TANH_FROM`."""
TANH_FROM, TANH_ONE = 0.5625, 10.0
"""Argument up to which tanh is a polynomial, and one whose tanh rounds to 1."""
ERF_NEAR = (
    -5.96761703e-4,
    4.99119423e-3,
    -2.67681349e-2,
    1.12819925e-1,
    -3.76125336e-1,
    1.28379166e-1,
)
"""Coefficients of q in erf(x) = x + x q(x^2), up to :data:`ERF_FROM`."""
ERF_FAR = (
    -1.72853470e-5,
    3.83197126e-4,
    -3.88396438e-3,
    2.42546219e-2,
    -1.06777877e-1,
    -6.34846687e-1,
    -1.28717512e-1,
)
"""Coefficients of p in log(1 - erf(t)) = t p(t) - t."""
ERF_FROM, ERF_ONE = 0.927734375, 4.0
"""Argument from which on erf is 1 - e^p, and one from which it rounds to 1."""
LOG1P = (
    -0.12891684472560883,
    0.1398443728685379,
    -0.12184261530637741,
    0.14005868136882782,
    -0.16680487990379333,
    0.20010405778884888,
    -0.24999797344207764,
    0.3333321511745453,
)
"""Coefficients of q in log(1 + f) = f - f^2 / 2 + f^3 q(f)."""
