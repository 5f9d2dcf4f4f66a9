"""A taught model: sorting, the file it lives in, and files that lie."""

import json
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

import truesort as ts
from truesort.data import DataError
from truesort.engine import RunError
from truesort.engine.checkpoint import read_tensors, write_tensors
from truesort.teaching import Recipe, Taught, contact_sheet, scorers
from truesort.teaching.model import Ranking
from truesort.teaching.scorers import PictureNet, SetTransformer

NONE = Recipe(steps=2, holdout=0)


def table(folder: Path, rows: int, name: str = "items.csv") -> Path:
    draw = np.random.default_rng(0).normal(size=(rows, 3))
    text = "name,x,y,colour\n" + "".join(
        f"n{i},{x:.5f},{y:.5f},{'red' if z > 0 else 'blue'}\n" for i, (x, y, z) in enumerate(draw)
    )
    (folder / name).write_text(text)
    return folder / name


@pytest.fixture
def model(tmp_path: Path) -> Taught:
    return ts.teach(table(tmp_path, 30, "taught.csv"), [["n1", "n2", "n3"], ["n4", "n5"]], NONE)


def pictures(folder: Path, number: int = 8) -> Path:
    folder.mkdir()
    for i in range(number):
        Image.new("RGB", (20, 16), (25 * i, 25 * i, 25 * i)).save(folder / f"{i}.png")
    return folder


def test_top_is_the_head_of_the_whole_order(model: Taught, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = table(tmp_path, 500)
    monkeypatch.setattr("truesort.data._quick_csv.PART", 2000)
    for descending in (False, True):
        whole = model.sort(path, descending=descending)
        head = model.sort(path, descending=descending, top=7)
        assert head.names == whole.names[:7]
        assert torch.equal(head.scores, whole.scores[:7])
    assert whole.names == [name for _, name in sorted(zip(-whole.scores, whole.names, strict=True))]
    assert len(model.sort(path, top=10_000)) == 500


def test_top_keeps_no_more_than_it_needs(model: Taught, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    best = Ranking.best

    def spied(ranking: Ranking, number: int | None, descending: bool) -> Ranking:
        seen.append(len(ranking))
        return best(ranking, number, descending)

    monkeypatch.setattr(Ranking, "best", spied)
    monkeypatch.setattr("truesort.data._quick_csv.PART", 2000)
    model.sort(table(tmp_path, 500), top=7)
    assert len(seen) > 5
    assert max(seen) < 120


def test_equal_scores_keep_their_order_and_nan_is_last() -> None:
    ranking = Ranking(list("abcd"), torch.tensor([1.0, torch.nan, 1.0, 0.0]))
    assert ranking.best(None, descending=False).names == ["d", "a", "c", "b"]
    assert ranking.best(None, descending=True).names == ["a", "c", "d", "b"]


def test_saving_and_loading_changes_nothing(model: Taught, tmp_path: Path) -> None:
    model.save(tmp_path / "m.truesort")
    again = ts.load(tmp_path / "m.truesort")
    assert torch.equal(again.sort(tmp_path / "taught.csv").scores, model.sort(tmp_path / "taught.csv").scores)
    assert again.preparation == model.preparation
    assert again.report == model.report
    assert again.facts["recipe"]["steps"] == 2


@pytest.mark.parametrize("kind", ["item", "set"])
def test_pictures_travel_with_their_preparation(tmp_path: Path, kind: str) -> None:
    folder = pictures(tmp_path / "photos")
    model = ts.teach(folder, [["0.png", "3.png", "7.png"]], Recipe(model=kind, steps=2, holdout=0))  # type: ignore[arg-type]
    model.save(tmp_path / "m.truesort")
    again = ts.load(tmp_path / "m.truesort")
    torch.testing.assert_close(again.sort(folder).scores, model.sort(folder).scores)
    assert again.preparation.shape == (3, 24, 24)


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 2, 9), (3, 8, 8), (1, 16, 24), (3, 64, 64), (1, 100, 30)])
def test_picture_scorers_take_any_shape_and_come_back(shape: tuple[int, int, int]) -> None:
    config = PictureNet(shape)
    assert scorers.from_dict(json.loads(json.dumps(scorers.to_dict(config)))) == config
    network = config.build().eval()
    items = torch.randn(2, 3, *shape)
    scores = network(items)
    assert scores.shape == (2, 3)
    torch.testing.assert_close(network(items[:, :1]), scores[:, :1])


