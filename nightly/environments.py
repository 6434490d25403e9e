"""Virtual environments of other Pythons and other releases, kept under build/ while what they are made of stays."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import tomllib

REPOSITORY = Path(__file__).parents[1]
FOLDER = REPOSITORY / "build" / "nightly"
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]

TESTING = ("chispa", "hypothesis", "pytest", "scikit-learn")
"""What the suite needs beside the package and Spark."""

INSTALL_SECONDS = 1200


@dataclass(frozen=True)
class Environment:
    """A virtual environment."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def site_packages(self) -> Path:
        (found,) = self.folder.glob("lib/python*/site-packages")
        return found

    @property
    def spark_home(self) -> Path:
        return self.site_packages / "pyspark"


def python(version: str) -> Path:
    """A Python of this version that can make virtual environments; the test is skipped where there is none."""
    for candidate in candidates(version):
        asked = [candidate, "-c", "import ensurepip, sys, venv; print('%d.%d' % sys.version_info[:2])"]
        answer = subprocess.run(asked, capture_output=True, text=True, timeout=60)
        if answer.returncode == 0 and answer.stdout.strip() == version:
            return candidate
    pytest.skip(f"no python{version} on PATH, nor among pyenv's, that can make a virtual environment")


def candidates(version: str) -> Iterator[Path]:
    yield Path(sys.executable)
    if on_path := shutil.which(f"python{version}"):  # with pyenv a script that may know of no such version
        yield Path(on_path)
    yield from Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv").glob(f"versions/{version}.*/bin/python")


def environment(
    name: str, interpreter: Path, requirements: Sequence[str], wheel: Path | None = None, extras: str = ""
) -> Environment:
    """A virtual environment with these requirements, and with the wheel of today where one is given.

    Parameters
    ----------
    name : its folder's name.
    interpreter : the Python to make it with.
    requirements : what pip installs; where they are as they were, the environment is used again.
    wheel : of the package; installed anew each time.
    extras : of the package, such as `[local]`.
    """
    made = Environment(FOLDER / name)
    of_wheel = [extras, json.dumps(PROJECT, sort_keys=True)] if wheel else []
    stamp, content = made.folder / ".made-of", "\n".join([version_of(interpreter), *requirements, *of_wheel])
    if not stamp.is_file() or stamp.read_text(encoding="utf-8") != content:
        shutil.rmtree(made.folder, ignore_errors=True)
        made.folder.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([interpreter, "-m", "venv", made.folder], check=True, timeout=INSTALL_SECONDS)
        pip_install(made, *requirements, *([f"{wheel}{extras}"] if wheel else []))
        stamp.write_text(content, encoding="utf-8")
    elif wheel is not None:
        pip_install(made, "--no-deps", "--force-reinstall", str(wheel))
    return made


def pip_install(made: Environment, *arguments: str) -> None:
    command = [made.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS)
    if answer.returncode != 0:
        pytest.fail(f"pip install {' '.join(arguments)}:\n{answer.stderr[-4000:]}", pytrace=False)


def version_of(interpreter: Path) -> str:
    answer = subprocess.run([interpreter, "-VV"], capture_output=True, text=True, check=True, timeout=60)
    return answer.stdout.strip()


def build_wheel() -> Path:
    """The wheel of this checkout, made as a release is: from the sdist, by the declared build backend."""
    folder = FOLDER / "dist"
    shutil.rmtree(folder, ignore_errors=True)
    tool = environment("build", Path(sys.executable), ["build>=1.2,<2"])
    command = [tool.python, "-m", "build", "--outdir", folder, REPOSITORY]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS)
    if answer.returncode != 0:
        pytest.fail(f"the wheel does not build:\n{(answer.stdout + answer.stderr)[-4000:]}", pytrace=False)
    (wheel,) = folder.glob("*.whl")
    return wheel


def extra(name: str) -> list[str]:
    """The requirements of an extra of pyproject.toml."""
    return list(PROJECT["optional-dependencies"][name])


def needed(*names: str) -> list[str]:
    """What the package itself requires, or of that only some packages."""
    return [line for line in PROJECT["dependencies"] if not names or line_name(line) in names]


def testing() -> list[str]:
    """What the suite needs, with the versions of the extra `dev`."""
    return [line for line in extra("dev") if line_name(line) in TESTING]


def old_spark() -> list[str]:
    """What the extra `local` installs where Python is the oldest: PySpark 3.5, what it needs, and its Java."""
    return [line.split(";")[0].strip() for line in extra("local") if "python_version < '3.11'" in line]


def lowest(requirements: Sequence[str]) -> list[str]:
    """The requirements at the lowest versions that they admit."""
    return [re.sub(r">=([\w.]+).*", r"==\1", line) for line in requirements]


def line_name(requirement: str) -> str:
    return re.split(r"[^\w.-]", requirement)[0]
