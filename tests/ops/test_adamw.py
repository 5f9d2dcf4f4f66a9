"""AdamW in one launch against torch's: on a GPU as it is, elsewhere in Triton's interpreter, which reads the CPU."""

import copy

import pytest
import torch
from torch import Tensor, nn

from truesort.engine.checkpoint import moments, restore_moments
from truesort.ops import adamw
from truesort.ops.adamw import AdamW

pytest.importorskip("triton", reason="the one launch needs Triton")

GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"
pytestmark = [pytest.mark.gpu] if GPU else []
SETTINGS = {"weight_decay": 0.05, "betas": (0.9, 0.999), "eps": 1e-8, "fused": True, "capturable": GPU}


@pytest.fixture(autouse=True)
def everywhere(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The kernel serves on the CPU, too; counts its steps."""
    from truesort.ops.cuda import _adamw

    launches, update = [], _adamw.update
    monkeypatch.setattr(_adamw, "update", lambda *given: launches.append(1) or update(*given))
    if not GPU:
        monkeypatch.setattr(adamw, "_on_gpu", lambda tensor, _: tensor.dtype == torch.float32)
    return launches


def model() -> nn.Sequential:
    """A model with parameters of one element, of several blocks, with channels last, and with one channel."""
    convolutions = (nn.Conv2d(1, 4, 5), nn.Conv2d(4, 9, 3), nn.Flatten(), nn.Linear(9, 150), nn.Linear(150, 1))
    return nn.Sequential(*convolutions).to(DEVICE).to(memory_format=torch.channels_last)


def rate(value: float = 0.01) -> Tensor:
    return torch.tensor(value, device=DEVICE)


def steps(scorer: nn.Module, optimizer: torch.optim.Optimizer, count: int, seed: int = 0) -> None:
    generator = torch.Generator().manual_seed(seed)
    for _ in range(count):
        optimizer.zero_grad(set_to_none=True)
        x = torch.randn(5, 1, 7, 7, generator=generator).to(DEVICE)
        scorer(x).square().sum().backward()
        optimizer.step()


def pairs(ours: nn.Module, theirs: nn.Module) -> list[tuple[type[torch.optim.AdamW], nn.Module]]:
    return [(AdamW, ours), (torch.optim.AdamW, theirs)]


def close(a: nn.Module, b: nn.Module) -> None:
    for one, other in zip(a.parameters(), b.parameters(), strict=True):
        rtol, atol = (1e-3, 1e-4) if GPU else (1e-5, 1e-6)  # convolutions on a GPU do not repeat themselves
        torch.testing.assert_close(one, other, rtol=rtol, atol=atol)


def test_several_steps(everywhere: list[int]) -> None:
    """As torch's, also when the rate changes and a gradient is missing."""
    ours = model()
    theirs = copy.deepcopy(ours)
    mine, torchs = (kind(scorer.parameters(), rate(), **SETTINGS) for kind, scorer in pairs(ours, theirs))
    for count, trained in ((1, True), (3, False), (3, True)):
        for scorer, optimizer in ((ours, mine), (theirs, torchs)):
            scorer[0].requires_grad_(trained)
            steps(scorer, optimizer, count, seed=count)
            optimizer.param_groups[0]["lr"].mul_(0.7)
        close(ours, theirs)
    assert len(everywhere) == 7
    assert [state["step"].item() for state in mine.state.values()] == [4, 4, 7, 7, 7, 7, 7, 7]


def test_gradients_of_another_layout(everywhere: list[int]) -> None:
    """Only somebody who sets gradients by hand can make them."""
    ours = model()
    theirs = copy.deepcopy(ours)
    for kind, scorer in pairs(ours, theirs):
        torch.manual_seed(1)
        for parameter in scorer.parameters():
            grad = torch.randn(parameter.shape, device=DEVICE)
            parameter.grad = grad if kind is AdamW else torch.empty_like(parameter).copy_(grad)
        kind(scorer.parameters(), rate(), **SETTINGS).step()
    close(ours, theirs)
    assert len(everywhere) == 1


def test_moments_go_to_torch_and_back() -> None:
    """What a checkpoint keeps is torch's, and either goes on from what the other left."""
    ours = model()
    first = AdamW(ours.parameters(), rate(), **SETTINGS)
    steps(ours, first, 2)
    kept = {name: value.detach().cpu().contiguous().clone() for name, value in moments(first).items()}
    assert sorted(kept)[:3] == ["0.exp_avg", "0.exp_avg_sq", "0.step"]
    results = []
    for kind in (AdamW, torch.optim.AdamW):
        scorer = copy.deepcopy(ours)
        optimizer = kind(scorer.parameters(), rate(), **SETTINGS)
        restore_moments(optimizer, {name: value.clone().to(DEVICE) for name, value in kept.items()})
        steps(scorer, optimizer, 2)
        results.append(scorer)
    steps(ours, first, 2)
    close(ours, results[0])
    close(ours, results[1])


def test_a_rate_that_is_no_tensor_is_left_to_torch(everywhere: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    ours = model()
    theirs = copy.deepcopy(ours)
    for kind, scorer in pairs(ours, theirs):
        steps(scorer, kind(scorer.parameters(), 0.01, fused=True), 2)
    close(ours, theirs)
    assert not everywhere


@pytest.mark.gpu
def test_in_captured_graphs(everywhere: list[int]) -> None:
    """A replay takes the gradients of its own backward pass, also with two graphs of one optimiser."""
    ours, x = model(), torch.randn(5, 1, 7, 7, device="cuda")
    theirs = copy.deepcopy(ours)
    mine, torchs = (kind(scorer.parameters(), rate(), **SETTINGS) for kind, scorer in pairs(ours, theirs))

    def step(scorer: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        optimizer.zero_grad(set_to_none=True)
        scorer(x).square().sum().backward()
        optimizer.step()

    graphs = []
    for _ in range(2):
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            step(ours, mine)
        torch.cuda.current_stream().wait_stream(aside)
        step(theirs, torchs)
        graphs.append(torch.cuda.CUDAGraph())
        with torch.cuda.graph(graphs[-1]):
            step(ours, mine)
    for turn in range(6):
        x.copy_(torch.randn(5, 1, 7, 7, generator=torch.Generator().manual_seed(turn)))
        graphs[turn % 2].replay()
        step(theirs, torchs)
    assert len(everywhere) == 4
    assert all(state["step"].item() == 8 for state in mine.state.values())
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3)
