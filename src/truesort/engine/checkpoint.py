"""All that training needs to go on, in one file of tensors and JSON, replaced in one rename.

One file, because model, moments, random states and the best model so far must be of the same step, and only a rename is
all or nothing. Safetensors and JSON, because a pickle from somebody else is a program from somebody else.
"""

import json
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor
from torch.optim import Optimizer

from truesort.engine.record import Facts, RunError, write_atomically

NOTE = "truesort"
"""The key of the header under which our JSON lies."""


def write_tensors(path: Path, tensors: dict[str, Tensor], facts: Facts) -> None:
    """Write tensors and JSON as one safetensors file, atomically."""
    own = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    write_atomically(path, save(own, {NOTE: json.dumps(facts)}))


def read_tensors(path: Path) -> tuple[dict[str, Tensor], Facts]:
    """The tensors and the JSON of a file that `write_tensors` wrote."""
    try:
        with safe_open(path, framework="pt") as file:
            facts = json.loads((file.metadata() or {}).get(NOTE, "null"))
            if not isinstance(facts, dict):
                raise ValueError("it has no description by truesort")
            # Copies: a matrix product rounds by where in memory its factors lie, and in a file they lie anywhere.
            return {name: file.get_tensor(name).clone() for name in file.keys()}, facts  # noqa: SIM118 - not a dict
    except FileNotFoundError:
        raise RunError(f"{path} does not exist") from None
    except (SafetensorError, ValueError, RecursionError, OSError) as error:
        raise RunError(f"{path} is not a safetensors file of truesort, or is damaged: {error}") from error


def under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose name starts with `prefix.`, without it."""
    return {name[len(prefix) + 1 :]: tensor for name, tensor in tensors.items() if name.startswith(prefix + ".")}


def put(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors with `prefix.` before each name."""
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}


def moments(optimizer: Optimizer) -> dict[str, Tensor]:
    """What the optimiser remembers of each parameter, by number and name."""
    state = optimizer.state_dict()["state"]
    return {f"{number}.{key}": value for number, kept in state.items() for key, value in kept.items()}


def restore_moments(optimizer: Optimizer, kept: dict[str, Tensor]) -> None:
    """Give an optimiser back what `moments` took, in the memory layout of its parameters, which its kernels rely on."""
    (group,) = optimizer.param_groups
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in kept.items():
        number, key = name.split(".", 1)
        parameter = group["params"][int(number)]
        alike = torch.empty_like(parameter).copy_(value) if value.shape == parameter.shape else value
        state.setdefault(int(number), {})[key] = alike.detach()
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def random_states(draws: torch.Generator, device: torch.device) -> dict[str, Tensor]:
    """The states of the stream of batches and of torch's own streams, which dropout uses."""
    states = {"draws": draws.get_state(), "cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    return states


def restore_random_states(states: dict[str, Tensor], draws: torch.Generator, device: torch.device) -> None:
    """Wind every stream back to where `random_states` read it."""
    draws.set_state(states["draws"])
    torch.set_rng_state(states["cpu"])
    if device.type == "cuda" and "cuda" in states:
        torch.cuda.set_rng_state(states["cuda"], device)
