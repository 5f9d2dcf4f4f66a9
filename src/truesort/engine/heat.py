"""One case of a benchmark: who can take part is checked and warmed up, then all run in turn.

Rounds of turns let whatever else the machine does meet everybody alike. What would take too long or too much memory,
or differs from ours, is left out with the reason in place of a time.
"""

import gc
import statistics
from dataclasses import dataclass, field

import torch
from torch import Tensor

from truesort.engine import peers
from truesort.engine.peers import CONTENDERS, NETWORKS, Case, Contender
from truesort.engine.record import Facts
from truesort.engine.stopwatch import Rates, Run, Stopwatch

ROUNDS = range(3, 31)
SAMPLE, MOST_CALLS = 0.02, 50
"""Seconds one turn takes at least, if so many calls are enough for that: as in training, one call follows another."""
SHORT = 0.05
COMPARED_ROWS = 8


@dataclass(frozen=True)
class Pace:
    """How long things may take, in seconds."""

    limit: float
    """A call."""
    budget: float
    """The rounds of a case."""
    seed: int
    foresight: bool = True
    """Whether a call is not even tried if smaller ones say that it takes too long."""


def entrants(case: Case, families: tuple[str, ...]) -> list[str]:
    """Who computes this, is of one of these families and is installed."""
    able = (one for one in CONTENDERS.values() if one.serves(case) and one.family in families)
    return [contender.name for contender in able if not contender.missing()]


def left_out(case: Case, contender: str, why: str) -> Facts:
    """A result without a time."""
    return {**case._asdict(), "contender": contender, "ms": None, "left_out": why}


def floor(case: Case, contender: str, rates: Rates) -> float | None:
    """The least time, in ms: bytes that must be read and written, and operations of a comparator, at the best rates.

    A comparator takes at least 5 operations a column forward, a difference and two updates by a multiply-add, and 9
    backward: two differences, the sum of products that the curve's gradient is, and two updates. A hard forward pass
    takes none, and the gradient of the matrices only one column.
    """
    if contender not in NETWORKS:
        return None
    moved = 4 * case.rows * case.n * (2 * case.columns + 3)  # result and its gradient; keys twice and their gradient
    each = {"soft": 14 * case.columns, "error-free, swap": 9 * case.columns, "error-free, matrix": 9}[contender]
    return 1000 * max(moved / rates.bytes, each * case.rows * case.comparators / rates.operations)


