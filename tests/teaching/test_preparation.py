"""Preparation: what a picture or a cell becomes, and what happens to those that are broken or hostile."""

import json
import math
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from truesort.data import DataError
from truesort.data.items import open_items
from truesort.teaching import preparation
from truesort.teaching.preparation import Columns, Encoded, Pictures, from_facts, to_facts


def encoded(path: Path, like: Path | None = None, name: str | None = None) -> Encoded:
    block, fitted = (open_items(source, name).gather(names(source, name)) for source in (path, like or path))
    return preparation.fit(fitted).encode(block)


def names(path: Path, name: str | None = None) -> set[str]:
    return {item for block in open_items(path, name).blocks() for item in block.names}


def table(folder: Path, text: str, name: str = "items.csv") -> Path:
    (folder / name).write_text(text)
    return folder / name


def test_numbers_are_drawn_in_around_their_middle_and_missing_ones_are_it(tmp_path: Path) -> None:
    values = encoded(table(tmp_path, "name,x\na,1\nb,3\nc,\nd,NA\n")).values
    far = math.asinh(preparation.MIDDLE_HALF)  # the middle half of 1 and 3 is one wide
    torch.testing.assert_close(values, torch.tensor([[-far], [far], [0.0], [0.0]]))


def test_large_numbers_keep_their_differences(tmp_path: Path) -> None:
    """Seconds since 1970 differ in digits that float32 does not hold."""
    rows = "".join(f"n{second},{1_700_000_000 + second}\n" for second in range(20))
    assert len(encoded(table(tmp_path, "name,time\n" + rows)).values.unique()) == 20


def test_a_column_of_mostly_one_number_still_tells_the_others_apart(tmp_path: Path) -> None:
    values = encoded(table(tmp_path, "name,x\n" + "".join(f"n{row},{max(0, row - 80)}\n" for row in range(100)))).values
    assert values[0] == 0
    assert (values[81:].diff(dim=0) > 0.05).all()


def test_a_constant_column_and_a_wild_cell_stay_finite(tmp_path: Path) -> None:
    taught, wild = table(tmp_path, "name,x,y\na,1,7\nb,2,7\n"), table(tmp_path, "name,x,y\nc,1e30,8\n", "wild.csv")
    torch.testing.assert_close(encoded(wild, taught).values, torch.tensor([[preparation.FARTHEST, math.asinh(1)]]))


def test_categories_are_those_taught_and_new_ones_are_none(tmp_path: Path) -> None:
    taught = table(tmp_path, "name,colour\na,red\nb,blue\nc,red\nd,blue\ne,green\n")
    found = encoded(table(tmp_path, "name,colour\nx,red\ny, blue \nz,pink\n", "new.csv"), taught)
    assert found.values.tolist() == [[0, 1], [1, 0], [0, 0]]


def test_columns_are_found_by_name_in_any_order(tmp_path: Path) -> None:
    taught = table(tmp_path, "name,x,y\na,1,10\nb,3,30\n")
    found = encoded(table(tmp_path, "extra,y,name,x\n0,30,p,1\n0,10,q,3\n", "new.csv"), taught)
    far = math.asinh(preparation.MIDDLE_HALF)
    torch.testing.assert_close(found.values, torch.tensor([[-far, far], [far, -far]]))


def test_a_table_that_lacks_columns_is_refused(tmp_path: Path) -> None:
    taught = table(tmp_path, "name,x,y\na,1,10\nb,3,30\n")
    with pytest.raises(DataError, match=r"new.csv lacks columns the model was taught with: y; it has x, z"):
        encoded(table(tmp_path, "name,x,z\np,1,2\n", "new.csv"), taught)


def test_a_cell_that_is_no_number_is_set_aside_with_its_line(tmp_path: Path) -> None:
    rows = "".join(f"n{row},{row},1\n" for row in range(20))
    found = encoded(table(tmp_path, f"name,x,y\n{rows}bad,oops,1\nworse,inf,1\n"))
    assert len(found.names) == len(found.values) == 20
    assert [name for name, _ in found.unreadable] == ["bad", "worse"]
    assert "items.csv:22: x is 'oops', not a number" in found.unreadable[0][1]


def test_vectors_of_another_length_are_refused_or_set_aside(tmp_path: Path) -> None:
    found = encoded(table(tmp_path, "name,v\n" + "".join(f'n{i},"[{i}, 2.5]"\n' for i in range(20)) + "bad,1 2 3\n"))
    assert found.values.shape == (20, 2)
    assert found.unreadable[0][0] == "bad"
    fitted = preparation.fit(open_items(np.eye(4)).gather({"0", "1"}))
    with pytest.raises(DataError, match="items have 5 numbers, the model was taught with 4"):
        fitted.encode(open_items(np.eye(5)).gather({"0"}))


def test_a_table_of_names_only_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no column to learn from"):
        encoded(table(tmp_path, "name,title\na,one\nb,two\n"))