def test_a_set_scorer_ignores_what_is_masked_and_knows_no_places() -> None:
    network = SetTransformer(4).build().eval()
    items, mask = torch.randn(2, 5, 4), torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    scores = network(items, mask)
    torch.testing.assert_close(network(items[1:, :3])[0], scores[1, :3])
    torch.testing.assert_close(network(items.flip(1), mask.flip(1)).flip(1), scores)


def test_nothing_in_a_file_is_run_or_believed(model: Taught, tmp_path: Path) -> None:
    class Program:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return open, (str(tmp_path / "ran"), "w")  # type: ignore[return-value]

    path = tmp_path / "m.truesort"
    model.save(path)
    tensors, facts = read_tensors(path)

    def changed(**values: object) -> bytes:
        write_tensors(tmp_path / "other", tensors, {"taught": {**facts["taught"], **values}})
        return (tmp_path / "other").read_bytes()

    save_file(tensors, tmp_path / "bare")
    code = {"name": "x", "kind": "code", "centre": [], "spread": [], "values": []}
    huge = {"kind": "mlp", "inputs": 4, "hidden": [10**9, 10**9], "dropout": 0.0}
    hostile = {
        "pickle": pickle.dumps(Program()),
        "torch": (torch.save(Program(), tmp_path / "t"), (tmp_path / "t").read_bytes())[1],
        "header": struct.pack("<Q", 2**62) + b"{}",
        "cut": path.read_bytes()[:-10],
        "empty": b"",
        "foreign": (tmp_path / "bare").read_bytes(),
        "huge": changed(scorer=huge),
        "unknown": changed(scorer={"kind": "os.system", "inputs": 1}),
        "nothing": changed(scorer=None),
        "columns": changed(preparation={"columns": [code]}),
        "shape": changed(preparation={"shape": [1, 10**6, 10**6]}),
        "recipe": changed(recipe=[]),
        "report": changed(report={"lists": "many"}),
    }  # fmt: skip
    for name, content in hostile.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(RunError, match=str(tmp_path / name)):
            ts.load(tmp_path / name)
    assert not (tmp_path / "ran").exists()


def test_a_table_of_other_columns_is_refused(model: Taught, tmp_path: Path) -> None:
    (tmp_path / "other.csv").write_text("name,x,colour\na,1,red\n")
    with pytest.raises(DataError, match=r"other.csv lacks columns the model was taught with: y; it has x, colour"):
        model.sort(tmp_path / "other.csv")


@pytest.mark.parametrize("top", [0, -1, True, 2.5])
def test_top_must_be_a_number_of_items(model: Taught, tmp_path: Path, top: object) -> None:
    with pytest.raises(ValueError, match="top must be a whole number from 1 up"):
        model.sort(tmp_path / "taught.csv", top=top)  # type: ignore[arg-type]


def test_too_large_a_set_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("truesort.teaching.model.LONGEST_SET", 20)
    taught = ts.teach(np.eye(21), [[1, 2]], Recipe(model="set", steps=2, holdout=0))
    with pytest.raises(ValueError, match="items are 21; a model that compares the items of a set takes 20"):
        taught.sort(np.eye(21))


def test_the_sheet_shows_the_order(tmp_path: Path) -> None:
    import io

    folder = pictures(tmp_path / "photos")
    page = np.asarray(Image.open(io.BytesIO(contact_sheet(folder, ["7.png", "0.png", "3.png"]))))
    middles = [page[52, 52 + 100 * column].tolist() for column in range(3)]
    assert middles == [[175] * 3, [0] * 3, [75] * 3]
    with pytest.raises(DataError, match="not a folder of pictures"):
        contact_sheet(np.eye(3), ["0"])


def test_a_sheet_of_many_shows_some_from_first_to_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    monkeypatch.setattr("truesort.teaching.sheet.MOST", 3)
    folder = pictures(tmp_path / "photos", 9)
    page = np.asarray(Image.open(io.BytesIO(contact_sheet(folder, [f"{i}.png" for i in range(9)]))))
    assert [int(page[52, 52 + 100 * column, 0]) for column in range(3)] == [0, 100, 200]
