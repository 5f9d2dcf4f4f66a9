"""The benchmark of the functions: who is compared, what is left out and why, and what the page makes of it."""

import importlib.util
import json
import time
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import Tensor

import truesort as ts
from truesort import cli
from truesort.engine import bench_ops, bench_report, compile_time, peers
from truesort.engine.bench_ops import OpsBench, Target
from truesort.engine.peers import CONTENDERS, Case, Contender
from truesort.engine.stopwatch import Rates, Stopwatch

ROOT = Path(__file__).parents[2]
CPU = torch.device("cpu")
SOFT = ts.Network(error_free=False)


def bench(**options: object) -> OpsBench:
    return OpsBench(device="cpu", what=("values",), sizes=(4,), rows=(3,), budget=0.01, **options)


def stand_in(name: str, function: peers.Function, **options: object) -> Contender:
    """A peer that is installed, for it is part of Python."""
    serving = {"whats": ("values",), "build": lambda case, device: function, "work": lambda case: 1.0}
    return Contender(name, **{**serving, "bytes": lambda case: 1.0, "like": "soft", "package": "json", **options})


@pytest.fixture
def join(monkeypatch: pytest.MonkeyPatch) -> object:
    """Let somebody take part."""
    return lambda contender: monkeypatch.setitem(CONTENDERS, contender.name, contender)


def of(name: str, options: OpsBench) -> dict[str, object]:
    found = bench_ops.run(options, say=lambda line: None)["results"]
    return {result["contender"]: result for result in found}[name]


def test_results_name_machine_versions_and_seed(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    options = OpsBench(device="cpu", sizes=(2, 5), rows=(1, 3), budget=0.01, seed=7, save=file)
    said: list[str] = []
    facts = bench_ops.run(options, said.append)
    assert json.loads(file.read_text()) == facts
    assert facts["seed"] == 7
    assert facts["versions"]["torch"] == torch.__version__
    assert set(facts["peers"]) == {"diffsort", "difftopk", "torchsort", "fast-soft-sort"}
    assert "threads" in facts["hardware"]
    assert len(said) == len(options.what) * 4
    ours = [result for result in facts["results"] if CONTENDERS[result["contender"]].like is None]
    assert len(ours) == 4 * 4 * 3 + 2 * 4  # networks compute all, the permutahedron values and ranks
    assert all(0 < (result["floor_ms"] or 1e-9) < result["fastest_ms"] <= result["ms"] for result in ours)


def test_cases() -> None:
    everything = bench_ops.cases(OpsBench(), CPU)
    assert {case.n for case in everything} == {2, 8, 32, 128, 1000, 10_000, 100_000}
    assert {case.rows for case in everything} == {1, 100, 10_000, 100_000}
    assert all((case.layout == "odd_even") == (case.n <= 1000) for case in everything)
    quick = bench_ops.cases(OpsBench(quick=True), CPU)
    assert set(quick) < set(everything)
    assert max(case.n * case.rows for case in quick) == 100_000
    for device, targets in bench_ops.TARGETS.items():
        asked = bench_ops.cases(OpsBench(targets=True), torch.device(device))
        assert len(asked) == len(set(asked)) == len({target.case for target in targets})


@pytest.mark.parametrize(
    ("options", "message"),
    [({"sizes": (0,)}, "sizes is (0,); all must be at least 1"), ({"limit": 0.0}, "limit is 0.0; it must be above 0")],
)
def test_wrong_options(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("(", r"\(").replace(")", r"\)")):
        bench_ops.run(replace(OpsBench(device="cpu"), **options))


def test_a_peer_with_our_answers_is_timed(join) -> None:
    join(stand_in("twin", lambda keys: ts.sort(keys, SOFT)))
    found = of("twin", bench())
    assert found["left_out"] is None
    assert found["ms"] > 0
    assert found["floor_ms"] is None


class OtherGradient(torch.autograd.Function):
    """Our answer, and half of our gradient."""

    @staticmethod
    def forward(ctx: object, keys: Tensor) -> Tensor:
        return keys.clone()

    @staticmethod
    def backward(ctx: object, grad: Tensor) -> Tensor:
        return grad / 2


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda keys: ts.sort(keys, SOFT) + 0.01, "its answer differs from ours by 0.01"),
        (lambda keys: ts.sort(OtherGradient.apply(keys), SOFT), "its gradient differs from ours by"),
        (lambda keys: ts.sort(keys, SOFT) * torch.nan, "its answer differs from ours by nan"),
        (lambda keys: keys.sort(nonsense=1), "fails: TypeError"),
    ],
)
def test_a_peer_that_differs_or_fails_is_not_timed(function: peers.Function, why: str, join) -> None:
    join(stand_in("stranger", function))
    found = of("stranger", bench())
    assert found["ms"] is None
    assert why in found["left_out"]


