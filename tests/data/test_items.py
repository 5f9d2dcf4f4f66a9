"""Items: the same numbers from every kind of file, read in blocks, and clear words for what cannot be used."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from truesort.data import DataError, _quick_csv
from truesort.data import items as module
from truesort.data.items import ARRAY, Matrix, open_items
from truesort.teaching.preparation import Columns

VALUES = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of seven items, so that every test crosses their borders."""
    monkeypatch.setattr(module, "BLOCK", 7)


def csv_of(folder: Path, text: str | bytes, name: str = "items.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def table(folder: Path) -> Path:
    rows = "".join(f"n{row},{a!r},{b!r},{c!r}\n" for row, (a, b, c) in enumerate(VALUES.tolist()))
    return csv_of(folder, "name,x,y,z\n" + rows)


def test_every_kind_of_file_gives_the_same_numbers(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    np.save(tmp_path / "items.npy", VALUES)
    np.save(tmp_path / "fortran.npy", np.asfortranarray(VALUES))
    names = [f"n{row}" for row in range(50)]
    columns = {"name": names, **{name: VALUES[:, i] for i, name in enumerate("xyz")}}
    parquet.write_table(pyarrow.table(columns), tmp_path / "items.parquet")
    parquet.write_table(pyarrow.table({"name": names, "v": list(VALUES)}), tmp_path / "vectors.parquet")
    csv_of(tmp_path, "name,v\n" + "".join(f'n{i},"{row.tolist()}"\n' for i, row in enumerate(VALUES)), "vectors.csv")
    lines = (" ".join(f"{place}:{value!r}" for place, value in enumerate(row, 1)) for row in VALUES.tolist())
    csv_of(tmp_path, "".join(f"0 qid:1 {line} # x\n" for line in lines), "letor.txt")
    found = []
    for source in (
        table(tmp_path),
        *(tmp_path / name for name in ("items.npy", "fortran.npy", "items.parquet", "vectors.parquet")),
        *(tmp_path / name for name in ("vectors.csv", "letor.txt")),
        VALUES,
        torch.from_numpy(VALUES),
    ):
        blocks = list(open_items(source).blocks())
        assert [len(block.names) for block in blocks] == [7] * 7 + [1]
        whole = open_items(source).gather({name for block in blocks for name in block.names})
        found.append(Columns.fit(whole).encode(whole).values)
    for values in found:
        torch.testing.assert_close(values, found[0])


NUMBERS = {"x", "y"}


def read_twice(path: Path) -> tuple[list[tuple[object, ...]], list[tuple[object, ...]]]:
    """`(line, name, x, y, z)` of every row, read quickly and carefully, and what cannot be read."""
    found = []
    for numbers in (NUMBERS, ()):
        rows: list[tuple[object, ...]] = []
        for block in open_items(path).blocks(numbers):
            x, y = (
                np.asarray([float("nan" if cell == "" else cell) for cell in block.cells[name]]).tolist()
                for name in "xy"
            )
            rows += zip(block.lines, block.names, map(str, x), map(str, y), block.cells["z"], strict=True)
            rows += block.unreadable
        found.append(rows)
    return found[0], found[1]


def quick_rows(path: Path) -> int:
    """How many rows come as arrays."""
    return sum(
        len(block.names) for block in open_items(path).blocks(NUMBERS) if isinstance(block.cells["x"], np.ndarray)
    )


PLAIN = "".join(f"n{row},{row / 7!r},{row if row % 5 else ''},z{row}\n" for row in range(60))


@pytest.mark.parametrize(
    ("text", "quick"),
    [
        ("name,x,y,z\n" + PLAIN, 60),
        ("name,x,y,z\n" + PLAIN[:-1], 60),
        ('"name",x,y,"z"\r\n' + PLAIN.replace("n1,", '"n,1",').replace("\n", "\r\n"), 60),
        ("\ufeffname,x,y,z\n" + PLAIN + "end,1,2\n" + PLAIN, 60),
        ("name,x,y,z\n" + PLAIN + "\n" + PLAIN, 60),
        ("name,x,y,z\n" + PLAIN + '"two\nlines",1,2,3\n' + PLAIN, 60),
        ('name,x,y,"z"\n' + PLAIN.replace("n30,", "n30, "), 20),
        ('name,x,"y",z\n"a\nb",1,2,3\n' + PLAIN, 0),
    ],
)
def test_quick_and_careful_reading_agree(
    tmp_path: Path, text: str, quick: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(_quick_csv, "PART", 200)
    path = csv_of(tmp_path, text)
    fast, careful = read_twice(path)
    assert sorted(fast, key=str) == sorted(careful, key=str)
    assert quick_rows(path) > quick - 10


def test_texts_stay_texts_in_quick_reading(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    (block,) = open_items(csv_of(tmp_path, "name,x,code\n007,1e3,042\nNA,nan,\n")).blocks({"x"})
    assert block.names == ["007", "NA"]
    assert block.cells["code"] == ["042", ""]
    assert np.array_equal(block.cells["x"], [1000, np.nan], equal_nan=True)


def test_without_pyarrow_tables_are_read_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    rows = [name for block in open_items(table(tmp_path)).blocks({"x"}) for name in block.names]
    assert rows == [f"n{row}" for row in range(50)]
    with pytest.raises(DataError, match=r"pip install 'truesort\[parquet\]'"):
        open_items(csv_of(tmp_path, b"PAR1", "items.parquet"))


def test_of_parquet_nothing_is_kept_that_was_read(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    rows, groups = 5000, 24
    schema = pyarrow.schema([("name", pyarrow.int32()), *((f"x{column}", pyarrow.float32()) for column in range(20))])
    with parquet.ParquetWriter(tmp_path / "long.parquet", schema) as file:
        for group in range(groups):
            numbers = np.random.default_rng(group).normal(size=(20, rows)).astype(np.float32)
            file.write_table(pyarrow.table([np.arange(rows, dtype=np.int32), *numbers], schema=schema))
    before = pyarrow.total_allocated_bytes()
    taken = [pyarrow.total_allocated_bytes() - before for _ in open_items(tmp_path / "long.parquet").blocks()]
    assert max(taken) < groups * rows * 20 * 4 / 3


def test_gather_takes_what_is_wanted(tmp_path: Path) -> None:
    block = open_items(table(tmp_path)).gather({"n3", "n40", "unknown"})
    assert block.names == ["n3", "n40"]
    assert list(block.lines) == [5, 42]


def test_the_column_of_names_is_found_or_given(tmp_path: Path) -> None:
    path = csv_of(tmp_path, "size,file,code\n1,a,x\n2,b,y\n")
    assert next(open_items(path).blocks()).names == ["a", "b"]
    assert next(open_items(path, "code").blocks()).names == ["x", "y"]
    with pytest.raises(DataError, match="no column 'title'"):
        open_items(path, "title")


def test_only_names_that_are_wanted_must_be_unique(tmp_path: Path) -> None:
    source = open_items(csv_of(tmp_path, "name,x\na,1\nb,2\na,3\n"))
    assert source.gather({"b"}).names == ["b"]
    with pytest.raises(DataError, match=r"items.csv:4: the name a stands in line 2 too"):
        source.gather({"a"})


def test_a_row_of_the_wrong_length_is_set_aside(tmp_path: Path) -> None:
    (block,) = open_items(csv_of(tmp_path, "name,x\na,1\nb\nc,3,4\nd,5\n")).blocks()
    assert block.names == ["a", "d"]
    assert [name for name, _ in block.unreadable] == ["b", "c"]
    assert "items.csv:3: 1 cells under 2 columns" in block.unreadable[0][1]


def test_a_bad_letor_line_is_set_aside(tmp_path: Path) -> None:
    (block,) = open_items(csv_of(tmp_path, "1 qid:1 1:1 3:2\n0 qid:1 1:x\n0 qid:1 2:5\n", "train.txt")).blocks()
    assert block.names == ["1", "3"]
    assert block.cells[ARRAY].tolist() == [[1, 0, 2], [0, 5, 0]]
    assert "train.txt:2" in block.unreadable[0][1]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("items.csv", "", "is empty"),
        ("items.csv", "name" + ",x" * 1_000_000 + "\n", "items.csv:1: 1,000,001 columns"),
        ("items.csv", "name,x,x\na,1,2\n", "items.csv:1: two columns are called 'x'"),
        ("items.csv", b"name,x\na,1\n\xe9,2\n", "items.csv:3: not UTF-8"),
        ("items.csv", b"\xff\xd8\xff\xe0\0", "items.csv:1: not UTF-8"),
        ("items.npy", b"\x93NUMPY\x01", "not a matrix of numbers"),
        ("items.parquet", b"PAR1", "not a Parquet file"),
        ("items.txt", "hello\n", "is none of"),
        ("items.txt", "1 qid:1 999999:1\n", "features up to number 999999"),
    ],
)
def test_files_of_no_use_are_named(tmp_path: Path, name: str, content: str | bytes, says: str) -> None:
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    with pytest.raises(DataError) as error:
        for _ in open_items(csv_of(tmp_path, content, name)).blocks():
            pass
    assert says in str(error.value)


def test_a_line_without_end_is_refused_in_bounded_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("truesort.data._text.LONGEST_LINE", 1000)
    with pytest.raises(DataError, match=r"items.csv:1: a line of more than 1,000 bytes"):
        open_items(csv_of(tmp_path, "x" * 2000))


def test_no_pickle_is_loaded(tmp_path: Path) -> None:
    np.save(tmp_path / "items.npy", np.array([print, 1], dtype=object), allow_pickle=True)
    with pytest.raises(DataError, match="not a matrix of numbers"):
        open_items(tmp_path / "items.npy")


@pytest.mark.parametrize(
    "array", [np.zeros(5), np.zeros((0, 3)), np.zeros((2, 3), dtype=complex), np.zeros((2, 1, 8, 8))]
)
def test_arrays_that_are_no_items_are_refused(array: np.ndarray) -> None:
    with pytest.raises(DataError, match="items"):
        Matrix(array, "items")


def test_ragged_vectors_are_refused(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"name": ["a", "b"], "v": [[1.0], [1.0, 2.0, 3.0]]}), tmp_path / "v.parquet")
    with pytest.raises(DataError, match="not all of one length"):
        list(open_items(tmp_path / "v.parquet").blocks())


def test_pictures_are_found_in_nested_folders(tmp_path: Path) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    for name in ("b.png", "deep/a.PNG", "deep/er/b.png", "deep/c.png"):
        Image.new("L", (8, 8)).save(tmp_path / name)
    (tmp_path / "notes.txt").write_text("not a picture")
    source = open_items(tmp_path)
    assert [name for block in source.blocks() for name in block.names] == [
        "b.png",
        "deep/a.PNG",
        "deep/c.png",
        "deep/er/b.png",
    ]
    assert source.gather({"c.png", "b.png"}).cells[ARRAY] != []
    assert set(source.gather({"c.png", "b.png"}).names) == {"c.png", "b.png"}
    (tmp_path / "b.png").unlink()
    assert open_items(tmp_path).gather({"b.png"}).cells[ARRAY] == [tmp_path / "deep/er/b.png"]
    Image.new("L", (8, 8)).save(tmp_path / "deep/b.png")
    with pytest.raises(DataError, match=r"b.png is .* or .*"):
        open_items(tmp_path).gather({"b.png"})


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not exist"):
        open_items(tmp_path / "nothing")
    with pytest.raises(DataError, match="holds no pictures"):
        open_items(tmp_path)
    with pytest.raises(TypeError, match="items is of type int"):
        open_items(3)
