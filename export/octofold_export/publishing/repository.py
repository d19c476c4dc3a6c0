"""Writes versions into a model repository, completely or not at all.

A version is written into a temporary folder, which is then renamed, so that no server ever loads an
incomplete version. Published graphs are never changed. A killed export leaves its temporary folder, which
the next export of the model removes if the file system has locks: a lock shows that an export still runs.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import secrets
import shutil
import signal
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

from octofold_game.contract.model import MODEL_NAME, TRITON_FILE
from octofold_game.system.files import why_not_writable

from octofold_export.errors import ExportError

Content = bytes | memoryview
ContentOrPath = Content | Path
"""The content of a file to write, or the path of an existing file to link or copy."""
_TAKEN = (errno.EEXIST, errno.ENOTEMPTY)
_STAGING = ".publishing-"
_PARTIAL = re.compile(r"\.[0-9a-f]{16}\.partial\Z")


class VersionExistsError(ExportError):
    """A version with this number is already published."""


def check_name(name: str) -> None:
    """Raise `ExportError` unless `name` can be the name of a model, which is also the name of a folder."""
    if not MODEL_NAME.fullmatch(name):
        raise ExportError(
            "a model name must be 1 to 128 letters, digits, '_', '.' and '-', and must not begin with "
            f"'.' or '-', got {name!r}"
        )


def check_publishable(models: Path, name: str, version: int | None) -> None:
    """Raise `ExportError` if the version exists or `models` is not writable; call this before long work."""
    if version is not None and (models / name / str(version)).exists():
        raise ExportError(
            f"{models / name / str(version)} exists; published versions are never replaced, so "
            "choose another --version"
        )
    if reason := why_not_writable(models / name):
        raise ExportError(reason)


def next_version(models: Path, name: str) -> int:
    """Return the number after the newest version of `name`; 1 for a new model."""
    folder = models / name
    entries = [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
    return max((int(entry) for entry in entries if entry.isdecimal()), default=0) + 1


def publish(
    models: Path, name: str, version: int, files: Mapping[str, ContentOrPath], config: str | None = None
) -> Path:
    """Write `files` to `models/name/version/` and `config` to `models/name/config.pbtxt`; return the folder.

    Files that are given as paths are hard-linked, or copied if a link is impossible. An error leaves nothing
    behind.

    Raises:
        VersionExistsError: the version exists.
        ExportError: a file cannot be written.
    """
    model = models / name
    created = _missing_folders(model)
    try:
        model.mkdir(parents=True, exist_ok=True)
        with _staging_folder(model, version) as staging:
            if config is not None:
                _write(staging / TRITON_FILE, config.encode())
            for file, content in files.items():
                if isinstance(content, Path):
                    _link(staging / file, content)
                else:
                    _write(staging / file, content)
            _sync_folder(staging)
            if (model / str(version)).exists():  # a rename would replace an empty folder
                raise FileExistsError(errno.EEXIST, "exists")
            if config is not None:
                (staging / TRITON_FILE).replace(model / TRITON_FILE)
            staging.rename(model / str(version))
        _sync_folder(model)
    except BaseException as error:
        if created:
            _withdraw(model / TRITON_FILE, created)
        if isinstance(error, OSError) and error.errno in _TAKEN:
            raise VersionExistsError(
                f"{model / str(version)} exists; published versions are never replaced"
            ) from error
        if isinstance(error, OSError):
            raise ExportError(f"{model / str(version)}: {error.strerror}") from error
        raise
    return model / str(version)


@contextlib.contextmanager
def locked_version(folder: Path) -> Iterator[None]:
    """Lock a published version while the `with` block reads and replaces its files, if locks are available.

    Raises:
        ExportError: the folder cannot be opened.
    """
    with contextlib.ExitStack() as opened:
        try:
            is_locked = opened.enter_context(_locked(folder))
        except OSError as error:
            raise ExportError(f"{folder}: {error.strerror}") from error
        if is_locked:  # without a lock, temporary files may belong to a program that still runs
            _remove_partial(folder)
        yield


def _remove_partial(folder: Path) -> None:
    """Remove temporary files of a killed program, because a signature of the folder would include them."""
    for file in folder.glob("*.partial"):
        if _PARTIAL.search(file.name):
            with contextlib.suppress(OSError):
                file.unlink()


def replace_files(folder: Path, files: Mapping[str, Content]) -> None:
    """Write files into a folder, replacing existing ones; a failed write or Ctrl-C changes no file.

    All files are first written under temporary names, and then renamed in the order of `files`. The caller
    must hold the lock of `locked_version`.

    Raises:
        OSError: a file cannot be written.
    """
    # On a file system without locks, another program may write the same files at the same time.
    unique = secrets.token_hex(8)
    partial = {file: folder / f"{file}.{unique}.partial" for file in files}
    try:
        for file, content in files.items():
            _write(partial[file], content)
        with _without_interrupts():
            for file, written in partial.items():
                written.replace(folder / file)
    finally:
        for written in partial.values():
            with contextlib.suppress(OSError):
                written.unlink()


@contextlib.contextmanager
def _without_interrupts() -> Iterator[None]:
    """Ignore Ctrl-C while the `with` block runs; the block must be short."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread handles signals
        yield
        return
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