def test_what_takes_too_much_is_left_out(join) -> None:
    def slow(keys: Tensor) -> Tensor:
        time.sleep(0.02)
        return ts.sort(keys, SOFT)

    join(stand_in("slow", slow))
    join(stand_in("large", slow, bytes=lambda case: 2.0**60))
    assert of("slow", bench(limit=0.01))["left_out"].startswith("time: 0.0 s a call")
    assert of("large", bench())["left_out"].startswith("memory: about 1,073,741,824 GiB")
    join(stand_in("growing", slow, work=lambda case: float(case.rows)))
    rows = replace(bench(limit=10.0), rows=(1, 100_000))
    found = [one for one in bench_ops.run(rows, print)["results"] if one["contender"] == "growing"]
    assert found[0]["ms"] > 20
    assert found[1]["left_out"].startswith("time: about 2,")


def test_what_is_not_begun_in_time_is_left_out() -> None:
    assert of("soft", bench(total=1e-9))["left_out"] == "out of time"


@pytest.mark.parametrize("case", [Case("top5", 8, 3), Case("top5", 4, 3)])
def test_difftopk_is_the_mirror_image(case: Case) -> None:
    """It sorts ascending and keeps the last columns."""
    keys = torch.randn(case.rows, case.n)
    last = CONTENDERS["difftopk"].as_ours(lambda keys: ts.permutation(keys, SOFT)[..., -case.top :], case)
    torch.testing.assert_close(last(keys), ts.topk(keys, case.top, SOFT)[1])


def test_ranks_of_peers_count_from_one() -> None:
    case, keys = Case("ranks", 5, 3), torch.randn(3, 5)
    one_more = CONTENDERS["torchsort"].as_ours(lambda keys: ts.rank(keys) + 1, case)
    assert torch.equal(one_more(keys), ts.rank(keys))


@pytest.mark.parametrize("name", ["diffsort", "difftopk", "torchsort", "fast-soft-sort"])
def test_installed_peers_have_our_answers(name: str) -> None:
    contender = CONTENDERS[name]
    if contender.missing():
        pytest.skip(f"{name} is not installed")
    for what in contender.whats:
        case = Case(what, 8, 5)
        function = contender.as_ours(contender.build(case, CPU), case)
        assert peers.difference(function, CONTENDERS[contender.like].build(case, CPU), case, CPU) is None, what


def test_stopwatch() -> None:
    watch = Stopwatch(CPU)
    assert 0.01 <= watch.seconds(lambda: time.sleep(0.01), calls=3) < 0.1
    peak = watch.peak(lambda: torch.ones(16 << 20))
    assert peak is None or 60 << 20 < peak < 80 << 20
    assert watch.captured(lambda: None) is None


def test_first_calls(capsys: pytest.CaptureFixture[str]) -> None:
    compile_time.first_calls()
    seconds = json.loads(capsys.readouterr().out)
    assert len(seconds) == len(compile_time.COMMON)
    assert "ranks, Permutahedron" in seconds


def result(contender: str, ms: float | None, case: Case, **more: object) -> dict[str, object]:
    return {**case._asdict(), "contender": contender, "ms": ms, "left_out": None if ms else "too much", **more}


