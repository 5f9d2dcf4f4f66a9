"""Train on ranks alone: the targets went through a wild monotone distortion, so only their order can be trusted.

Squared error chases the few huge targets. Spearman's rank correlation, made a loss by exact ranks with a gradient, does
not feel the distortion at all.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

import truesort as ts

torch.manual_seed(0)
WEIGHTS = torch.randn(8)


def draw(n: int) -> tuple[Tensor, Tensor]:
    x = torch.randn(n, 8)
    return x, torch.exp(3 * (x @ WEIGHTS + 0.3 * torch.randn(n)))


def train(loss: Callable[[Tensor, Tensor], Tensor]) -> float:
    torch.manual_seed(1)
    model = nn.Linear(8, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    for _ in range(300):
        x, y = draw(64)
        optimizer.zero_grad()
        loss(model(x).squeeze(-1), y).backward()
        optimizer.step()
    x, y = draw(2000)
    with torch.no_grad():
        return ts.metrics.spearman_rho(model(x).squeeze(-1), y).item()


print(f"rank correlation on new data, trained with squared error: {train(nn.functional.mse_loss):.3f}")
print(f"rank correlation on new data, trained with ranks:         {train(ts.losses.spearman_loss):.3f}")
