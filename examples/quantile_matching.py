"""Give the outputs of a model a wanted distribution, by matching quantiles.

The loss compares the sorted outputs of a batch with the quantiles of the target: the one-dimensional Wasserstein
distance. Sorting is exact, so the loss is the true distance and not a blurred one.
"""

import torch
from torch import nn

import truesort as ts

torch.manual_seed(0)
BATCH = 128
LEVELS = (torch.arange(BATCH) + 0.5) / BATCH
WANTED = -torch.log1p(-LEVELS)  # quantiles of the exponential distribution

model = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(301):
    outputs = model(torch.randn(BATCH, 1)).squeeze(-1)
    distance = (ts.sort(outputs) - WANTED).abs().mean()
    optimizer.zero_grad()
    distance.backward()
    optimizer.step()
    if step % 100 == 0:
        print(f"step {step:3}   distance to the exponential distribution {distance.item():.3f}")

with torch.no_grad():
    outputs = model(torch.randn(512, 1)).squeeze(-1)
for q in (0.1, 0.5, 0.9):
    print(f"quantile {q}: {ts.quantile(outputs, q).item():.2f}, wanted {-torch.log1p(torch.tensor(-q)).item():.2f}")
