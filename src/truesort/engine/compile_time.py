"""How long the first calls take where nothing has been compiled yet: in a fresh process with an empty cache."""

import json
import os
import subprocess
import sys
import tempfile
import time

import torch

from truesort.engine.peers import CONTENDERS, Case
from truesort.engine.record import Facts

COMMON = [
    ("soft", "permutation"), ("error-free, swap", "permutation"), ("error-free, matrix", "permutation"),
    ("soft", "values"), ("error-free, swap", "values"), ("soft", "ranks"), ("error-free, swap", "ranks"),
    ("Permutahedron", "ranks"),
]  # fmt: skip
"""The common paths, in the order in which they are called first."""


def measured() -> Facts:
    """Seconds of each first call, forward and backward, without and then with what the process before it compiled."""
    with tempfile.TemporaryDirectory() as folder:
        return {state: _fresh_process(folder) for state in ("empty cache", "filled cache")}


def _fresh_process(folder: str) -> dict[str, float]:
    command = [sys.executable, "-c", f"from {__name__} import first_calls; first_calls()"]
    environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    seconds: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return seconds


def first_calls() -> None:
    """Call each common path once in this process and print the seconds as JSON."""
    seconds = {}
    for name, what in COMMON:
        keys = torch.randn(100, 16).requires_grad_()
        function = CONTENDERS[name].build(Case(what, 16, 100), keys.device)
        start = time.perf_counter()
        function(keys).sum().backward()  # type: ignore[no-untyped-call]
        seconds[f"{what}, {name}"] = time.perf_counter() - start
    print(json.dumps(seconds))
