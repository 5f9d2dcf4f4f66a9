"""Files that are missing, wrong, truncated or hostile end in an error that says so; whole ones give what is in them."""

import gzip
import hashlib
import http.server
import io
import json
import os
import pickle
import shutil
import struct
import tarfile
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from truesort import data
from truesort.data import DataError, _files, cifar, mnist, svhn
from truesort.data._digit_boxes import Box
from truesort.data._files import Remote, Shelf, cached, read_checked


@pytest.fixture(autouse=True)
def no_folder_named(monkeypatch, tmp_path):
    monkeypatch.delenv("TRUESORT_DATA", raising=False)
    for module in (_files, svhn):
        monkeypatch.setattr(module, "cache_folder", lambda: tmp_path / "cache")


@pytest.fixture
def offline(monkeypatch):
    def refuse(*_, **__):
        raise OSError("no route to host")

    monkeypatch.setattr(_files, "download", refuse)


def md5(content):
    return hashlib.md5(content).hexdigest()


# MNIST ------------------------------------------------------------------------------------------------------------


def idx(array):
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


@pytest.fixture
def made_mnist(monkeypatch, tmp_path):
    """A folder with a small MNIST: 6 pictures to learn from, of which 4 train, and 3 to test."""
    rng = np.random.default_rng(0)
    contents = {}
    for part, count in (("train", 6), ("t10k", 3)):
        contents[f"{part}-images-idx3-ubyte"] = idx(rng.integers(0, 256, (count, 28, 28), np.uint8))
        contents[f"{part}-labels-idx1-ubyte"] = idx(rng.integers(0, 10, count).astype(np.uint8))
    files = {name: Remote(f"{name}.gz", f"https://example.org/{name}.gz", md5(contents[name])) for name in contents}
    monkeypatch.setattr(mnist, "FILES", files)
    monkeypatch.setattr(mnist, "TRAINING", 4)
    folder = tmp_path / "data" / "mnist"
    folder.mkdir(parents=True)
    for name, content in contents.items():
        (folder / f"{name}.gz").write_bytes(gzip.compress(content))
    return folder, contents


@pytest.mark.parametrize("level", ["subfolder", "folder itself"])
def test_mnist_from_a_folder(made_mnist, level):
    folder, contents = made_mnist
    numbers = data.open("mnist2", folder.parent if level == "subfolder" else folder)
    assert [numbers.size(split) for split in data.SPLITS] == [4, 2, 3]
    first = np.frombuffer(contents["t10k-images-idx3-ubyte"], np.uint8, offset=16)[: 28 * 28].reshape(28, 28)
    assert torch.equal(
        numbers.take("test", torch.zeros(1, 1, 2, dtype=int)).items[0, 0, 0, :, :28], torch.tensor(first)
    )


def test_mnist_from_the_folder_in_the_environment_and_unpacked(made_mnist, monkeypatch):
    folder, contents = made_mnist
    for name, content in contents.items():
        (folder / f"{name}.gz").unlink()
        (folder / name).write_bytes(content)
    monkeypatch.setenv("TRUESORT_DATA", str(folder.parent))
    assert data.open("mnist_2x2").size("train") == 4


def test_a_missing_file_is_named_with_all_that_are_missing(made_mnist):
    folder, _ = made_mnist
    (folder / "train-labels-idx1-ubyte.gz").unlink()
    (folder / "t10k-images-idx3-ubyte.gz").unlink()
    with pytest.raises(DataError) as error:
        data.open("mnist4", folder.parent)
    message = str(error.value)
    assert f"Put into {folder}" in message
    assert "https://example.org/train-labels-idx1-ubyte.gz" in message
    assert "https://example.org/t10k-images-idx3-ubyte.gz" in message
    assert "train-images" not in message


def test_a_truncated_file_is_named(made_mnist):
    folder, _ = made_mnist
    path = folder / "train-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte.gz is truncated.*https://example.org/train-images"):
        data.open("mnist4", folder.parent)


def test_a_wrong_file_is_named_with_both_checksums(made_mnist):
    folder, contents = made_mnist
    wrong = contents["train-images-idx3-ubyte"][:-1] + b"\0"
    (folder / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(wrong))
    with pytest.raises(DataError, match=f"md5 {md5(wrong)}, not {md5(contents['train-images-idx3-ubyte'])}"):
        data.open("mnist4", folder.parent)


