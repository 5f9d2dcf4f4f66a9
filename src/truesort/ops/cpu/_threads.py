"""Rows among threads. Compiled code lets go of Python's lock, so plain threads do; small work stays where it is.

Numba's own parallel loops are not used: they compile for seconds, and their thread pools end the process when it forks
or when two Python threads call at once.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import pairwise

import torch

GRAIN = 200_000
"""Work, about nanoseconds of one core, below which waking another thread costs more than it saves."""


@lru_cache(maxsize=1)
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, "truesort")


def parts_for(work: int) -> int:
    """Among how many threads to split this much work."""
    return max(1, min(torch.get_num_threads(), work // GRAIN))


def split(job: Callable[[int, int], None], rows: int, parts: int) -> None:
    """Call `job(begin, end)` on about equal parts of the rows, one of them here, and wait for all."""
    bounds = [rows * part // parts for part in range(parts + 1)]
    if parts == 1:
        job(0, rows)
        return
    pool = _pool(os.getpid(), torch.get_num_threads())
    waiting = [pool.submit(job, begin, end) for begin, end in pairwise(bounds[1:])]
    job(bounds[0], bounds[1])
    for future in waiting:
        future.result()
