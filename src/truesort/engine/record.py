"""The run folder: everything a run leaves behind, readable at every moment.

Training dies: machines restart, disks fill up, someone presses Ctrl-C twice. So a file is written beside its target and
renamed onto it, a line of metrics goes out in one write, and one process at a time holds the folder by a lock that the
system lets go when the process ends, however it ends.
"""

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows, where nothing stops a second process
    fcntl = None  # type: ignore[assignment]

Facts = dict[str, Any]
"""What JSON can hold."""

REASONS = {
    errno.ENOSPC: "the disk is full; free some space, then go on with --resume",
    errno.EDQUOT: "the disk quota is used up; free some space, then go on with --resume",
    errno.EROFS: "the file system is read-only; choose another place with --folder",
    errno.EACCES: "permission denied; choose another place with --folder, or make this one writable",
    errno.ENOTDIR: "a part of this path is a file, not a folder; choose another place with --folder",
}


class RunError(Exception):
    """A run cannot start or go on; the message says why and what to do, and nothing already written is damaged."""


class InUse(RunError):
    """Another process is at work in the folder."""


class Diverged(RunError):
    """The loss is no number any more; the same config would come to the same end again."""


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn an error of the file system into a sentence with the path, the reason and the way out."""
    try:
        yield
    except OSError as error:
        reason = REASONS.get(error.errno or 0, error.strerror or str(error))
        raise RunError(f"cannot write {path}: {reason}. What was written before is intact.") from error


def write_atomically(path: Path, content: bytes) -> None:
    """Replace the file by `content`, so that a reader sees the old or the new one, also after a power cut."""
    partial = path.with_name(path.name + ".partial")
    with explained(path):
        try:
            with open(partial, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, path)
        except OSError:
            partial.unlink(missing_ok=True)
            raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Make a rename durable, where the system lets a folder be opened."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # pragma: no cover - Windows
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_json(path: Path, facts: Facts) -> None:
    """Write `facts` as JSON a person can read."""
    write_atomically(path, (json.dumps(facts, indent=2, ensure_ascii=False) + "\n").encode())


def read_json(path: Path) -> Facts:
    """The facts in a JSON file; a RunError says which file is missing or damaged."""
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RunError(f"{path} is missing: {path.parent} is not the folder of a run") from None
    except (OSError, ValueError, RecursionError) as error:
        raise RunError(f"{path} cannot be read as JSON: {error}") from error
    if not isinstance(facts, dict):
        raise RunError(f"{path} must hold a JSON object, got {type(facts).__name__}")
    return facts


class RunFolder:
    """The files of one run: config.json, metrics.jsonl, checkpoint/, model.safetensors, result.json."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.json"
        self.metrics = path / "metrics.jsonl"
        self.checkpoint = path / "checkpoint" / "state.safetensors"
        self.model = path / "model.safetensors"
        self.result = path / "result.json"

    @contextmanager
    def held(self) -> Iterator[None]:
        """Make the folder and keep every other process out of it."""
        with explained(self.path):
            self.checkpoint.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            self._lock(handle)
            yield
        finally:
            os.close(handle)

    def _lock(self, handle: int) -> None:
        if fcntl is None:  # pragma: no cover - Windows
            return
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(handle, 32, 0).decode(errors="replace").strip() or "unknown"
            raise InUse(
                f"{self.path} is in use by another process (number {holder}); wait for it, or choose another --folder"
            ) from error
        with explained(self.path / "lock"):
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)

    def append(self, facts: Facts) -> None:
        """Add a line of metrics: whole, or not at all."""
        line = (json.dumps(facts) + "\n").encode()
        with explained(self.metrics):
            handle = os.open(self.metrics, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            try:
                before = os.fstat(handle).st_size
                written = os.write(handle, line)
                if written < len(line):
                    os.ftruncate(handle, before)
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            finally:
                os.close(handle)

    def curve(self) -> list[Facts]:
        """The lines of metrics so far."""
        if not self.metrics.exists():
            return []
        return [json.loads(line) for line in self.metrics.read_text().splitlines(keepends=True) if line.endswith("\n")]

    def forget_after(self, step: int) -> None:
        """Drop the metrics of steps that the checkpoint does not know: they will be run again."""
        kept = [facts for facts in self.curve() if facts["step"] <= step]
        write_atomically(self.metrics, "".join(json.dumps(facts) + "\n" for facts in kept).encode())