@pytest.mark.parametrize("content", [b"", b"\0\0\x08\x01", idx(np.zeros((2, 2, 2), np.uint8))[:-1], b"x" * 100])
def test_what_is_no_idx_file_is_refused(content):
    with pytest.raises(DataError, match="IDX"):
        mnist._parse(content, "train images", 3)


def test_a_folder_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(DataError, match="nowhere does not exist"):
        data.open("mnist4", tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("mnist4", ["train-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz", "mnist"]),
        ("svhn", ["train.tar.gz", "test.tar.gz", "svhn"]),
        ("cifar10_3x3", ["cifar-10-python.tar.gz", "cifar10"]),
    ],
)
def test_offline_the_error_says_which_files_to_put_where(offline, name, wanted):
    with pytest.raises(DataError, match="no route to host") as error:
        data.open(name)
    assert all(word in str(error.value) for word in wanted)
    assert "https://" in str(error.value) or "http://" in str(error.value)


def test_no_folder_named_means_download_once_and_check(monkeypatch, made_mnist):
    folder, _ = made_mnist
    asked = []

    def serve(remote, place):
        asked.append(remote.name)
        place.mkdir(parents=True, exist_ok=True)
        return shutil.copy(folder / remote.name, place)

    monkeypatch.setattr(_files, "download", lambda remote, place: Path(serve(remote, place)))
    assert data.open("mnist1").size("test") == 3
    assert sorted(asked) == sorted(file.name for file in mnist.FILES.values())
    assert data.open("mnist1").size("test") == 3
    assert len(asked) == 4


@pytest.fixture
def server():
    """A web server on this machine: /whole is 5,000 bytes, /broken stops half way."""

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200 if self.path in ("/whole", "/broken") else 404)
            self.send_header("Content-Length", "5000")
            self.end_headers()
            self.wfile.write(bytes(5000 if self.path == "/whole" else 2500))

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_download_is_whole_or_not_there(server, tmp_path, capfd):
    path = Shelf(None, ["made"], []).get(Remote("whole", f"{server}/whole", size=5000))
    assert path == tmp_path / "cache" / "made" / "whole"
    assert path.read_bytes() == bytes(5000)
    out, err = capfd.readouterr()
    assert out == ""
    assert "whole" in err
    for name in ("broken", "absent"):
        file = Remote(name, f"{server}/{name}")
        with pytest.raises(DataError, match=f"{name} could not be downloaded") as error:
            Shelf(None, ["made"], [file]).get(file)
        assert f"{name}  from {server}/{name}" in str(error.value)
    assert [file.name for file in path.parent.iterdir()] == ["whole"]


def test_a_wrong_size_is_named(tmp_path):
    (tmp_path / "a.bin").write_bytes(b"12345")
    shelf = Shelf(tmp_path, [], [])
    with pytest.raises(DataError, match="has 5 bytes, expected 1,000"):
        read_checked(shelf, Remote("a.bin", "https://example.org/a.bin", size=1000))


# the cache --------------------------------------------------------------------------------------------------------


class Builder:
    """Counts how often the prepared arrays had to be made."""

    def __init__(self):
        self.calls = 0

    def __call__(self):
        self.calls += 1
        return {"images": np.arange(1000, dtype=np.uint8), "numbers": np.array([self.calls])}


def damage_truncate(path):
    path.write_bytes(path.read_bytes()[:-10])


def damage_a_byte(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def damage_record(path):
    path.with_suffix(".json").write_text('{"source": "a", "size"')


def damage_record_missing(path):
    path.with_suffix(".json").unlink()


def test_a_whole_cache_is_read(tmp_path):
    build, path = Builder(), tmp_path / "new" / "made.npz"
    first, second = cached(path, "a", build), cached(path, "a", build)
    assert build.calls == 1
    assert all((first[name] == second[name]).all() for name in first)


@pytest.mark.parametrize("damage", [damage_truncate, damage_a_byte, damage_record, damage_record_missing, os.unlink])
def test_a_cache_that_is_not_whole_is_made_again(tmp_path, damage):
    build, path = Builder(), tmp_path / "made.npz"
    cached(path, "a", build)
    damage(path)
    assert cached(path, "a", build)["numbers"] == 2
    assert cached(path, "a", build)["numbers"] == 2


def test_a_cache_of_another_source_is_made_again(tmp_path):
    build, path = Builder(), tmp_path / "made.npz"
    cached(path, "a", build)
    assert cached(path, "b", build)["numbers"] == 2


def test_an_interrupted_write_leaves_nothing_to_read(tmp_path, monkeypatch):
    build, path = Builder(), tmp_path / "made.npz"

    def half(file, **_):
        file.write(b"half")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(np, "savez", half)
        with pytest.raises(KeyboardInterrupt):
            cached(path, "a", build)
    assert list(tmp_path.iterdir()) == []
    assert cached(path, "a", build)["numbers"] == 2


def test_where_nothing_can_be_written_the_data_are_still_there(tmp_path):
    (tmp_path / "file").touch()
    with pytest.warns(UserWarning, match="could not be written"):
        assert cached(tmp_path / "file" / "made.npz", "a", Builder())["numbers"] == 1


# SVHN -------------------------------------------------------------------------------------------------------------

STREET = {"1.png": [(1, 60, 30, 20, 40), (10, 80, 30, 20, 40)], "2.png": [(7, 2, 5, 30, 90)]}


def ramp_png():
    """A picture 200 wide and 100 high whose red is the column and whose green is the row."""
    pixels = np.zeros((100, 200, 3), np.uint8)
    pixels[..., 0], pixels[..., 1] = np.arange(200), np.arange(100)[:, None]
    return png(pixels)


def png(pixels, form="PNG"):
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, form, **({"lossless": True} if form == "WEBP" else {}))
    return file.getvalue()


