"""Wheels that a hub's machine installs, from files of their own: there is no package index."""

from __future__ import annotations

import sysconfig
import zipfile
from collections.abc import Mapping
from pathlib import Path

TREE = Path(__file__).resolve().parents[3]
AWS = TREE / "configs/aws"


def wheel(folder: Path, *also: str, extra: str = "") -> str:
    """This package as a wheel, with these modules and what its extra `campus` needs besides; what
    pip is given for it."""
    [info] = Path(sysconfig.get_path("purelib")).glob("ec2spawner-*.dist-info")
    name = info.name.removesuffix(".dist-info")
    data = f"{name}.data/data/share/ec2spawner/configs/aws"
    files = {f"ec2spawner/{each}.py": b"" for each in also}
    for root, prefix in ((TREE / "ec2spawner", "ec2spawner"), (AWS, data)):
        for file in root.rglob("*"):
            inside = file.relative_to(root)
            if file.is_file() and not {"__pycache__", "labextension"} & set(inside.parts):
                files[f"{prefix}/{inside}"] = file.read_bytes()
    for part in ("METADATA", "WHEEL", "entry_points.txt"):
        files[f"{info.name}/{part}"] = (info / part).read_bytes()
    if extra:
        needs = f'Provides-Extra: campus\nRequires-Dist: {extra} ; extra == "campus"\nName: '
        about = f"{info.name}/METADATA"
        files[about] = files[about].replace(b"Name: ", needs.encode(), 1)
    return f"ec2spawner @ {write_wheel(folder / f'{name}-py3-none-any.whl', files)}"


def write_wheel(path: Path, files: Mapping[str, bytes]) -> str:
    [info] = {name.partition("/")[0] for name in files if ".dist-info/" in name}
    record = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
    path.parent.mkdir(exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in {**files, f"{info}/RECORD": record.encode()}.items():
            archive.writestr(name, content)
    return path.as_uri()


def extra_package(folder: Path, name: str) -> str:
    """A package that an admin installs beside the hub."""
    about = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n"
    files = {
        f"{name}.py": b"",
        f"{name}-1.dist-info/METADATA": about.encode(),
        f"{name}-1.dist-info/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\n"
        b"Tag: py3-none-any\n",
    }
    return f"{name} @ {write_wheel(folder / f'{name}-1-py3-none-any.whl', files)}"
