"""A classifier that only has to have the right answer among its three best guesses.

`ts.topk` says, exactly and with a gradient, which classes are selected. The loss asks for the true class to be one of
them and does not care about its place, so capacity is not spent on separating the first from the second.
"""

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

import truesort as ts

torch.manual_seed(0)
images, labels = (torch.from_numpy(a) for a in load_digits(return_X_y=True))
images = images.float() / 16
order = torch.randperm(len(images))
train, test = order[:1300], order[1300:]

METHOD = ts.Network(layout="bitonic", swap="cauchy", error_free=False)


def topk_loss(logits: Tensor, label: Tensor) -> Tensor:
    _, selection = ts.topk(logits, 3, METHOD)
    chosen = selection.sum(-1).gather(-1, label[:, None])
    return -chosen.clamp_min(1e-6).log().mean()


@torch.no_grad()
def accuracy(model: nn.Module, k: int) -> float:
    guesses = model(images[test]).topk(k).indices
    return (guesses == labels[test][:, None]).any(-1).float().mean().item()


model = nn.Sequential(nn.Linear(64, 4), nn.ReLU(), nn.Linear(4, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(401):
    batch = train[torch.randint(len(train), (64,))]
    loss = topk_loss(model(images[batch]), labels[batch])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 100 == 0:
        print(f"step {step:3}   loss {loss.item():.3f}   right among three: {accuracy(model, 3):.1%}")