def digit_struct(pictures):
    """A digitStruct.mat of (label, left, top, width, height) a digit: single values inline, several as references."""
    h5py = pytest.importorskip("h5py", reason="h5py is not installed: official SVHN archives are not tested")
    memory = io.BytesIO()
    with h5py.File(memory, "w") as file:
        reference, values = h5py.ref_dtype, file.create_group("#refs#")

        def pointing(objects):
            return np.array([[one.ref] for one in objects], dtype=reference)

        names, boxes = [], []
        for index, (name, digits) in enumerate(pictures.items()):
            names.append(values.create_dataset(f"n{index}", data=np.array([[ord(c)] for c in name], np.uint16)))
            boxes.append(values.create_group(f"b{index}"))
            for field, column in zip(
                ("label", "left", "top", "width", "height"), zip(*digits, strict=True), strict=True
            ):
                cells = [values.create_dataset(f"{field}{index}_{i}", data=[[float(v)]]) for i, v in enumerate(column)]
                boxes[-1].create_dataset(field, data=pointing(cells) if len(cells) > 1 else [[float(column[0])]])
        file.create_dataset("digitStruct/name", data=pointing(names))
        file.create_dataset("digitStruct/bbox", data=pointing(boxes))
    return memory.getvalue()


def street_archive(path, part, members):
    with tarfile.open(path, "w:gz") as files:
        for name, content in members.items():
            member = tarfile.TarInfo(f"{part}/{name}")
            member.size = len(content)
            files.addfile(member, io.BytesIO(content))


@pytest.fixture
def made_street(tmp_path, monkeypatch):
    """A folder with small official archives."""
    folder = tmp_path / "data"
    folder.mkdir()
    for part in ("train", "test"):
        members = {"1.png": ramp_png(), "digitStruct.mat": digit_struct(STREET), "see.m": b"", "2.png": ramp_png()}
        street_archive(folder / f"{part}.tar.gz", part, members)
    remotes = {part: Remote(f"{part}.tar.gz", f"http://example.org/{part}.tar.gz") for part in ("train", "test")}
    monkeypatch.setattr(svhn, "ARCHIVES", remotes)
    monkeypatch.setattr(svhn, "VALIDATION", 1)
    return folder


def test_street_numbers_from_the_official_archives_are_cut_out_and_cached(made_street, tmp_path, monkeypatch):
    pictures = svhn.svhn_pictures(made_street)
    assert [len(pictures[split].labels) for split in data.SPLITS] == [1, 1, 2]
    assert pictures["test"].labels.tolist() == [10, 7]
    assert sorted(path.name for path in (tmp_path / "cache" / "svhn").iterdir()) == [
        f"{part}_64x64.{kind}" for part in ("test", "train") for kind in ("json", "npz")
    ]
    monkeypatch.setattr(svhn, "read_archive", lambda *_: pytest.fail("the cache was not read"))
    again = svhn.svhn_pictures(made_street)
    assert all(torch.equal(pictures[split].images, again[split].images) for split in data.SPLITS)


