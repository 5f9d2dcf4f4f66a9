"""Train on ranks alone: the targets went through a wild monotone distortion, so only their order can be trusted.

Squared error chases the few huge targets. Spearman's rank correlation, made a loss by exact ranks with a gradient, does
not feel the distortion at all.
"""

import torch
from torch import Tensor, nn

import truesort as ts

torch.manual_seed(0)
WEIGHTS = torch.randn(8)


def draw(n: int) -> tuple[Tensor, Tensor]:
    x = torch.randn(n, 8)
    return x, torch.exp(3 * (x @ WEIGHTS + 0.3 * torch.randn(n)))


def correlation(a: Tensor, b: Tensor) -> Tensor:
    a, b = a - a.mean(), b - b.mean()
    return (a @ b) / (a.norm() * b.norm())


def spearman(predicted: Tensor, target: Tensor) -> Tensor:
    return 1 - correlation(ts.rank(predicted), ts.rank(target))


def train(loss: nn.Module | object) -> float:
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
        return 1 - spearman(model(x).squeeze(-1), y).item()


print(f"rank correlation on new data, trained with squared error: {train(nn.functional.mse_loss):.3f}")
print(f"rank correlation on new data, trained with ranks:         {train(spearman):.3f}")