def test_targets_say_what_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    ratio, long, missing = Case("permutation", 5, 100), Case("values", 9, 1, "bitonic"), Case("permutation", 6, 100)
    asked = [Target(ratio, "diffsort", 20), Target(ratio, "diffsort", 30), Target(long, milliseconds=5)]
    monkeypatch.setitem(bench_ops.TARGETS, "cpu", [*asked, Target(missing, "diffsort", 9)])
    results = [result("soft", 0.1, ratio, floor_ms=0.01), result("diffsort", 2.5, ratio), result("soft", 6, long)]
    sheet = bench_report.targets([*results, result("diffsort", None, missing)], "cpu")
    assert [row[-3:] for row in sheet.rows] == [
        ["25.0×", "≥ 20×", "yes"], ["25.0×", "≥ 30×", "no"], ["6.00 ms", "≤ 5 ms", "no"], ["–", "≥ 9×", "–"]
    ]  # fmt: skip
    assert all(len(row) == len(sheet.columns) for row in sheet.rows)
    assert sheet.rows[2][:3] == ["values, bitonic", "9", "1"]


def test_tables_and_picture(tmp_path: Path) -> None:
    case = Case("values", 1000, 100)
    results = [result("soft", 0.1234, case, peak_bytes=3 << 20), result("diffsort", None, case)]
    assert bench_report.times(results).rows == [["values", "1,000", "100", "0.123"]]
    assert bench_report.times(results, "peak_bytes").rows == [["values", "1,000", "100", "3.0"]]
    assert bench_report.left_out(results).rows == [["values", "1,000", "100", "diffsort", "too much"]]
    assert bench_report.times(results).markdown().splitlines()[1] == "| :--- | ---: | ---: | ---: |"
    pictures = []
    for number in range(2):
        bench_report.draw(results, "machine", file := tmp_path / f"{number}.svg")
        pictures.append(file.read_bytes())
    assert pictures[0] == pictures[1]
    with pytest.raises(ValueError, match="no time to draw"):
        bench_report.draw(results[1:], "machine", tmp_path / "none.svg")


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--device", "cpu", "--what", "ranks", "--sizes", "4", "--rows", "2", "--budget", "0.01", "--plot"]
    assert cli.main(["bench", "ops", *options, str(tmp_path / "speed.png")]) == 0
    shown = capsys.readouterr()
    assert "error-free" in shown.out
    assert "ranks, n = 4, B = 2, odd_even: soft" in shown.err
    assert (tmp_path / "speed.png").read_bytes().startswith(b"\x89PNG")
    assert cli.main(["bench", "--help"]) == 0
    assert {"ops", "train"} <= set(capsys.readouterr().out.split())
    assert cli.main(["bench", "everything"]) == 2
    assert "unknown benchmark 'everything'; choices: ops, train" in capsys.readouterr().err


def report() -> ModuleType:
    spec = importlib.util.spec_from_file_location("ops_report", ROOT / "benchmarks" / "ops_report.py")
    assert spec
    assert spec.loader
    spec.loader.exec_module(module := importlib.util.module_from_spec(spec))
    return module


def test_the_page_says_what_was_measured() -> None:
    page = (ROOT / "docs" / "speed.md").read_text(encoding="utf-8")
    assert report().written(page) == page, "run benchmarks/ops_report.py"
    assert "| yes |" in page


def test_floor() -> None:
    case = Case("permutation", 4, 10)
    assert bench_ops.floor(case, "soft", Rates(bytes=1e3, operations=1e99)) == 4 * 10 * 4 * 11
    assert bench_ops.floor(case, "soft", Rates(bytes=1e99, operations=1e3)) == 10 * 6 * 4 * 14
    assert bench_ops.floor(case, "error-free, matrix", Rates(bytes=1e99, operations=1e3)) == 10 * 6 * 9
    assert bench_ops.floor(case, "diffsort", Rates(1.0, 1.0)) is None
