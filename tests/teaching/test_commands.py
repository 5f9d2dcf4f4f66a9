"""`teach`, `sort` and `check` as a shell user meets them: output, messages, exit codes, and files left as they were."""

import csv
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import truesort as ts
from truesort import cli
from truesort.teaching import Recipe

HEADER = "group,item,grade\n"


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with items.csv, orders.csv and the model that was taught with them."""
    folder = tmp_path_factory.mktemp("taught")
    values = np.random.default_rng(0).normal(size=(40, 2)).round(4)
    rows = "".join(f"n{row},{x},{y}\n" for row, (x, y) in enumerate(values.tolist()))
    (folder / "items.csv").write_text("name,x,y\n" + rows)
    order = values.sum(1).argsort()
    lists = [sorted(np.random.default_rng(seed).choice(40, 4, replace=False)) for seed in range(60)]
    (folder / "orders.csv").write_text("".join(",".join(f"n{order[place]}" for place in row) + "\n" for row in lists))
    recipe = Recipe(steps=100, learning_rate=5e-3, holdout=0)
    ts.teach(folder / "items.csv", folder / "orders.csv", recipe).save(folder / "m.truesort")
    return folder


@pytest.fixture
def here(taught: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it to work in."""
    shutil.copytree(taught, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(command: str) -> int:
    try:
        return cli.main(command.split())
    except SystemExit as end:  # tyro's way
        return int(end.code or 0)


def rows(path: str) -> list[list[str]]:
    with open(path, newline="") as file:
        return list(csv.reader(file))


def test_teaching_says_what_is_known(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("teach items.csv orders.csv -o again.truesort --steps 100 --learning-rate 0.005") == 0
    shown = capsys.readouterr()
    assert "pairwise accuracy" in shown.out
    assert "on 12 held-out lists (72 comparisons)" in shown.out
    assert "again.truesort: taught with 60 orders of 40 items" in shown.err
    assert "note: 12 lists are too few" in shown.err


def test_sorting_prints_or_writes(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("sort m.truesort items.csv") == 0
    printed = capsys.readouterr().out
    assert run("sort m.truesort items.csv -o sorted.csv") == 0
    assert Path("sorted.csv").read_text() == printed
    header, *found = rows("sorted.csv")
    assert header == ["position", "item", "score"]
    assert [int(place) for place, _, _ in found] == list(range(40))
    scores = [float(score) for _, _, score in found]
    assert scores == sorted(scores)
    assert run("sort m.truesort items.csv --descending --top 3 -o top.csv") == 0
    assert [name for _, name, _ in rows("top.csv")[1:]] == [name for _, name, _ in found[:-4:-1]]


def test_sorting_into_parquet(here: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    Path("items.csv").write_text(Path("items.csv").read_text() + "bad,oops,1\n")
    assert run("sort m.truesort items.csv -o sorted.parquet") == 1
    table = parquet.read_table("sorted.parquet").to_pydict()
    assert table["position"] == [*range(40), None]
    assert table["item"][-1] == "bad"
    assert table["score"][:-1] == sorted(table["score"][:-1])


def test_unreadable_items_are_named_at_the_end(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("items.csv").write_text(Path("items.csv").read_text() + "bad,oops,1\nshort,1\n")
    assert run("sort m.truesort items.csv -o sorted.csv") == 1
    assert {tuple(row) for row in rows("sorted.csv")[-2:]} == {("", "bad", ""), ("", "short", "")}
    assert len(rows("sorted.csv")) == 43
    said = capsys.readouterr().err
    assert "items.csv:42: x is 'oops', not a number" in said
    assert "items.csv:43: 2 cells under 3 columns" in said
    assert "truesort: unreadable items, named at the end of the order: 2" in said


def test_checking_on_new_orders(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("check m.truesort items.csv orders.csv") == 0
    assert "on 60 lists (360 comparisons)" in capsys.readouterr().out


def test_pictures_get_a_sheet(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(6):
        Path("photos/deep").mkdir(parents=True, exist_ok=True)
        Image.new("L", (20, 20), 40 * number).save(f"photos/deep/{number}.png")
    Path("photos/broken.jpg").write_bytes(b"no picture")
    Path("shades.jsonl").write_text('["0.png", ["1.png", "2.png"], "5.png"]\n{"lower": "3.png", "higher": "4.png"}\n')
    assert run("teach photos shades.jsonl -o photos.truesort --steps 3") == 0
    assert run("sort photos.truesort photos --sheet sheet.png") == 1
    shown = capsys.readouterr()
    assert ",broken.jpg," in shown.out.splitlines()[-1]
    assert "unreadable: photos/broken.jpg: not a readable picture" in shown.err
    assert Path("sheet.png").read_bytes().startswith(b"\x89PNG")


BAD_ORDERS = {
    "n1,n2\nn3,nobody\n": "bad.csv:2: there is no nobody in items.csv",
    "n1,n2\nn3,n3\n": "bad.csv:2: n3 stands twice in one list",
    "n1\n\n": "bad.csv holds no order",
    HEADER + "g,n1,1\ng,n2,good\n": "bad.csv:3: the grade 'good' is not a number",
}
BAD_ITEMS = {
    "name,x,y\nn1,1,2\nn1,2,3\n": "bad.csv:3: the name n1 stands in line 2 too",
    "name,x,y\nn\xe9,1,2\n": "bad.csv:2: not UTF-8",
    "name" + ",x" * 1_000_000 + "\n": "bad.csv:1: 1,000,001 columns",
    "": "bad.csv is empty",
}


@pytest.mark.parametrize(
    ("command", "content", "says"),
    [("teach items.csv bad.csv -o m.truesort", *case) for case in BAD_ORDERS.items()]
    + [("teach bad.csv orders.csv -o m.truesort", *case) for case in BAD_ITEMS.items()]
    + [
        ("sort m.truesort bad.csv -o kept.csv", "name,x\na,1\n", "bad.csv lacks columns the model was taught with: y"),
        ("sort m.truesort bad.csv -o kept.csv", "name,x,y\na,1,1\n\xe9,1,1\n", "bad.csv:3: not UTF-8"),
        ("sort bad.csv items.csv -o kept.csv", "x", "bad.csv is not a safetensors file of truesort"),
        ("sort nowhere.truesort items.csv -o kept.csv", "", "nowhere.truesort does not exist"),
        ("sort m.truesort nowhere -o kept.csv", "", "nowhere does not exist"),
        ("sort m.truesort items.csv --sheet sheet.png -o kept.csv", "", "items.csv is not a folder of pictures"),
        ("sort m.truesort items.csv -o nowhere/kept.csv", "", "the folder nowhere does not exist"),
        ("teach items.csv orders.csv -o nowhere/m.truesort", "", "the folder nowhere does not exist"),
        ("check m.truesort items.csv bad.csv", "n1,nobody\n", "bad.csv:1: there is no nobody in items.csv"),
    ],
)
def test_what_cannot_be_is_said_and_nothing_is_lost(
    here: Path, command: str, content: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("bad.csv").write_bytes(content.encode("latin-1"))
    Path("kept.csv").write_text("what was sorted before\n")
    before = Path("m.truesort").read_bytes()
    assert run(command) == 1
    said = capsys.readouterr().err
    assert said.startswith("truesort: ")
    assert says in said
    assert "Traceback" not in said
    assert Path("m.truesort").read_bytes() == before
    assert Path("kept.csv").read_text() == "what was sorted before\n"


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("sort m.truesort items.csv -o sorted.txt", "output must end in .csv or .parquet"),
        ("sort m.truesort items.csv --top 0", "top must be a whole number from 1 up"),
        ("teach items.csv orders.csv -o m.truesort --holdout 1", "holdout must be at least 0 and below 1"),
        ("teach items.csv orders.csv -o m.truesort --loss best", "--loss"),
        ("teach items.csv", "required"),
    ],
)
def test_what_is_not_understood(here: Path, command: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(command) == 2
    assert says in " ".join(capsys.readouterr().err.split())
