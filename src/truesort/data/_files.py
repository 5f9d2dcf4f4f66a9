"""Finding, fetching and caching dataset files, and never using a wrong one.

A file comes from a folder the user names, else from the download cache. Whatever is missing, truncated or not the
expected file becomes a `DataError` that names it, says what was expected and where to get it. What we cache ourselves
is written beside its place and renamed, with a record of size and checksum, so a half-written cache is never read.
"""

import gzip
import hashlib
import json
import os
import uuid
import warnings
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from rich.progress import Progress

FOLDER_VARIABLE = "TRUESORT_DATA"


class DataError(Exception):
    """A dataset file is missing, truncated or not the expected one; the message says what to do."""


@dataclass(frozen=True)
class Remote:
    """A file of an official dataset: its name, where it is published, and the checksum (md5) of its raw content."""

    name: str
    url: str
    md5: str | None = None
    size: int | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names under which it may lie in a folder: as published, or unpacked."""
        return (self.name, self.name.removesuffix(".gz"))


class Shelf:
    """Where the files of one dataset are looked for: `folder`, the environment's folder, or the download cache.

    `subfolders` are looked into in turn, the folder itself last.
    """

    def __init__(self, folder: str | Path | None, subfolders: Sequence[str], files: Sequence[Remote]) -> None:
        named = folder if folder is not None else os.environ.get(FOLDER_VARIABLE) or None
        self.named = named is not None
        self.root = Path(named).expanduser() if named is not None else cache_folder()
        self.places = [self.root / subfolder for subfolder in subfolders] + [self.root]
        self.files = files
        if self.named and not self.root.is_dir():
            raise DataError(f"the data folder {self.root} does not exist")

    def find(self, *names: str) -> Path | None:
        """The first file called one of `names`."""
        files = (place / name for place in self.places for name in names)
        return next((file for file in files if file.is_file()), None)

    def get(self, remote: Remote) -> Path:
        """The file, unpacked or not; downloaded if no folder was named."""
        found = self.find(*remote.names)
        if found is None:
            found = self._download(remote)
        size = found.stat().st_size
        if remote.size is not None and size != remote.size:
            problem = f"{found} has {size:,} bytes, expected {remote.size:,}: it is truncated or another file"
            raise self.damaged(remote, problem)
        return found

    def damaged(self, remote: Remote, problem: str) -> DataError:
        """The error for a file that is there but of no use."""
        return DataError(f"{problem}; delete it and download it again from {remote.url}")

    def _missing(self, why: str) -> DataError:
        looked = ", ".join(map(str, self.places))
        missing = [file for file in self.files if self.find(*file.names) is None]
        wanted = "".join(f"\n  {file.name}  from {file.url}" for file in missing)
        return DataError(f"{why}\nLooked in {looked}.\nPut into {self.places[0]}:{wanted}")

    def _download(self, remote: Remote) -> Path:
        if self.named:
            raise self._missing(f"{remote.name} is missing.")
        try:
            return download(remote, self.places[0])
        except (OSError, ValueError) as error:
            raise self._missing(f"{remote.name} could not be downloaded: {_cause(error)}.") from error


def _cause(error: BaseException) -> str:
    """The innermost reason of an error of the network, which wraps several."""
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    return str(error)


def cache_folder() -> Path:
    """Where downloads and prepared datasets are kept: the user's cache folder."""
    import pooch

    return Path(pooch.os_cache("truesort"))


def download(remote: Remote, place: Path) -> Path:
    """Fetch a file into the folder `place`, whole or not at all; a bar on stderr shows how far it is."""
    import pooch
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    pooch.get_logger().setLevel("WARNING")
    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True)) as progress:
        downloader = pooch.HTTPDownloader(progressbar=_Bar(progress, remote.name))
        return Path(pooch.retrieve(remote.url, None, remote.name, place, downloader=downloader))


class _Bar:
    """What pooch tells of a download, shown by rich; pooch sets `total` when it knows the size."""

    total: float = 0.0

    def __init__(self, progress: "Progress", name: str) -> None:
        self._progress = progress
        self._task = progress.add_task(name, total=None)

    def update(self, size: float) -> None:
        """So many bytes more."""
        self._progress.update(self._task, advance=size, total=self.total or None)

    def reset(self) -> None:
        """All is there; pooch now counts once more, in one step."""
        self._progress.reset(self._task)

    def close(self) -> None:
        """Nothing more will come."""


def read_checked(shelf: Shelf, remote: Remote) -> bytes:
    """The raw content of a file that may be compressed with gzip, checked against its checksum."""
    path = shelf.get(remote)
    try:
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise shelf.damaged(remote, f"{path} is truncated or damaged ({error})") from error
    found = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if remote.md5 is not None and found != remote.md5:
        raise shelf.damaged(remote, f"{path} is not the expected file: its content has md5 {found}, not {remote.md5}")
    return content


Arrays = dict[str, NDArray[Any]]


def cached(path: Path, source: str, build: Callable[[], Arrays]) -> Arrays:
    """What `build` returns, kept at `path`; built again if the cache is not whole or not made from `source`."""
    record = path.with_suffix(".json")
    if _is_whole(path, record, source):
        with np.load(path, allow_pickle=False) as stored:
            return dict(stored)
    arrays = build()
    try:
        _store(path, record, source, arrays)
    except OSError as error:
        warnings.warn(f"{path} could not be written ({error}); the next start prepares it again", stacklevel=2)
    return arrays


def _store(path: Path, record: Path, source: str, arrays: Arrays) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    _write(path, lambda file: np.savez(file, allow_pickle=False, **arrays))
    facts = {"source": source, "size": path.stat().st_size, "sha256": _sha256(path)}
    _write(record, lambda file: file.write(json.dumps(facts).encode()))


def _is_whole(path: Path, record: Path, source: str) -> bool:
    try:
        facts = json.loads(record.read_text())
        whole = (facts["source"], facts["size"]) == (source, path.stat().st_size)
        return whole and bool(facts["sha256"] == _sha256(path))
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _write(path: Path, write: Callable[[BinaryIO], object]) -> None:
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with temporary.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
