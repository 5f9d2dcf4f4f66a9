"""Sorting a million rows of 64 features by a taught model: rows a second and the most memory, by kind of file.

    python benchmarks/teach_million.py [--rows 1000000] [--threads 2] [--folder DIR]

Files are made once in the folder. Each line is `truesort sort MODEL FILE -o OUT` as a process of its own: seconds are
those of the whole command, from the start of Python to the written order, and of it without its start (what the same
command takes for 1,000 rows); memory is the process's largest resident set. With `--top 10` only ten rows are kept.
"""

import argparse
import csv
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

import truesort as ts
from truesort.engine import machine
from truesort.teaching import Recipe

FEATURES, BLOCK = 64, 50_000
MATRIX, TABLES = "items.npy", ("items.parquet", "items.csv")


def make(folder: Path, rows: int) -> None:
    """The same rows in three files, the tables with names, and orders of the first thousand."""
    import pyarrow
    from pyarrow import csv as tables
    from pyarrow import parquet

    folder.mkdir(parents=True, exist_ok=True)
    draw = np.random.default_rng(0)
    weights = draw.normal(size=FEATURES)
    names = [f"x{column}" for column in range(FEATURES)]
    schema = pyarrow.schema([("name", pyarrow.string()), *((name, pyarrow.float32()) for name in names)])
    matrix = np.lib.format.open_memmap(folder / MATRIX, "w+", np.float32, (rows, FEATURES))
    with (
        parquet.ParquetWriter(folder / TABLES[0], schema) as packed,
        tables.CSVWriter(folder / TABLES[1], schema) as plain,
    ):
        for start in range(0, rows, BLOCK):
            values = draw.normal(size=(min(BLOCK, rows - start), FEATURES)).astype(np.float32)
            matrix[start : start + len(values)] = values
            columns = [[f"n{start + row}" for row in range(len(values))], *values.T]
            part = pyarrow.table([pyarrow.array(column) for column in columns], schema=schema)
            packed.write_table(part)
            plain.write_table(part)
    chosen = [draw.choice(1000, 5, replace=False) for _ in range(300)]
    right = [row[np.argsort(matrix[row] @ weights)] for row in chosen]
    for file, prefix in (("rows.csv", ""), ("names.csv", "n")):
        with (folder / file).open("w", newline="") as out:
            csv.writer(out).writerows([f"{prefix}{row}" for row in order] for order in right)


PROGRAM = """
import sys
from truesort.cli import main
code = main(sys.argv[1:])
print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
sys.exit(code)
"""


def measured(command: list[str], threads: int) -> tuple[float, float]:
    """Seconds and peak megabytes of a command in a process of its own, which says them itself."""
    environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
    start = time.perf_counter()
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, *command], env=environment, check=True, text=True, stdout=subprocess.PIPE
    )
    return time.perf_counter() - start, int(run.stdout) / 1024


def main() -> None:
    """Print a line for each kind of file and way to sort."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--folder", type=Path)
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    print(machine.hardware(torch.device("cpu")), machine.versions())
    with tempfile.TemporaryDirectory() as made:
        folder = asked.folder or Path(made)
        for size, place in ((1000, folder / "few"), (asked.rows, folder)):
            if not (place / "names.csv").exists():
                make(place, size)
        for file in (MATRIX, *TABLES):
            recipe = Recipe(steps=200, holdout=0)
            orders = "rows.csv" if file == MATRIX else "names.csv"
            ts.teach(folder / "few" / file, folder / "few" / orders, recipe).save(folder / "model.truesort")
            for options in ([], ["--top", "10"]):
                few, _ = measured(_sort(folder, folder / "few" / file, options), asked.threads)
                seconds, memory = measured(_sort(folder, folder / file, options), asked.threads)
                print(
                    f"{file:<14} {' '.join(options):<9} {seconds:5.1f} s   {asked.rows / seconds:9,.0f} rows/s   "
                    f"without start {asked.rows / (seconds - few):9,.0f} rows/s   {memory:5,.0f} MB",
                    flush=True,
                )


def _sort(folder: Path, file: Path, options: list[str]) -> list[str]:
    return ["sort", str(folder / "model.truesort"), str(file), "-o", str(folder / "sorted.csv"), *options]


if __name__ == "__main__":
    main()