def test_a_number_is_cut_out_with_its_margin(made_street):
    cut = svhn.read_archive(made_street / "train.tar.gz", "train")["images"].astype(float)
    steps = (np.arange(64) + 0.5) / 64
    red, green = cut[0, 30, :, 0], cut[0, :, 30, 1]
    assert np.abs(red - (60 - 6 + 52 * steps - 0.5)).max() <= 1  # 40 wide and 15 % more on either side
    assert np.abs(green - (30 - 6 + 52 * steps - 0.5)).max() <= 1
    clipped = cut[1, :, 30, 1]
    assert np.abs(clipped - (0 + 100 * steps - 0.5)).max() <= 1


def test_a_truncated_archive_is_named_and_leaves_no_cache(made_street, tmp_path):
    path = made_street / "test.tar.gz"
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(DataError, match=r"test.tar.gz is truncated or damaged.*http://example.org/test.tar.gz"):
        svhn.svhn_pictures(made_street)
    assert not (tmp_path / "cache" / "svhn" / "test_64x64.npz").exists()


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"1.png": b""}, "no train/digitStruct.mat"),
        ({"digitStruct.mat": b"not hdf5"}, "digitStruct.mat is not that of SVHN"),
        ({"digitStruct.mat": None}, "lacks 2 pictures"),
    ],
)
def test_an_archive_of_something_else_is_named(tmp_path, members, words):
    members = {name: digit_struct(STREET) if content is None else content for name, content in members.items()}
    street_archive(tmp_path / "train.tar.gz", "train", members)
    with pytest.raises(DataError, match=words):
        svhn.read_archive(tmp_path / "train.tar.gz", "train")


def test_digits_outside_the_picture_are_named():
    with pytest.raises(DataError, match=r"5.png: its digits lie outside"):
        svhn.cut_out(ramp_png(), Box("5.png", 3, 300, 10, 320, 40))


def packed_street(path, **changes):
    pixels = np.random.default_rng(0).integers(0, 256, (3, 64, 64, 3), np.uint8)
    webp = [png(one, "WEBP") for one in pixels]
    offset = np.cumsum([0, *map(len, webp)])
    arrays = {"webp": np.frombuffer(b"".join(webp), np.uint8), "offset": offset, "number": np.array([5, 210, 36])}
    np.savez(path, **arrays | changes)
    return pixels


def test_packed_street_numbers_are_read(tmp_path):
    pixels = packed_street(tmp_path / "svhn64_test.npz")
    arrays = svhn.read_packed(tmp_path / "svhn64_test.npz")
    assert (arrays["images"] == pixels).all()
    assert arrays["numbers"].tolist() == [5, 210, 36]


@pytest.mark.parametrize(
    "changes",
    [
        {"number": np.array([5, 210])},
        {"offset": np.array([0, 1, 2, 3])},
        {"webp": np.zeros(9, np.uint8)},
        {"number": np.array([object()] * 3)},
    ],
)
def test_packed_street_numbers_that_do_not_fit_together_are_named(tmp_path, changes):
    packed_street(tmp_path / "svhn64_test.npz", **changes)
    with pytest.raises(DataError, match=r"svhn64_test.npz is truncated, damaged or not a packed SVHN"):
        svhn.read_packed(tmp_path / "svhn64_test.npz")


def test_truncated_packed_street_numbers_are_named(tmp_path):
    path = tmp_path / "svhn64_test.npz"
    packed_street(path)
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(DataError, match=r"svhn64_test.npz is truncated"):
        svhn.read_packed(path)


# CIFAR-10 ---------------------------------------------------------------------------------------------------------


def short(text):
    return b"U" + bytes([len(text)]) + text


