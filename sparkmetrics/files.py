"""Files of a results folder where a program may rename them: local disk, and HDFS through the JVM of a classic session.

Spark's own writers cannot put several folders in place at once. What needs more than they do (locks, journals, swaps,
removal of what is old) goes through here, and nothing else in the package reaches behind the DataFrame API.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from pyspark.sql import SparkSession

from sparkmetrics.errors import SPARK_ERRORS, ConfigError, WriteError, first_line, told

NO_FILE_SYSTEM = ("UnsupportedFileSystemException", "No FileSystem for scheme", "ClassNotFoundException", "URISyntax")
"""What errors of Hadoop say where the session lacks the file system of a path, or it is none."""

RENAMING = ("hdfs", "viewfs")
"""Schemes, beside local files, whose renames are atomic."""


class Files(Protocol):
    """What can be done with files; paths are absolute. All raise WriteError where the file system refuses."""

    def names(self, folder: str) -> list[str]:
        """What a folder holds; nothing where there is none."""

    def exists(self, path: str) -> bool:
        """Whether a file or folder is there."""

    def is_file(self, path: str) -> bool:
        """Whether a path is there and no folder."""

    def modified(self, path: str) -> float | None:
        """When it was written last, in seconds since 1970; None where it is not there."""

    def read(self, path: str) -> str | None:
        """The text of a small file; None where it is not there."""

    def create(self, path: str, text: str) -> bool:
        """Writes a new file, and its folder. False where the file is there: of two callers one gets True."""

    def publish(self, path: str, text: str) -> None:
        """Writes a new file that is there whole or not at all."""

    def set_modified(self, path: str, when: float) -> None:
        """Sets when a file was written last."""

    def rename(self, source: str, target: str) -> None:
        """Moves a file or folder in one step to a path where nothing is, whose folder is made."""

    def remove(self, path: str) -> None:
        """Removes a file, or a folder and all that it holds; nothing where there is none."""


class LocalFiles:
    """Files of this machine, or of a disk that it mounts; paths may begin with `file:`."""

    def names(self, folder: str) -> list[str]:
        folder = _plain(folder)
        try:
            return sorted(os.listdir(folder))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise _refused("list", folder, error) from error

    def exists(self, path: str) -> bool:
        return os.path.lexists(_plain(path))

    def is_file(self, path: str) -> bool:
        return os.path.lexists(_plain(path)) and not os.path.isdir(_plain(path))

    def modified(self, path: str) -> float | None:
        try:
            return os.stat(_plain(path)).st_mtime
        except FileNotFoundError:
            return None

    def read(self, path: str) -> str | None:
        try:
            return Path(_plain(path)).read_text(encoding="utf-8")
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise _refused("read", path, error) from error

    def create(self, path: str, text: str) -> bool:
        path = _plain(path)
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "x", encoding="utf-8") as file:
                try:
                    file.write(text)
                    file.flush()
                except OSError:  # an empty file would stand for a whole one
                    os.remove(path)
                    raise
        except FileExistsError:
            if not os.path.isfile(path):
                raise WriteError(f"Could not write {path!r}: something that is no folder is in the way.") from None
            return False
        except OSError as error:
            raise _refused("write", path, error) from error
        return True

    def publish(self, path: str, text: str) -> None:
        folder = os.path.dirname(_plain(path))
        try:
            os.makedirs(folder, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=folder, prefix=".", encoding="utf-8", delete=False) as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise _refused("write", path, error) from error
        self.rename(file.name, path)

    def set_modified(self, path: str, when: float) -> None:
        try:
            os.utime(_plain(path), (when, when))
        except OSError as error:
            raise _refused("write", path, error) from error

    def rename(self, source: str, target: str) -> None:
        source, target = _plain(source), _plain(target)
        try:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            if os.path.lexists(target):  # os.rename would replace a file or an empty folder
                raise FileExistsError(17, "something is there", target)
            os.rename(source, target)
        except OSError as error:
            raise _refused(f"move {source!r} to", target, error) from error

    def remove(self, path: str) -> None:
        path = _plain(path)
        try:
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path)
            else:
                os.remove(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise _refused("remove", path, error) from error


def _plain(path: str) -> str:
    """A path without its scheme."""
    return path.removeprefix("file://").removeprefix("file:")


def _refused(what: str, path: str, error: OSError) -> WriteError:
    return WriteError(f"Could not {what} {path!r}: {error.strerror or error}.")


class HadoopFiles:
    """Files of a Hadoop file system, through the JVM of a classic session."""

    def __init__(self, jvm: Any, system: Any) -> None:
        self._jvm = jvm
        self._system = system

    def names(self, folder: str) -> list[str]:
        with told(WriteError, f"Could not list {folder!r}"):
            if not self._system.exists(self._path(folder)):
                return []
            return sorted(status.getPath().getName() for status in self._system.listStatus(self._path(folder)))

    def exists(self, path: str) -> bool:
        with told(WriteError, f"Could not look for {path!r}"):
            return bool(self._system.exists(self._path(path)))

    def is_file(self, path: str) -> bool:
        with told(WriteError, f"Could not look for {path!r}"):
            return bool(self._system.exists(self._path(path)) and self._system.getFileStatus(self._path(path)).isFile())

    def modified(self, path: str) -> float | None:
        with told(WriteError, f"Could not look for {path!r}"):
            if not self._system.exists(self._path(path)):
                return None
            return float(self._system.getFileStatus(self._path(path)).getModificationTime()) / 1000.0

    def read(self, path: str) -> str | None:
        with told(WriteError, f"Could not read {path!r}"):
            if not self._system.exists(self._path(path)):
                return None
            stream = self._system.open(self._path(path))
            try:
                return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
            finally:
                stream.close()

    def create(self, path: str, text: str) -> bool:
        try:
            # Not to overwrite is what makes it exclusive on HDFS.
            stream = self._system.create(self._path(path), False)
        except SPARK_ERRORS as error:
            if self.exists(path):
                return False
            raise WriteError(f"Could not write {path!r}: {first_line(error)}") from error
        try:
            self._fill(stream, path, text)
        except WriteError:  # an empty file would stand for a whole one
            self.remove(path)
            raise
        return True

    def publish(self, path: str, text: str) -> None:
        beside = f"{path}.new"
        with told(WriteError, f"Could not write {path!r}"):
            stream = self._system.create(self._path(beside), True)
        self._fill(stream, beside, text)
        self.rename(beside, path)

    def set_modified(self, path: str, when: float) -> None:
        with told(WriteError, f"Could not write {path!r}"):
            self._system.setTimes(self._path(path), int(when * 1000), -1)

    def rename(self, source: str, target: str) -> None:
        parent = self._path(target).getParent()
        with told(WriteError, f"Could not move {source!r} to {target!r}"):
            self._system.mkdirs(parent)
            # Hadoop moves into a folder that is there, and says False to most that goes wrong.
            done = not self._system.exists(self._path(target)) and self._system.rename(
                self._path(source), self._path(target)
            )
        if not done:
            raise WriteError(f"Could not move {source!r} to {target!r}: the file system refused.")

    def remove(self, path: str) -> None:
        with told(WriteError, f"Could not remove {path!r}"):
            self._system.delete(self._path(path), True)

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(path)

    def _fill(self, stream: Any, path: str, text: str) -> None:
        with told(WriteError, f"Could not write {path!r}"):
            stream.write(bytearray(text.encode("utf-8")))
            stream.close()


def normal(path: str) -> str:
    """One spelling of a path: absolute and without detours where it is a local one."""
    plain = _plain(path)
    return path.rstrip("/") if "://" in plain else os.path.abspath(plain)


@contextlib.contextmanager
def _known(path: str) -> Iterator[None]:
    """Says so where a session lacks the file system of a path."""
    try:
        yield
    except SPARK_ERRORS as error:
        if any(said in str(error) for said in NO_FILE_SYSTEM):
            raise ConfigError(
                f"{path!r}: this session has no such file system ({first_line(error)}). Start it with the package of "
                "that store (spark-submit --packages, or spark.jars), or name another path."
            ) from error
        raise


def is_inside(path: str, folder: str) -> bool:
    """Whether a path is a folder, or lies in it."""
    inner, outer = normal(path), normal(folder)
    return inner == outer or inner.startswith(f"{outer}/")


def files_of(spark: SparkSession, path: str) -> tuple[Files, str] | None:
    """The files behind a path, and its absolute form.

    Parameters
    ----------
    spark : session.
    path : as Spark takes it; relative ones are those of its default file system.

    Returns
    -------
    None where nothing can be renamed: on Spark Connect, whose files a client does not see, and on object stores.

    Raises
    ------
    ConfigError : this session has no file system for paths like it.
    WriteError : the file system does not answer.
    """
    if is_remote(spark):
        return None
    with told(WriteError, f"Could not reach {path!r}"), _known(path):
        jvm: Any = spark._jvm
        java_path = jvm.org.apache.hadoop.fs.Path(path)
        settings = spark._jsc.hadoopConfiguration()
        system = java_path.getFileSystem(settings)
        absolute = system.makeQualified(java_path)
        scheme = str(absolute.toUri().getScheme())
        local = str(absolute.toUri().getPath())
        is_default = str(jvm.org.apache.hadoop.fs.FileSystem.getDefaultUri(settings).getScheme()) == scheme
    if scheme == "file":
        return LocalFiles(), local if is_default else f"file:{local}"
    return (HadoopFiles(jvm, system), str(absolute)) if scheme in RENAMING else None


def check_folder(files: Files, path: str) -> None:
    """Raises ConfigError where a results folder cannot be made, since it or a folder above it is a file."""
    found, top = path, path.find("/", path.find("://") + 3 if "://" in path else 0)
    while found.rfind("/") > top and not files.exists(found):
        found = found.rpartition("/")[0]
    if files.is_file(found):
        raise ConfigError(f"output.path {path!r}: {found!r} is a file. Name a folder.")


def is_remote(spark: SparkSession) -> bool:
    """Whether a session is a client of Spark Connect."""
    return "connect" in type(spark).__module__
