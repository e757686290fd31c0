"""What is shipped is what was written, and it works without the repository."""

from __future__ import annotations

import subprocess
import sys
import zipfile

import pytest

pytestmark = pytest.mark.wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory, request):
    """The wheel, built once."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(
        build, check=False, cwd=request.config.rootpath, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    (path,) = folder.glob("*.whl")
    return zipfile.ZipFile(path)


def test_the_wheel_is_typed(wheel):
    """The wheel carries py.typed and the licence."""
    names = wheel.namelist()
    assert "capgate/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_wheel_holds_the_package_and_nothing_else(wheel, sources):
    """Every module is in the wheel, and no test, example or benchmark is."""
    shipped = {name for name in wheel.namelist() if name.endswith(".py")}
    assert shipped == {file.where.removeprefix("src/") for file in sources}


def test_the_wheel_imports_from_a_clean_directory(wheel, tmp_path):
    """The unpacked wheel imports on its own, warnings being errors."""
    wheel.extractall(tmp_path)
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import capgate;"
        "[getattr(capgate, name) for name in capgate.__all__]; print(capgate.__file__)"
    )
    command = [sys.executable, "-I", "-W", "error", "-c", code]
    done = subprocess.run(command, check=False, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(tmp_path / "capgate" / "__init__.py")
