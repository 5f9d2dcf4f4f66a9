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
METHOD = ts.Network(layout="merge_exchange")

model = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1, 0, 400)
for step in range(401):
    outputs = model(torch.randn(BATCH, 1)).squeeze(-1)
    distance = (ts.sort(outputs, METHOD) - WANTED).abs().mean()
    optimizer.zero_grad()
    distance.backward()
    optimizer.step()
    schedule.step()
    if step % 100 == 0:
        print(f"step {step:3}   distance to the exponential distribution {distance.item():.3f}")

levels = torch.tensor([0.1, 0.5, 0.9])
with torch.no_grad():
    reached = ts.quantile(model(torch.randn(512, 1)).squeeze(-1), levels, METHOD)
for q, value, wanted in zip(levels, reached, -torch.log1p(-levels), strict=True):
    print(f"quantile {q:.1f}: {value:.2f}, wanted {wanted:.2f}")
