"""Every program in examples/ runs as it stands, says something, and is short enough to read at a glance."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))


@pytest.mark.parametrize("program", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(program: Path, tmp_path: Path) -> None:
    one_thread = os.environ | {"OMP_NUM_THREADS": "1"}
    run = subprocess.run(
        [sys.executable, str(program)], cwd=tmp_path, env=one_thread, capture_output=True, text=True, timeout=120
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout


@pytest.mark.parametrize("program", EXAMPLES, ids=lambda path: path.stem)
def test_example_is_short(program: Path) -> None:
    assert len(program.read_text(encoding="utf-8").splitlines()) < 60