def test_facts_are_json_and_come_back(tmp_path: Path) -> None:
    path = table(tmp_path, 'name,x,c,v\na,1,p,"1 2"\nb,2,q,"3 4"\nc,3,p,"5 6"\nd,1,q,"0 0"\n')
    fitted = preparation.fit(open_items(path).gather(names(path)))
    assert {column.kind for column in fitted.columns} == {"number", "category", "vector"}  # type: ignore[union-attr]
    for prepared in (fitted, Pictures((3, 16, 16))):
        assert from_facts(json.loads(json.dumps(to_facts(prepared)))) == prepared


@pytest.mark.parametrize(
    "facts", [{"shape": [1, 10**9, 10**9]}, {"shape": [0, 8, 8]}, {"columns": [{"name": "x"}]}, {}]
)
def test_facts_of_a_hostile_file_are_refused(facts: dict[str, object]) -> None:
    with pytest.raises((ValueError, TypeError, KeyError)):
        from_facts(facts)


def test_pictures_are_upright_whatever_their_exif_says(tmp_path: Path) -> None:
    upright = Image.fromarray(np.tile(np.linspace(0, 255, 32, dtype=np.uint8), (32, 1)))
    upright.save(tmp_path / "upright.png")
    turned = Image.Exif()
    turned[0x0112] = 6  # to be turned by a quarter, clockwise
    upright.rotate(90).save(tmp_path / "turned.png", exif=turned)
    found = dict(zip(*(lambda e: (e.names, e.values))(encoded(tmp_path)), strict=True))
    assert torch.equal(found["upright.png"], found["turned.png"])


def test_pictures_of_any_format_mode_and_size_get_one_shape(tmp_path: Path) -> None:
    kinds = ["RGB a.jpg", "RGBA b.png", "P c.gif", "1 d.bmp", "L e.tif", "CMYK f.jpg", "RGBA g.webp"]
    for number, (mode, name) in enumerate(map(str.split, kinds)):
        Image.new("L", (20 + number, 30)).convert(mode).save(tmp_path / name)
    found = encoded(tmp_path)
    assert len(found.names) == 7
    assert found.values.shape == (7, 3, 32, 32)


def test_grey_pictures_stay_grey_and_large_ones_become_small(tmp_path: Path) -> None:
    for name in "ab":
        Image.new("L", (500, 200), 128).save(tmp_path / f"{name}.png")
    found = encoded(tmp_path).values
    assert found.shape == (2, 1, preparation.LARGEST_SIDE, preparation.LARGEST_SIDE)
    assert found[0, 0, 32, 32] == 128
    assert found[0, 0, 0, 0] == 0  # the border above a wide picture


def bomb(path: Path, side: int) -> None:
    """A small PNG that says it is `side` pixels wide and high."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    content = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + content)


def test_broken_and_hostile_pictures_are_set_aside_with_a_reason(tmp_path: Path) -> None:
    Image.new("L", (8, 8)).save(tmp_path / "good.png")
    whole = (tmp_path / "good.png").read_bytes()
    (tmp_path / "empty.png").write_bytes(b"")
    (tmp_path / "text.jpg").write_text("I am no picture")
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64), dtype=np.uint8))
    noise.save(tmp_path / "cut.png")
    (tmp_path / "cut.png").write_bytes((tmp_path / "cut.png").read_bytes()[:1000])
    (tmp_path / "no-size.png").write_bytes(whole.replace(struct.pack(">II", 8, 8), struct.pack(">II", 0, 0)))
    Image.new("L", (8, 8)).save(tmp_path / "program.png", "EPS")
    bomb(tmp_path / "bomb.png", 12_000)
    bomb(tmp_path / "huge-bomb.png", 2**31 - 1)
    found = encoded(tmp_path)
    assert found.names == ["good.png"]
    reasons = dict(found.unreadable)
    assert set(reasons) == {
        "empty.png",
        "text.jpg",
        "cut.png",
        "no-size.png",
        "program.png",
        "bomb.png",
        "huge-bomb.png",
    }
    assert all(str(tmp_path / name) in reason for name, reason in reasons.items())
    assert "144,000,000" in reasons["bomb.png"] or "12000" in reasons["bomb.png"]


def test_a_folder_without_a_readable_picture_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"")
    with pytest.raises(DataError, match="none of the 1 pictures can be read"):
        encoded(tmp_path)


def test_pictures_and_tables_are_not_mixed_up(tmp_path: Path) -> None:
    rows = open_items(np.eye(3)).gather({"0", "1"})
    with pytest.raises(DataError, match="taught with pictures"):
        Pictures((1, 8, 8)).encode(rows)
    with pytest.raises(DataError, match="taught with pictures of shape"):
        Pictures((1, 8, 8)).encode(open_items(np.zeros((2, 1, 9, 9), dtype=np.uint8)).gather({"0"}))
    Image.new("L", (8, 8)).save(tmp_path / "a.png")
    with pytest.raises(DataError, match="taught with a table"):
        Columns.fit(rows).encode(open_items(tmp_path).gather({"a.png"}))
