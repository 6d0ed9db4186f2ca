import numpy as np
import pytest

from tests.onnx.forms import model_of, normal_of, operators_of, require_same
from tvm_ios.errors import ModelError

RANDOM = np.random.default_rng(0)
SIZES = {"b": 2, "i": 3, "j": 4, "k": 5, "h": 2, "d": 6}
EQUATIONS = [
    "ij,jk->ik",
    "bij,bjk->bik",
    "bhid,bhjd->bhij",
    "bhij,bhjd->bihd",
    "ij->ji",
    "ij->",
    "ij->j",
    "ii->i",
    "ii",
    "iji->j",
    "bij,kj",
    "i,j->ij",
    "i,i->",
    "bi,bi->b",
    "ij,kj->ik",
    "ij,jk,kd->id",
    "ij,ij->ij",
    "bij,i->b",
    "b j i, b i k -> k j b",
    "bij,hd->jhi",
    "jik,ji,bk->bi",
]


def given(equation, sizes=SIZES):
    terms = equation.replace(" ", "").split("->")[0].split(",")
    return {
        f"x{place}": RANDOM.standard_normal([sizes[each] for each in term]).astype("float32")
        for place, term in enumerate(terms)
    }


@pytest.mark.parametrize("equation", EQUATIONS)
def test_sums_of_products(equation):
    inputs = given(equation)
    model = model_of("Einsum", inputs, equation=equation, opset=12)
    made = require_same(model, inputs, rtol=1e-5, atol=1e-5)
    assert "Einsum" not in operators_of(made)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("...ij,...jk->...ik", [(2, 3, 4, 5), (2, 3, 5, 6)]),
        ("...ij,...jk->...ik", [(2, 3, 4, 5), (1, 3, 5, 6)]),
        ("...ij,jk", [(2, 4, 5), (5, 6)]),
        ("i...->...i", [(2, 3, 4)]),
        ("...i,...i->...", [(3, 1, 4), (1, 2, 4)]),
        ("i...j,j->i...", [(2, 3, 4), (4,)]),
        ("ij,jk->ik", [(3, 4), (4, 1)]),
    ],
)
def test_ellipses_broadcast(equation, shapes):
    inputs = {
        f"x{place}": RANDOM.standard_normal(shape).astype("float32")
        for place, shape in enumerate(shapes)
    }
    model = model_of("Einsum", inputs, equation=equation, opset=12)
    require_same(model, inputs, rtol=1e-5, atol=1e-5)


def random_equation(seed):
    random = np.random.default_rng(seed)
    letters = list(SIZES)
    count = int(random.integers(1, 4))
    terms = ["".join(random.permutation(letters)[: random.integers(1, 5)]) for _ in range(count)]
    known = sorted(set("".join(terms)))
    result = "".join(random.permutation(known)[: random.integers(0, len(known) + 1)])
    return f"{','.join(terms)}->{result}"


@pytest.mark.parametrize(
    "equation",
    [pytest.param(random_equation(n), marks=pytest.mark.slow if n > 11 else ()) for n in range(40)],
)
def test_random_equations(equation):
    inputs = given(equation)
    model = model_of("Einsum", inputs, equation=equation, opset=12)
    require_same(model, inputs, rtol=1e-4, atol=1e-4)


def test_products_of_matrices_are_only_that():
    inputs = given("bij,bjk->bik")
    made = require_same(model_of("Einsum", inputs, equation="bij,bjk->bik", opset=12), inputs)
    assert operators_of(made) == ["MatMul"]


def test_whole_numbers():
    inputs = {name: np.round(each).astype("int64") for name, each in given("ij,jk->ki").items()}
    require_same(model_of("Einsum", inputs, equation="ij,jk->ki", opset=12), inputs)


def test_equations_that_do_not_fit_are_refused():
    inputs = given("ij,jk->ik")
    for equation in ("ij->ij", "i,jk->ik"):
        with pytest.raises(ModelError, match="valid ONNX|operands"):
            normal_of(model_of("Einsum", inputs, equation=equation, opset=12), inputs)
