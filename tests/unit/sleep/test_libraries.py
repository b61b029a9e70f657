"""Arrays, frames, tensors and models of the real libraries.

`EC2SPAWNER_LIBRARIES` may name a folder that has them, for `PYTHONPATH`; it is made otherwise.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.unit.sleep.notebook import ROOT, Notebook, entries, sleep_and_wake

LIBRARIES = ("numpy", "pandas", "polars", "pyarrow", "scikit-learn", "scipy", "torch")


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """With which a notebook has the libraries."""
    folder = os.environ.get("EC2SPAWNER_LIBRARIES")
    if folder is None:
        folder = str(tmp_path_factory.mktemp("libraries"))
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", folder]
        subprocess.run([*command, *LIBRARIES], check=True, timeout=1800)
    return {"PYTHONPATH": f"{ROOT}:{folder}"}


ARRAYS = """
import datetime, numpy as np, pandas as pd, polars as pl, scipy.sparse as sp
rng = np.random.default_rng(3); rng.random()
array = np.arange(10.0).reshape(2, 5)
fortran, empty, scalar = np.asfortranarray(array), np.zeros((0, 3)), np.float32(1.5)
view, flipped, owner = array[:, 1:3], array[::-1], array.base
alone = np.zeros(1_000_000)[:3]
dates = np.array(["2020-01-01", "NaT"], "M8[D]"); texts = np.array(["a", "bc"])
objects = np.array([{}, [1], None], dtype=object); shared = objects[1]
record = np.zeros(3, dtype=[("a", "i4"), ("b", "f8")]); record["a"] = 7
masked = np.ma.masked_array([1, 2], [True, False]); matrix = np.matrix("1 2")
fixed = np.arange(3); fixed.flags.writeable = False
strided = np.arange(5_000_000.0).reshape(1000, 5000)[::2, ::3].copy()[:, ::2]
frame = pd.DataFrame({"a": [1, 2, 3], "b": ["x", "y", None], "c": pd.Categorical(list("aba"))})
frame["t"] = pd.date_range("2020", periods=3, tz="Europe/Berlin")
frame["n"] = pd.array([1, None, 3])
series, index = frame["a"] * 2, pd.MultiIndex.from_product([[1, 2], ["x"]])
grouped = frame.groupby("a").sum(numeric_only=True)
pframe = pl.DataFrame({"a": [1, 2], "b": ["x", None], "l": [[1], [2, 3]]})
pseries, plazy = pl.Series("s", [1, 2]), pframe.lazy().filter(pl.col("a") > 1)
sparse = sp.eye(1_000_000, format="csr")
expected = (sparse.sum(), sparse.nnz)
ufunc = np.add
"""

CHECKS = {
    "numpy": "np.array_equal(array, np.arange(10.0).reshape(2, 5)) and array.flags.writeable",
    "order": "fortran.flags.f_contiguous and not fortran.flags.c_contiguous",
    "views": "np.shares_memory(array, view) and np.shares_memory(flipped, owner)",
    "view": "view.base is owner and np.array_equal(flipped, array[::-1])",
    "dates": "dates[0] == np.datetime64('2020-01-01') and np.isnat(dates[1]) and texts[1] == 'bc'",
    "objects": "objects[1] is shared and objects[2] is None and record['a'].sum() == 21",
    "others": "masked.sum() == 2 and matrix.shape == (1, 2) and empty.shape == (0, 3)",
    "scalar": "scalar == np.float32(1.5) and type(scalar) is np.float32",
    "fixed": "not fixed.flags.writeable and fixed[2] == 2",
    "strided": "strided.shape == (500, 834) and strided[1, 1] == 10006.0",
    "alone": "alone.shape == (3,)",
    "random": "rng.random() == (lambda r: (r.random(), r.random())[1])(np.random.default_rng(3))",
    "frame": "frame.dtypes['c'].name == 'category' and str(frame['t'].dt.tz) == 'Europe/Berlin'",
    "frame_values": "frame['b'].tolist()[:2] == ['x', 'y'] and frame['n'].isna().sum() == 1",
    "series": "series.tolist() == [2, 4, 6] and list(index) == [(1, 'x'), (2, 'x')]",
    "polars": "pframe.equals(pl.DataFrame({'a': [1, 2], 'b': ['x', None], 'l': [[1], [2, 3]]}))",
    "lazy": "pseries.to_list() == [1, 2] and plazy.collect().height == 1",
    "sparse": "(sparse.sum(), sparse.nnz) == expected and ufunc is np.add",
}

MODELS = """
import numpy as np, torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
torch.manual_seed(0)
X, y = np.random.default_rng(0).random((50, 3)), np.arange(50) % 2
pipe = make_pipeline(StandardScaler(), RandomForestClassifier(10, random_state=0)).fit(X, y)
predicted = pipe.predict(X)
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))
        self.register_buffer("seen", torch.zeros(1))
    def forward(self, x): return self.layers(x)
