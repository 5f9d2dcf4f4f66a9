"""What all tests share: the same random examples for everybody, one thread per worker, and clear reasons to skip.

Workers of pytest-xdist already fill the cores, so each runs torch on one thread. Data sets are not part of the
project: tests that read them look into the folder named by TRUESORT_DATA and say so when it is not there. Where there
is no GPU, Triton interprets its kernels; it must be told before it is first imported.
"""

import os
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings

torch.set_num_threads(1)
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
settings.register_profile(
    "steady", deadline=None, derandomize=True, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("steady")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests marked `gpu` are skipped, with the reason, where there is no GPU."""
    if not torch.cuda.is_available():
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason="no GPU here; `make test-gpu` on a machine that has one"))


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of data sets; skips the test where there is none."""
    folder = os.environ.get("TRUESORT_DATA")
    if not folder:
        pytest.skip("TRUESORT_DATA does not name a folder of data sets")
    return Path(folder)


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Random numbers of torch do not depend on which tests ran before."""
    torch.manual_seed(0)
