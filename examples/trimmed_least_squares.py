"""Robust regression by trimmed least squares: sort the squared residuals, and learn only from the small ones.

A third of the points are outliers that all lie on the same wrong side. Least squares averages them in; the trimmed loss
leaves out whatever fits worst, and finds the line through the rest.
"""

from collections.abc import Callable

import torch
from torch import Tensor

import truesort as ts

torch.manual_seed(0)
TRUTH = torch.tensor([2.0, -1.0])

x = torch.linspace(-1, 1, 90)
points = torch.stack([x, torch.ones_like(x)], dim=-1)
y = points @ TRUTH + 0.05 * torch.randn(90)
y[::3] = 8 + torch.rand(30)


def least_squares(residuals: Tensor) -> Tensor:
    return residuals.mean()


def trimmed(residuals: Tensor) -> Tensor:
    return ts.sort(residuals)[:55].mean()


def fit(loss: Callable[[Tensor], Tensor]) -> Tensor:
    line = torch.zeros(2, requires_grad=True)
    optimizer = torch.optim.Adam([line], lr=0.05)
    for _ in range(400):
        optimizer.zero_grad()
        loss((points @ line - y).square()).backward()
        optimizer.step()
    return line.detach()


for name, line in (("truth", TRUTH), ("least squares", fit(least_squares)), ("trimmed", fit(trimmed))):
    print(f"{name:14} slope {line[0]:6.3f}   intercept {line[1]:6.3f}")