device = "cuda" if torch.cuda.is_available() else "cpu"
net = Net().to(device)
optimizer = torch.optim.AdamW(net.parameters())
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2)
for _ in range(3):
    optimizer.zero_grad()
    net(torch.ones(5, 3, device=device)).sum().backward()
    optimizer.step()
    schedule.step()
output = net(torch.ones(1, 3, device=device)).detach()
tensor = torch.arange(1_000_000.0, device=device)
part, half = tensor[10:20], tensor.to(torch.bfloat16)
leaf = torch.ones(3, requires_grad=True)
loss = (leaf * 2).sum()
dense = torch.eye(3).to_sparse()
batches = {"train": [tensor, part], "net": net}
generator = torch.Generator().manual_seed(5)
dtype = torch.float16
"""

MODEL_CHECKS = {
    "sklearn": "np.array_equal(pipe.predict(X), predicted)",
    "net": "type(net) is Net and torch.equal(net(torch.ones(1, 3, device=device)), output)",
    "optimizer": "optimizer.param_groups[0]['params'][0] is net.layers[0].weight",
    "state": "optimizer.state[net.layers[0].weight]['step'] == 3 and schedule.last_epoch == 3",
    "schedule": "schedule.optimizer is optimizer",
    "tensor": "tensor.device.type == device and tensor.sum().item() == torch.arange(1e6).sum()",
    "shares": "part.untyped_storage().data_ptr() == tensor.untyped_storage().data_ptr()",
    "identity": "batches['train'][0] is tensor and batches['net'] is net",
    "types": "half.dtype is torch.bfloat16 and dtype is torch.float16 and leaf.requires_grad",
    "loss": "loss.item() == 6 and dense.to_dense().sum() == 3",
}


SHARED = """
import numpy as np, pandas as pd, torch, tempfile
raw = bytearray(range(80))
whole, part = np.frombuffer(raw, "u1"), np.frombuffer(raw, "u1", offset=8)
x = np.arange(10.0)
fixed = x[2:5]; fixed.flags.writeable = False
wide, rows = np.broadcast_to(np.float64(3), (20_000, 20_000)), np.broadcast_to(x, (1000, 10))
late = x[:2]; late_owner = np.arange(3); late_view = late_owner[1:]
late_owner.flags.writeable = False
windows = np.lib.stride_tricks.sliding_window_view(np.arange(100.0), 90)
np.arange(4.0).tofile("mapped.bin")
mapped = np.memmap("mapped.bin", dtype="f8", mode="r+")
rest, plain = mapped[1:], np.asarray(mapped)
objects = np.array([1, [2], None, 4], dtype=object); some = objects[2:0:-1]
matrix = np.matrix(np.arange(4).reshape(2, 2), copy=False); of_matrix = np.asarray(matrix)
leaf = torch.ones(3, requires_grad=True); (leaf * 2).sum().backward()
layer = torch.nn.Linear(2, 2); layer(torch.ones(1, 2)).sum().backward()
tags = {"a": 1}
frame = pd.DataFrame({"a": [1, 2], "b": [3.0, 4.0], "n": pd.array([1, None])})
frame.attrs["tags"] = tags
frames = [frame, frame.rename(columns={"a": "c"}), frame["a"]]
# None of these shares again.
elsewhere = tempfile.NamedTemporaryFile(dir="/dev/shm"); elsewhere.truncate(8)
copied = np.memmap(elsewhere.name, dtype="u1", mode="r+")
array = np.arange(5.0); tensor = torch.from_numpy(array)
big = np.zeros(1_000_000); one, other = big[:5], big[3:8]; del big
table = np.zeros((2, 2)); of_table = pd.DataFrame(table, copy=False)
loss = (leaf * 2).sum()
"""

SHARED_CHECKS = {
    "buffer": "raw.__setitem__(9, 77) is None and whole[9] == part[1] == 77",
    "fixed": "not fixed.flags.writeable and np.shares_memory(fixed, x)",
    "wide": "not wide.flags.writeable and wide.strides == (0, 0) and wide[5, 5] == 3",
    "rows": "not rows.flags.writeable and np.shares_memory(rows, x) and rows.shape == (1000, 10)",
    "late": "late_view.flags.writeable and not late_owner.flags.writeable",
    "late_view": "np.shares_memory(late_view, late_owner) and late.flags.writeable",
    "windows": "windows[5, 1] == 6 and windows.strides == (8, 8) and not windows.flags.writeable",
    "mapped": "type(rest) is np.memmap and np.shares_memory(mapped, rest)",
    "file": "mapped.__setitem__(3, 8) is None and np.fromfile('mapped.bin')[3] == rest[2] == 8",
    "plain": "np.shares_memory(mapped, plain) and type(plain) is np.ndarray",
    "objects": "np.shares_memory(objects, some) and some[1] is objects[1] and some[0] is None",
    "matrix": "type(matrix) is np.matrix and np.shares_memory(matrix, of_matrix)",
    "gradient": "leaf.grad.tolist() == [2, 2, 2] and layer.weight.grad.sum() == 4",
    "attributes": "frame.attrs['tags'] is tags and frames[0] is frame",
    "copied": "type(copied) is np.ndarray and copied.sum() == 0",
}

FRAMES_ARE_VALUES = """
frames[1].iloc[0, 1] = 99.0
frames[1].iloc[0, 2] = 99
frames[2].iloc[0] = 99
print(frame.iloc[0].tolist())
"""

DIFFERING = {
    "array": ["no-longer-shared"],
    "copied": ["copied"],
    "loss": ["without-graph"],
    "of_table": ["no-longer-shared"],
    "one": ["no-longer-shared"],
    "other": ["no-longer-shared"],
    "table": ["no-longer-shared"],
    "tensor": ["no-longer-shared"],
}


@pytest.mark.long
def test_what_shares_memory_shares_it_again_or_the_report_says_so(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    folder = tmp_path / "generation"
    with Notebook(tmp_path, environment=environment) as first:
        first.say(SHARED)
        said = first.say(FRAMES_ARE_VALUES.replace("frames[", "[f.copy() for f in frames]["))
        first.save(folder)
        assert "with a copy of what it shared with others" in first.say("%sleep")
    assert entries(folder)["wide"]["size_bytes"] < 10_000
    with Notebook(tmp_path, environment=environment) as woken:
        found = woken.restore(folder)
        assert {each["name"]: [each["code"]] for each in found["differing"]} == DIFFERING
        assert not wrong(woken, SHARED_CHECKS)
        assert woken.say(FRAMES_ARE_VALUES) == said


HOSTILE = """
import os, pandas as pd
from pandas.api.extensions import ExtensionArray, ExtensionDtype
class Hostile:
    def __reduce__(self): os._exit(1)