def batch_pickle(images, labels, kind=b"u1"):
    """A pickle as Python 2 wrote the official batches, opcode by opcode."""
    content = images.transpose(0, 3, 1, 2).tobytes()
    shape = b"M" + struct.pack("<H", len(images)) + b"M" + struct.pack("<H", 3072) + b"\x86"
    dtype = (
        b"cnumpy\ndtype\n" + short(kind) + b"K\x00K\x01\x87R(K\x03" + short(b"|") + b"NNN" + b"J\xff\xff\xff\xff" * 2
    )
    dtype += b"K\x00tb"
    array = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85" + short(b"b") + b"\x87R(K\x01" + shape
    array += dtype + b"\x89T" + struct.pack("<i", len(content)) + content + b"tb"
    numbers = b"](" + b"".join(b"K" + bytes([label]) for label in labels) + b"e"
    return b"\x80\x02}(" + short(b"data") + array + short(b"labels") + numbers + b"u."


@pytest.fixture
def made_cifar():
    rng = np.random.default_rng(0)
    return rng.integers(0, 256, (4, 32, 32, 3), np.uint8), [3, 0, 9, 1]


@pytest.fixture
def cifar_archive(made_cifar, tmp_path, monkeypatch):
    """A folder with a small official archive."""
    content = batch_pickle(*made_cifar)
    monkeypatch.setattr(cifar, "BATCHES", dict.fromkeys(cifar.BATCHES, md5(content)))
    monkeypatch.setattr(cifar, "TRAINING", 15)
    monkeypatch.setattr(cifar, "ARCHIVE", Remote("cifar-10-python.tar.gz", "https://example.org/cifar"))
    folder = tmp_path / "cifar10"
    folder.mkdir()
    street_archive(folder / "cifar-10-python.tar.gz", "cifar-10-batches-py", dict.fromkeys(cifar.BATCHES, content))
    return tmp_path


def test_the_official_archive_is_read(cifar_archive, made_cifar):
    pictures = cifar.cifar_pictures(cifar_archive)
    assert [len(pictures[split].labels) for split in data.SPLITS] == [15, 5, 4]
    assert torch.equal(pictures["test"].images, torch.from_numpy(made_cifar[0]))
    assert pictures["test"].labels.tolist() == made_cifar[1]
    assert data.open("cifar10_2x2", cifar_archive).item_shape == (3, 16, 16)


def test_a_wrong_batch_in_the_archive_is_named(cifar_archive, monkeypatch):
    monkeypatch.setitem(cifar.BATCHES, "data_batch_3", "0" * 32)
    with pytest.raises(DataError, match=r"data_batch_3 in .*cifar-10-python.tar.gz has md5"):
        cifar.cifar_pictures(cifar_archive)


def test_a_truncated_archive_is_named(cifar_archive):
    path = cifar_archive / "cifar10" / "cifar-10-python.tar.gz"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DataError, match=r"cifar-10-python.tar.gz is truncated.*https://example.org/cifar"):
        cifar.cifar_pictures(cifar_archive)


class Hostile:
    """Runs code when unpickled in the ordinary way."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (os.mkdir, (str(self.path),))


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_hostile_pickle_runs_nothing(tmp_path, protocol):
    content = pickle.dumps({"data": Hostile(tmp_path / "broken in")}, protocol)
    with pytest.raises(DataError, match=r"it asks for \w+\.mkdir"):
        cifar.parse_batch(content, "data_batch_1")
    assert not (tmp_path / "broken in").exists()


def test_what_is_no_batch_is_named(made_cifar):
    images, labels = made_cifar
    broken = [b"", b"garbage", batch_pickle(images, labels)[:-900], batch_pickle(images, labels[:3])]
    broken += [batch_pickle(images, labels, kind=b"O8"), pickle.dumps([1, 2], 2), pickle.dumps({b"data": 3}, 4)]
    for content in broken:
        with pytest.raises(DataError, match="data_batch_1 is not a batch of CIFAR-10"):
            cifar.parse_batch(content, "data_batch_1")


@pytest.fixture
def cifar_sheets(made_cifar, tmp_path, monkeypatch):
    """A folder with small PNG sheets and label lists."""
    images, labels = made_cifar
    contents = {name: png(images.reshape(4, 1024, 3)) for name in cifar.SHEETS if name.endswith(".png")}
    contents |= {"train_lables.json": json.dumps(labels * 5).encode(), "test_lables.json": json.dumps(labels).encode()}
    monkeypatch.setattr(cifar, "TRAINING", 15)
    monkeypatch.setattr(cifar, "SHEETS", {name: Remote(name, "npm", md5(contents[name])) for name in cifar.SHEETS})
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    return tmp_path


def test_sheets_give_the_same_as_the_archive(cifar_sheets, cifar_archive):
    sheets = cifar.cifar_pictures(cifar_sheets)
    (cifar_sheets / "data_batch_1.png").unlink()
    archive = cifar.cifar_pictures(cifar_archive)
    for split in data.SPLITS:
        assert torch.equal(sheets[split].images, archive[split].images)
        assert torch.equal(sheets[split].labels, archive[split].labels)


def test_a_missing_sheet_is_named(cifar_sheets):
    (cifar_sheets / "data_batch_4.png").unlink()
    with pytest.raises(DataError, match=r"data_batch_4.png is missing"):
        cifar.cifar_pictures(cifar_sheets)


@pytest.mark.parametrize("content", [b"not a png", png(np.zeros((3, 5, 3), np.uint8))])
def test_what_is_no_sheet_is_named(content):
    with pytest.raises(DataError, match=r"test_batch.png is"):
        cifar.parse_sheet(content, "test_batch.png")
