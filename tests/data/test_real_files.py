"""The real files, where somebody has them: set TRUESORT_DATA to a folder with mnist/, svhn/ or cifar10/ in it."""

import os
from pathlib import Path

import pytest

from truesort import data
from truesort.data.svhn import read_packed

FOLDER = os.environ.get("TRUESORT_DATA")
pytestmark = pytest.mark.skipif(FOLDER is None, reason="TRUESORT_DATA names no folder: real datasets are not tested")


def here(*names):
    """Skip unless one of the files is in the folder."""
    found = [Path(str(FOLDER)) / name for name in names if (Path(str(FOLDER)) / name).exists()]
    if not found:
        pytest.skip(f"none of {', '.join(names)} in {FOLDER}")
    return found[0]


def test_mnist():
    here("mnist/train-images-idx3-ubyte.gz", "mnist/train-images-idx3-ubyte")
    numbers = data.open("mnist4")
    assert [numbers.size(split) for split in data.SPLITS] == [55_000, 5_000, 10_000]
    assert numbers.item_shape == (1, 28, 112)
    pixels = [numbers._pictures[split].images.double() for split in ("train", "validation")]
    assert sum(part.sum() for part in pixels).item() / (60_000 * 784 * 255) == pytest.approx(0.1307, abs=5e-5)
    assert data.open("mnist_3x3").item_shape == (1, 9, 9)


def test_street_numbers():
    arrays = read_packed(here("svhn/svhn64_test.npz"))
    assert arrays["images"].shape == (13_068, 64, 64, 3)
    assert arrays["numbers"].min() >= 0
    assert len(str(arrays["numbers"].max())) == 5


def test_cifar():
    here("cifar10/cifar-10-python.tar.gz", "cifar10/data_batch_1.png", "package/data_batch_1.png")
    fragments = data.open("cifar10_2x2")
    assert [fragments.size(split) for split in data.SPLITS] == [45_000, 5_000, 10_000]
    pixels = [fragments._images[split].double() for split in ("train", "validation")]
    means = sum(part.sum((0, 1, 2)) for part in pixels) / (50_000 * 32 * 32 * 255)
    assert means.tolist() == pytest.approx([0.4914, 0.4822, 0.4465], abs=5e-5)