class Kind(ExtensionDtype):
    name, type = "kind", object
class Column(ExtensionArray):
    dtype, nbytes = Kind(), 0
    def __init__(self, items): self.items = items
    def __len__(self): return len(self.items)
    def __getitem__(self, key): return Column(self.items[key]) if isinstance(key, slice) else 0
    def copy(self): return Column(self.items)
    def isna(self): return [False] * len(self)
    def __reduce__(self): os._exit(1)
    @classmethod
    def _from_sequence(cls, items, **about): return cls(list(items))
attributes = pd.DataFrame({"a": [1]}); attributes.attrs["x"] = Hostile()
column = pd.Series(Column([1, 2]))
labels = pd.Series([1], index=pd.Index([Hostile()], dtype=object))
category = pd.Series(pd.Categorical([1], categories=[1])); levels = Hostile()
category = category.cat.rename_categories([levels])
fine = pd.DataFrame({"a": [1]})
"""


@pytest.mark.long
def test_what_is_hostile_in_a_frame_costs_that_frame_only(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    folder = tmp_path / "generation"
    with Notebook(tmp_path, environment=environment) as first:
        first.say(HOSTILE)
        first.save(folder)
        assert first.say("print(len(fine))") == "1"
    found = entries(folder)
    for name in ("attributes", "column", "labels", "category"):
        assert found[name]["code"] == "crashed", found[name]
    assert found["fine"]["saved"]


def wrong(notebook: Notebook, checks: dict[str, str]) -> list[str]:
    said = {name: notebook.run(f"print(bool({check}))") for name, check in checks.items()}
    return [f"{name}: {done}" for name, done in said.items() if done["said"].strip() != "True"]


@pytest.mark.long
@pytest.mark.parametrize(("cell", "checks"), [(ARRAYS, CHECKS), (MODELS, MODEL_CHECKS)])
def test_values_are_as_they_were(
    tmp_path: Path, environment: dict[str, str], cell: str, checks: dict[str, str]
) -> None:
    with sleep_and_wake(tmp_path, [cell], environment=environment) as woken:
        found = entries(tmp_path / "generation")
        lost = [each for name, each in found.items() if not each["saved"] and name != "generator"]
        assert not lost
        assert not wrong(woken, checks)
    # A view of a few bytes does not save the megabytes that it is a part of.
    assert found.get("alone", {"size_bytes": 0})["size_bytes"] < 10_000


@pytest.mark.long
def test_four_gigabytes_are_saved_and_wait_at_waking(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    if psutil.virtual_memory().available < 10 << 30:
        pytest.skip("needs 10 GiB of free memory")
    folder, small = tmp_path / "generation", tmp_path / "small"
    with Notebook(tmp_path, environment=environment) as first:
        first.say("import numpy as np; huge = np.zeros(500_000_000); huge[7] = 1; other = 1")
        first.save(small, seconds=300, max_bytes=1 << 30)
        assert entries(small)["huge"]["code"] == "no-space"
        assert entries(small)["other"]["saved"]
        first.save(folder, seconds=300, max_bytes=5 << 30)
    with Notebook(tmp_path, environment=environment) as woken:
        assert woken.restore(folder, eager_bytes=1 << 20)["later"] == ["huge"]
        assert woken.say("print(huge[7], huge.sum(), huge.nbytes)") == "1.0 1.0 4000000000"


@pytest.mark.gpu
def test_tensors_return_to_their_gpu_or_to_the_cpu(tmp_path: Path) -> None:
    folder = tmp_path / "generation"
    with Notebook(tmp_path) as first:
        first.say(MODELS)
        assert first.say("print(device)") == "cuda"
        saved = first.save(folder)
        assert {each["name"] for each in saved["entries"] if each["gpu"]} >= {"net", "tensor"}
    with Notebook(tmp_path) as woken:
        assert not woken.restore(folder)["moved"]
        assert not wrong(woken, MODEL_CHECKS)
    with Notebook(tmp_path, environment={"CUDA_VISIBLE_DEVICES": ""}) as elsewhere:
        assert {"net", "tensor"} <= set(elsewhere.restore(folder)["moved"])
        elsewhere.say("device = 'cpu'")
        assert not wrong(elsewhere, {n: c for n, c in MODEL_CHECKS.items() if n != "net"})
