"""What truesort does, in a minute, without a download or a GPU: exact sorting with a gradient, and what it teaches.

A scorer learns to read four-digit numbers from sequences of five pictures and their right order alone; no one tells it
what a digit is. The pictures come with scikit-learn; those it is tested on are in no sequence it learns from.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from rich import box
from rich.console import Console
from rich.table import Table

from truesort import data, functional
from truesort.engine.config import Config, Cosine, Method, Permutation, from_facts
from truesort.engine.inference import load
from truesort.engine.picture import draw
from truesort.engine.progress import show_on
from truesort.engine.record import RunFolder, read_json
from truesort.engine.train import train
from truesort.ops import Network, NeuralSort, Permutahedron, Sinkhorn, SoftSort

LENGTH = 5
METHODS: dict[str, Method] = {
    "error-free network": Network(),
    "soft network": Network(error_free=False),
    "NeuralSort": NeuralSort(),
    "SoftSort": SoftSort(),
    "Sinkhorn": Sinkhorn(),
    "Permutahedron": Permutahedron(),
}


@dataclass(frozen=True)
class Demo:
    """Where the demo writes, and how long it learns."""

    folder: Path = Path("demo")
    """Folder of the picture and the run; an earlier demo there is replaced."""
    steps: int = 3000
    """Updates of the scorer."""
    seed: int = 42
    """Seed of the scorer and its batches."""


def run(demo: Demo) -> None:
    """Everything the command shows."""
    console = Console(highlight=False, soft_wrap=True)
    _compare_methods(console)
    _teach(console, demo)


def _compare_methods(console: Console) -> None:
    numbers = torch.tensor([2.0, 0.5, 1.4, 1.3, 4.5])
    wanted = torch.tensor([0.0, 1.0, 2.0, 3.0, 4.0])
    console.print(f"[bold]1  Sort {_list(numbers)} with each method[/bold]")
    console.print(f"   and move the numbers a step down the gradient of their distance from {_list(wanted)}\n")
    table = Table("method", "sorted", "off by", "distance", box=box.SIMPLE_HEAD, pad_edge=False)
    for name, method in METHODS.items():
        found, before, after = _one_step(numbers, wanted, method)
        off = (found - numbers.sort().values).abs().max().item()
        table.add_row(name, _list(found), "0, exactly" if off == 0 else f"{off:.4f}", f"{before:.3f} → {after:.3f}")
    console.print(table)


def _one_step(numbers: torch.Tensor, wanted: torch.Tensor, method: Method) -> tuple[torch.Tensor, float, float]:
    """The sorted numbers, and the loss before and after a step down its gradient."""
    x = numbers.clone().requires_grad_()
    found = functional.sort(x, method)
    loss = (found - wanted).square().sum()
    loss.backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None
    moved = functional.sort(x.detach() - 0.1 * x.grad, method)
    return found.detach(), loss.item(), (moved - wanted).square().sum().item()


def _list(numbers: torch.Tensor) -> str:
    return " ".join(f"{number:.2f}" for number in numbers.tolist())


def _teach(console: Console, demo: Demo) -> None:
    console.print(
        f"[bold]2  Teach a network to sort pictures of numbers, {LENGTH} at a time, from their order alone[/bold]\n"
    )
    start = time.monotonic()
    folder = demo.folder / "run"
    _clear(folder)
    with _one_thread():
        result = train(_config(demo), folder, device="cpu", show=show_on(sys.stdout, "learning"))
    picture = demo.folder / "sorted.png"
    draw(load(folder), data.open("digits4"), LENGTH, picture)
    test = result["test"]
    table = Table("on pictures it never saw", "", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_row(f"all {LENGTH} in the right order", f"{test['exact_match']:.1%}")
    table.add_row("pictures in the right place", f"{test['element_wise']:.1%}")
    table.add_row("by guessing", "0.8%, 20.0%")
    console.print(table)
    console.print(f"Before and after: [bold]{picture}[/bold]   ({time.monotonic() - start:.0f} s)")


@contextmanager
def _one_thread() -> Iterator[None]:
    """A second core helps so small a scorer little, and on a busy machine two threads mostly wait."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _config(demo: Demo) -> Config:
    return Config(
        "digits4",
        LENGTH,
        method=Network(steepness=10.0),
        loss=Permutation(lambda_hard=0.0),
        steps=demo.steps,
        batch=50,
        learning_rate=3e-3,
        schedule=Cosine(warmup=min(100, demo.steps // 10)),
        validate_every=max(1, demo.steps // 6),
        validation=500,
        test=2000,
        seed=demo.seed,
    )


def _clear(folder: Path) -> None:
    """Make room for a new run where the last demo's is."""
    run = RunFolder(folder)
    if not run.config.exists() or from_facts(read_json(run.config)).task != "digits4":
        return
    with run.held():
        for file in (run.result, run.checkpoint, run.model, run.metrics, run.config):
            file.unlink(missing_ok=True)
