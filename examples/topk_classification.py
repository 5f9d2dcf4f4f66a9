"""A classifier that only has to have the right answer among its three best guesses.

Through a bottleneck of one number, ten classes cannot all come first where they should. Cross-entropy tries all the
same. The top-k loss is content with a place among three, and spends what little room there is on that.
"""

from collections.abc import Callable

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

import truesort as ts

images, labels = (torch.from_numpy(a) for a in load_digits(return_X_y=True))
images = images.float() / 16
order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
train, test = order[:1300], order[1300:]

METHOD = ts.Network(layout="bitonic", error_free=False)


def among_three(logits: Tensor, label: Tensor) -> Tensor:
    _, selection = ts.topk(logits, 3, METHOD)
    return ts.losses.topk_cross_entropy(selection, label)


def learn(loss: Callable[[Tensor, Tensor], Tensor], seed: int) -> nn.Module:
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(64, 1), nn.Tanh(), nn.Linear(1, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(600):
        batch = train[torch.randint(len(train), (64,))]
        optimizer.zero_grad()
        loss(model(images[batch]), labels[batch]).backward()
        optimizer.step()
    return model


@torch.no_grad()
def accuracy(model: nn.Module, k: int) -> float:
    guesses = model(images[test]).topk(k).indices
    return (guesses == labels[test][:, None]).any(-1).float().mean().item()


for name, loss in (("cross-entropy", nn.functional.cross_entropy), ("top-3 loss", among_three)):
    models = [learn(loss, seed) for seed in range(3)]
    first, third = (sum(accuracy(model, k) for model in models) / len(models) for k in (1, 3))
    print(f"{name:14} right at once {first:.1%}   right among three {third:.1%}   (mean of three runs)")
