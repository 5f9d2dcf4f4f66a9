"""What a result was computed on: a number without its machine and versions cannot be compared with another."""

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from truesort.engine.record import Facts

PACKAGES = ("truesort", "torch", "triton", "numba", "numpy", "safetensors")


def versions() -> dict[str, str]:
    """Python's version and those of the packages that compute."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def hardware(device: torch.device) -> str:
    """The device in words."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{_processor()}, {torch.get_num_threads()} threads"


COMMIT_VARIABLE = "TRUESORT_COMMIT"
"""Names the commit where the source tree has come without its history, as into a container."""


def commit() -> str | None:
    """The commit of the source tree this package runs from; None where it is installed without one."""
    if told := os.environ.get(COMMIT_VARIABLE):
        return told
    folder = Path(__file__).parent
    try:
        run = subprocess.run(
            ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=12"],
            capture_output=True, text=True, timeout=5, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return run.stdout.strip() or None


def circumstances(device: torch.device) -> Facts:
    """Hardware, versions and commit, as they go into a result."""
    return {"hardware": hardware(device), "versions": versions(), "commit": commit()}


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
