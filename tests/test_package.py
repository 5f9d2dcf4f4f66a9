"""The package as a user meets it: what importing costs, what is public, which versions it says it needs."""

import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import truesort as ts

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PINS = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line)
NEEDED = [Requirement(text) for text in PROJECT["dependencies"]] + [
    Requirement(text)
    for extra in ("svhn", "parquet", "test", "docs")
    for text in PROJECT["optional-dependencies"][extra]
]

WHAT_IMPORT_ADDS = """
import sys
import numpy, torch
before = set(sys.modules)
import truesort
print(*{name.partition(".")[0] for name in set(sys.modules) - before} - sys.stdlib_module_names - {"numpy", "torch"})
"""


def test_importing_loads_only_torch_and_numpy() -> None:
    run = subprocess.run([sys.executable, "-c", WHAT_IMPORT_ADDS], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["truesort"]


def test_importing_does_not_load_the_compiler() -> None:
    """It would double the time, although it is a part of torch."""
    code = "import sys, truesort; sys.exit('torch._dynamo' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_version_comes_from_one_place() -> None:
    assert ts.__version__ == PROJECT["version"] == version("truesort")


@pytest.mark.parametrize("name", ts.__all__)
def test_public_names_exist_and_say_what_they_are(name: str) -> None:
    thing = getattr(ts, name)
    assert isinstance(thing, str) or thing.__doc__


@pytest.mark.parametrize("need", [need for need in NEEDED if need.name != "truesort"], ids=str)
def test_pins_fit_the_bounds(need: Requirement) -> None:
    assert need.specifier.contains(PINS[need.name])


def test_files_are_short() -> None:
    long = {path.name for path in (ROOT / "src").rglob("*.py") if len(path.read_text().splitlines()) > 400}
    assert not long


def test_types_are_published() -> None:
    assert (Path(ts.__file__).parent / "py.typed").exists()
