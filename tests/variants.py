"""Every configuration that the laws are tried on, and the problems they are tried with."""

from dataclasses import replace
from typing import Any, NamedTuple

import hypothesis.strategies as st
import pytest
import torch
from torch import Tensor

import truesort as ts
from promises import promising
from truesort.networks import LAYOUTS
from truesort.relaxations import CURVES

SOFT_NETWORKS = [ts.Network(layout, swap, 3.0, error_free=False) for layout in LAYOUTS for swap in CURVES]
ERROR_FREE = [replace(soft, error_free=True, backward=b) for soft in SOFT_NETWORKS for b in ("swap", "matrix")]
TOLERANCE = {torch.float64: 1e-9, torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}
DTYPES = list(TOLERANCE)
HARD = ts.Network()


def variants(law: str) -> list[Any]:
    """The methods that promise `law`, networks in every layout, with every swap and both backward readings."""
    every: list[Any] = []
    for method in promising(law):
        if not isinstance(method, ts.Network):
            every.append(method)
        else:
            every += ERROR_FREE if method.error_free else SOFT_NETWORKS
    return [pytest.param(method, id=short(method)) for method in every]


def short(method: Any) -> str:
    """A method as a test's name."""
    if not isinstance(method, ts.Network):
        return repr(method)
    return "-".join([method.layout, method.swap, method.backward if method.error_free else "soft"])


class Problem(NamedTuple):
    """A tensor to sort; `mask` may be None."""

    x: Tensor
    dim: int
    mask: Tensor | None

    @property
    def options(self) -> dict[str, Any]:
        return {"dim": self.dim, "mask": self.mask}


@st.composite
def problems(
    draw: Any, dtypes: list[torch.dtype] = DTYPES, masked: bool | None = None, distinct: bool = False
) -> Problem:
    """Tensors of one to three dims whose values lie on a grid, so that ties are common and shifts are exact."""
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    n, before, after = (
        draw(st.integers(0, 7)),
        draw(st.lists(st.integers(1, 3), max_size=1)),
        draw(st.lists(st.integers(1, 2), max_size=1)),
    )
    shape, dim = [*before, n, *after], len(before)
    if distinct:
        x = (torch.rand(shape, generator=generator).argsort(dim) - n / 2) / 2
    else:
        x = torch.randint(-16, 17, shape, generator=generator) / 8
    if masked is None:
        masked = draw(st.booleans())
    mask = torch.rand(shape, generator=generator) > 0.3 if masked else None
    return Problem(x.to(draw(st.sampled_from(dtypes))), draw(st.sampled_from([dim, dim - len(shape)])), mask)


def close(a: Tensor, b: Tensor, scale: float = 1.0, within: float = 0.0) -> None:
    """Assert equality up to the rounding of the type, and what a method may be off by besides."""
    assert a.dtype == b.dtype
    tolerance = scale * TOLERANCE[a.dtype] + within
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)