@contextlib.contextmanager
def _staging_folder(model: Path, version: int) -> Iterator[Path]:
    """Make a temporary folder in `model`, and lock it while the `with` block runs.

    The folder is deleted if the block fails.
    """
    # The name has a random number and no process number, which is often the same in two containers.
    staging = model / f"{_STAGING}{version}-{secrets.token_hex(8)}"
    with contextlib.ExitStack() as opened:
        # The lock of the model keeps another export from removing the new folder before it is locked.
        with _locked(model):
            _remove_abandoned(model)
            staging.mkdir()
            opened.enter_context(_locked(staging))
        try:
            yield staging
        except BaseException:
            shutil.rmtree(staging, ignore_errors=True)
            raise


def _remove_abandoned(model: Path) -> None:
    """Remove the temporary folders of exports that were killed."""
    for folder in model.glob(f"{_STAGING}*"):
        if folder.is_dir() and not folder.is_symlink():
            with contextlib.suppress(OSError), _locked(folder, waiting=False):
                shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _locked(folder: Path, *, waiting: bool = True) -> Iterator[bool]:
    """Hold the lock of a folder while the `with` block runs; if the process dies, the system releases it.

    Yields whether the lock is held. It is not held if the file system has no locks.

    Raises:
        OSError: the folder cannot be opened, or `waiting` is False and the lock is not available, because
            another process holds it or the file system has no locks.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        is_locked = True
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX if waiting else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if not waiting:
                raise
            is_locked = False
        yield is_locked
    finally:
        os.close(descriptor)


def _missing_folders(folder: Path) -> list[Path]:
    """Return the folders that do not exist, from `folder` up to its outermost missing parent."""
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    return missing


def _withdraw(file: Path, folders: list[Path]) -> None:
    """Remove the `file` and `folders` that a failed `publish` has made, unless another export uses them."""
    with contextlib.suppress(OSError):
        if list(file.parent.iterdir()) == [file]:  # no other export has written into this model's folder
            file.unlink()
    for folder in folders:
        with contextlib.suppress(OSError):
            folder.rmdir()


def _write(file: Path, content: Content) -> None:
    with file.open("wb") as opened:
        opened.write(content)
        opened.flush()
        os.fsync(opened.fileno())


def _link(file: Path, source: Path) -> None:
    """Make `file` a hard link to `source`, or a copy if the link fails, as between two file systems."""
    try:
        file.hardlink_to(source.resolve())
    except OSError:
        shutil.copyfile(source, file)
        with file.open("rb") as copied:
            os.fsync(copied.fileno())


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