class History:
    """What was measured so far, to foresee what is too slow to be tried."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str, str], list[tuple[float, float]]] = {}

    def note(self, contender: Contender, case: Case, seconds: float) -> None:
        """Remember what a call took."""
        self._seen.setdefault((contender.name, case.what, case.layout), []).append((contender.work(case), seconds))

    def foreseen(self, contender: Contender, case: Case) -> float:
        """Seconds of a call at the best speed seen so far; 0 if none was."""
        seen = self._seen.get((contender.name, case.what, case.layout), [])
        return min((seconds * max(1.0, contender.work(case) / work) for work, seconds in seen), default=0.0)


class LeftOut(Exception):
    """Why a contender does not run."""


@dataclass
class _Runner:
    """A contender in a heat."""

    name: str
    run: Run
    first: float
    seconds: float
    peak: int | None
    replay: Run | None
    samples: list[float] = field(default_factory=list)
    replays: list[float] = field(default_factory=list)

    @property
    def calls(self) -> int:
        """Calls of a turn."""
        return max(1, min(MOST_CALLS, round(SAMPLE / self.seconds)))


class Heat:
    """One case on one device."""

    def __init__(self, case: Case, names: list[str], pace: Pace, watch: Stopwatch, history: History) -> None:
        self._case, self._names, self._pace, self._watch, self._history = case, names, pace, watch, history
        self._inputs: tuple[Tensor, Tensor] | None = None

    def results(self) -> list[Facts]:
        """The times, or why there are none."""
        found: dict[str, Facts | _Runner] = {name: self._entered(name) for name in self._names}
        self._race([runner for runner in found.values() if isinstance(runner, _Runner)])
        return [self._result(entry) if isinstance(entry, _Runner) else entry for entry in found.values()]

    def _entered(self, name: str) -> Facts | _Runner:
        """A contender ready to run; or, whatever goes wrong in it, the reason why it is not."""
        gc.collect()
        try:
            return self._warmed(CONTENDERS[name])
        except LeftOut as why:
            return left_out(self._case, name, str(why))
        except (MemoryError, torch.OutOfMemoryError):
            return left_out(self._case, name, "out of memory")
        except Exception as error:
            return left_out(self._case, name, f"fails: {type(error).__name__}: {error}"[:120])

    def _warmed(self, contender: Contender) -> _Runner:
        self._refuse_what_is_too_much(contender)
        run, watch = self._both_ways(contender), self._watch
        first = watch.first(run)
        seconds = min(watch.first(run) for _ in range(3 if first < SHORT else 1))
        self._history.note(contender, self._case, seconds)
        if seconds > self._pace.limit:
            raise LeftOut(f"time: {seconds:.1f} s a call")
        return _Runner(contender.name, run, first, seconds, watch.peak(run), watch.captured(run))

    def _refuse_what_is_too_much(self, contender: Contender) -> None:
        needed = contender.bytes(self._case)
        if needed > self._watch.free() / 2:
            raise LeftOut(f"memory: about {needed / 2**30:,.0f} GiB")
        seconds = self._history.foreseen(contender, self._case) if self._pace.foresight else 0.0
        if seconds > 1.5 * self._pace.limit:
            raise LeftOut(f"time: about {seconds:,.0f} s a call")

    def _both_ways(self, contender: Contender) -> Run:
        """Forward, and backward from a given gradient."""
        function = contender.build(self._case, self._watch.device)
        keys, above = self._drawn()
        if contender.like is not None:
            ours = CONTENDERS[contender.like].build(self._case, self._watch.device)
            few = self._case._replace(rows=min(self._case.rows, COMPARED_ROWS))
            if off := peers.difference(contender.as_ours(function, few), ours, few, self._watch.device):
                raise LeftOut(off)

        def run() -> object:
            answer = function(keys)
            return torch.autograd.grad(answer, keys, above.to(answer.dtype))

        return run

    def _drawn(self) -> tuple[Tensor, Tensor]:
        """The keys and the gradient from above, the same for all; drawn when the first one asks."""
        if self._inputs is None:
            device, case = self._watch.device, self._case
            drawn = torch.Generator(device).manual_seed(self._pace.seed)
            keys = torch.randn(case.rows, case.n, generator=drawn, device=device).requires_grad_()
            above = torch.randn(case.rows, case.n, *case.matrix, generator=drawn, device=device)
            self._inputs = keys, above
        return self._inputs

    def _race(self, runners: list[_Runner]) -> None:
        each = sum((runner.calls + 1) * runner.seconds for runner in runners)
        for _ in range(min(ROUNDS[-1], max(ROUNDS[0], int(self._pace.budget / max(each, 1e-9))))):
            for runner in runners:
                self._turn(runner)

    def _turn(self, runner: _Runner) -> None:
        """A short call is preceded by one that does not count: the caches hold what another one left there."""
        for run, samples in ((runner.run, runner.samples), (runner.replay, runner.replays)):
            if run is not None:
                if runner.seconds < SHORT:
                    run()
                samples.append(self._watch.seconds(run, runner.calls))

    def _result(self, runner: _Runner) -> Facts:
        return {
            **self._case._asdict(), "contender": runner.name, "ms": 1000 * statistics.median(runner.samples),
            "fastest_ms": 1000 * min(runner.samples), "first_ms": 1000 * runner.first,
            "graph_ms": 1000 * statistics.median(runner.replays) if runner.replays else None,
            "peak_bytes": runner.peak, "rounds": len(runner.samples), "left_out": None,
        }  # fmt: skip
