"""The figures show what the library computes, in both formats."""

from pathlib import Path
from xml.etree import ElementTree

import matplotlib.image
import pytest
import torch

from truesort import cli, data, functional, metrics
from truesort.networks import LAYOUTS
from truesort.ops import Network
from truesort.paper import figures
from truesort.paper.figures import accuracy, examples, swaps, wires

ALWAYS = [name for name in figures.FIGURES if name != "examples"]


@pytest.fixture(autouse=True)
def no_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither a folder of data sets nor downloads."""
    monkeypatch.delenv("TRUESORT_DATA", raising=False)
    monkeypatch.setattr(examples, "cache_folder", lambda: tmp_path / "no-cache")


def test_every_figure_in_both_formats(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["figures", "--folder", str(tmp_path / "new" / "figures"), "--sequences", "20"]) == 0
    shown = capsys.readouterr()
    files = [Path(line) for line in shown.out.splitlines()]
    assert [file.name for file in files] == [
        f"{name}.{kind}" for name in [*ALWAYS, "examples-digits4"] for kind in ("png", "svg")
    ]
    for file in files:
        if file.suffix == ".png":
            pixels = matplotlib.image.imread(file)
            assert min(pixels.shape[:2]) > 500
            assert pixels[..., :3].std() > 0.02
        else:
            assert ElementTree.parse(file).getroot().tag == "{http://www.w3.org/2000/svg}svg"
    left_out = [task for task in examples.TITLES if task != "digits4"]
    assert [line.split(":")[1] for line in shown.err.splitlines()] == [
        f" examples of {task} are left out" for task in left_out
    ]


def test_the_same_bytes_again(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        list(figures.draw(["swap-once", "split"], tmp_path / folder, None, 20, print))
    for file in (tmp_path / "a").iterdir():
        assert file.read_bytes() == (tmp_path / "b" / file.name).read_bytes(), file.name


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["swap-twice"], "unknown figure 'swap-twice'; choices: sorting-network, swap-once"),
        (["accuracy", "--sequences", "0"], "sequences must be at least 1, got 0"),
    ],
)
def test_what_there_is_not(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["figures", *arguments, "--folder", str(tmp_path / "figures")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "figures").exists()


def test_a_folder_that_cannot_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert cli.main(["figures", "split", "--folder", str(tmp_path / "file" / "figures")]) == 1
    assert "cannot write" in capsys.readouterr().err


@pytest.mark.parametrize(("x", "steps"), [(4.0, 9), (8.0, 15)])
def test_cauchy_makes_a_pair_one_at_the_papers_step(x: float, steps: int) -> None:
    assert swaps.swaps_until_same("cauchy", x, 0.0) == steps
    assert swaps.swaps_until_same("error_free", x, 0.0) is None


def test_paths_of_a_pair() -> None:
    """Only the error-free swap keeps the values; all keep their sum, and soft ones draw them together."""
    for name in swaps.LOOKS:
        path = swaps.path(name, 4.0, 0.0)
        gaps = path.diff(dim=1).flatten()
        torch.testing.assert_close(path.sum(1), torch.full((swaps.SWAPS + 1,), 4.0, dtype=path.dtype))
        assert bool((gaps.diff() == 0).all()) is (name == "error_free")
        assert bool((gaps.diff() <= 1e-12).all())


@pytest.mark.parametrize("values", [wires.VALUES, (0.3, -1.0, 2.5, 2.0, 0.1, 7.0)])
@pytest.mark.parametrize("method", [wires.SOFT, wires.HARD, Network(layout="bitonic", swap="cauchy", error_free=False)])
def test_matrices_of_wire_sets_make_the_permutation(method: Network, values: tuple[float, ...]) -> None:
    x = torch.tensor(values, dtype=torch.float64)
    matrices = wires.layer_matrices(x, method)
    assert method.layout != "odd_even" or len(matrices) == len(values)
    torch.testing.assert_close(torch.linalg.multi_dot(matrices), functional.permutation(x, method))


def test_columns_left_by_a_split_are_the_permutation_of_the_part() -> None:
    values = torch.tensor(wires.SPLIT_VALUES)
    P = functional.permutation(values, wires.HARD)
    for part in (slice(0, wires.FIRST), slice(wires.FIRST, None)):
        kept = P[part][:, P[part].sum(0) > 0]
        assert torch.equal(kept, functional.permutation(values[part], wires.HARD))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_accuracies_are_those_of_the_metrics(layout: str) -> None:
    method = Network(layout=layout, steepness=1.0, error_free=False)
    scores = torch.cat(list(accuracy._random(8, 700)))  # more than are drawn at once
    assert scores.shape == (700, 8)
    assert -10 <= scores.min() < -9 < 9 < scores.max() <= 10
    P = functional.permutation(scores, method)
    exact, element = (
        100 * measure(P, scores).mean().item()
        for measure in (metrics.permutation_exact_match, metrics.permutation_element_wise)
    )
    assert accuracy.measured(method, 8, 700) == pytest.approx((exact, element), abs=1e-3)
    assert 0 < exact < element < 100
    assert accuracy.measured(Network(layout=layout), 32, 50) == (100.0, 100.0)


def test_examples_show_the_right_order() -> None:
    (batch,) = data.open("digits4").fixed("test", 1, 5).batches(1)
    ordered = examples._in_order(data.Batch(batch.items[0], batch.values[0]))
    assert ordered.values.tolist() == sorted(batch.values[0].tolist())
    assert torch.equal(ordered.items[0], batch.items[0, batch.values[0].argmin()])


@pytest.mark.data
def test_examples_of_real_data(data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(examples.TITLES, "svhn")  # whose pictures take a quarter of a minute to unpack
    said: list[str] = []
    files = list(figures.draw(["examples"], tmp_path, data_folder, 1, said.append))
    drawn = {file.stem.removeprefix("examples-") for file in files}
    assert {"mnist4", "mnist_2x2", "mnist_3x3"} <= drawn
    assert drawn.isdisjoint(line.split()[2] for line in said)
    assert len(drawn) + len(said) == len(examples.TITLES)
