"""What is lost with plain JupyterLab, and with extensions that hold documents on the server.

    $ python -m tests.bench.document_trial FOLDER [--only CANDIDATE,...] [--trials NAME,...]

installs each candidate into an environment below FOLDER and tries it in real Chromium. It prints a
line of JSON for each trial. Takes about five minutes per candidate, and needs a package index.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tests.e2e.chromium import CHROMIUM, CHROMIUM_FLAGS
from tests.harness import free_ports

TOKEN = "trial"

COMMON = (
    "jupyterlab==4.6.6",
    "notebook==7.6.5",
    "jupyter_server==2.21.1",
    "ipykernel",
    "ipywidgets",
    "matplotlib",
    "tqdm",
)

REPOSITORY = Path(__file__).parents[2]

CANDIDATES: dict[str, tuple[str, ...]] = {
    "plain": (),
    "ec2spawner": (str(REPOSITORY),),
    "collaboration": ("jupyter-collaboration==5.0.4",),
    "nbmodel": ("jupyter-server-nbmodel==0.2.9", "jupyter-collaboration==5.0.4"),
    "documents": ("jupyter-server-documents==0.3.3",),
}

OPTIONS: dict[str, tuple[str, ...]] = {
    "nbmodel": ("--YDocExtension.server_side_execution=True",),
}

OUTPUTS = ".jp-OutputArea-output"

CELLS = {
    "stream": "for i in range(3): print('line', i)",
    "error": "1/0",
    "html": "from IPython.display import HTML, display\ndisplay(HTML('<b id=\"bold\">bold</b>'))",
    "matplotlib": "%matplotlib inline\nimport matplotlib.pyplot as p\np.plot([1, 2]); p.show()",
    "update_display": "h = display('old', display_id=True)\nh.update('new')",
    "clear_output": (
        "from IPython.display import clear_output\n"
        "for i in range(20):\n    clear_output(wait=True); print('round', i)"
    ),
    "tqdm": "import time\nfrom tqdm import tqdm\nfor i in tqdm(range(20)): time.sleep(.02)",
    "widget": "import ipywidgets as w\ns = w.IntSlider(description='slides', value=7)\ns",
    "interact": "@w.interact(x=(0, 9))\ndef f(x=4): print('interacts', x)",
    "output_widget": "o = w.Output()\nwith o: print('inside')\no",
    "input": "name = input('who? ')\nprint('hello', name)",
}
"""Cells whose output is compared with plain JupyterLab's."""

PRINTS = "import time\nfor i in range(30):\n    print('tick', i, flush=True); time.sleep(1)"


@dataclass
class Server:
    """JupyterLab in an environment of its own, with a home of its own."""

    name: str
    environment: Path
    home: Path
    process: subprocess.Popen[bytes]
    port: int
    listening_ms: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def file(self, path: str) -> str:
        return (self.home / path).read_text()

    def megabytes(self) -> int:
        return int(psutil.Process(self.process.pid).memory_info().rss / 2**20)

    def end(self, how: signal.Signals) -> float:
        """Its seconds until it has exited."""
        began = time.monotonic()
        self.process.send_signal(how)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
        return time.monotonic() - began


def install(name: str, folder: Path) -> Path:
    """The candidate's environment, made where it is missing."""
    environment = folder / name
    if (environment / "bin/jupyter-lab").exists():
        return environment
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    constraints = REPOSITORY / "ec2spawner/data/constraints.txt"
    command = [str(environment / "bin/pip"), "install", "--quiet", "--constraint", str(constraints)]
    subprocess.run([*command, *COMMON, *CANDIDATES[name]], check=True)
    return environment


@contextlib.contextmanager
def serving(name: str, environment: Path, home: Path) -> Iterator[Server]:
    home.mkdir(parents=True, exist_ok=True)
    port = free_ports(1)[0]
    kept = {key: os.environ[key] for key in ("LANG", "TZ") if key in os.environ}
    if name == "ec2spawner":
        # As the agent sets it.
        kept["JUPYTER_CONFIG_PATH"] = str(REPOSITORY / "ec2spawner/notebook/defaults")
    path = f"{environment}/bin:/usr/bin:/bin"
    began = time.monotonic()
    with (home.parent / f"{home.name}.log").open("ab") as log:
        process = subprocess.Popen(
            [
                environment / "bin/jupyter-lab",
                "--allow-root",
                "--no-browser",
                "--LabApp.expose_app_in_browser=True",
                f"--ServerApp.port={port}",
                "--ServerApp.port_retries=0",
                f"--IdentityProvider.token={TOKEN}",
                f"--ServerApp.root_dir={home}",
                *OPTIONS.get(name, ()),
            ],
            env={**kept, "HOME": str(home), "PATH": path},
            cwd=home,
            stdout=log,
            stderr=log,
        )
    try:
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            if process.poll() is not None:
                raise RuntimeError(f"{name} did not start: {home.parent / f'{home.name}.log'}")
            time.sleep(0.02)
        listening_ms = int(1000 * (time.monotonic() - began))
        yield Server(name, environment, home, process, port, listening_ms)
    finally:
        for child in psutil.Process(process.pid).children(True) if process.poll() is None else []:
            with contextlib.suppress(psutil.Error):
                child.kill()
        process.kill()
        process.wait()


class Browser:
    """A Chromium that can be killed as a browser that crashes is."""

    def __init__(self, driver: Any, profile: Path) -> None:
        shutil.rmtree(profile, ignore_errors=True)
        port = free_ports(1)[0]
        assert CHROMIUM is not None
        self._process = subprocess.Popen(
            [
                CHROMIUM,
                "--headless=new",
                f"--remote-debugging-port={port}",
                f"--user-data-dir={profile}",
                *CHROMIUM_FLAGS,
                "about:blank",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        until(lambda: answers(f"http://127.0.0.1:{port}/json/version"), 30)
        self._connection = driver.chromium.connect_over_cdp(f"http://127.0.0.1:{port}")

    def page(self) -> Any:
        page = self._connection.contexts[0].new_page()
        page.set_default_timeout(30_000)
        return page

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        with contextlib.suppress(Exception):
            self._connection.close()


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2):
            return True
    except OSError:
        return False


def until(condition: Callable[[], Any], seconds: float) -> bool:
    """Whether it came true in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with contextlib.suppress(Exception):
            if condition():
                return True
        time.sleep(0.1)
    return False


def notebook(*sources: str, outputs: Sequence[object] = ()) -> str:
    cells: list[dict[str, object]] = [
        {
            "cell_type": "code",
            "id": f"cell-{number}",
            "metadata": {},
            "execution_count": None,
            "outputs": list(outputs),
            "source": source,
        }
        for number, source in enumerate(sources)
    ]
    kernel = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    whole = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, indent=1)


def opened(
    server: Server, browser: Browser, path: str, *, workspace: str = "a", idle: bool = True
) -> Any:
    page = browser.page()
    page.goto(f"{server.url}lab/workspaces/{workspace}/tree/{path}?reset&token={TOKEN}")
    if path.endswith(".ipynb"):
        page.locator(".jp-Notebook .jp-Cell .cm-content").first.wait_for()
        if idle:
            until(lambda: "idle" in status(page), 40)
    else:
        page.locator(".jp-FileEditor .cm-content").first.wait_for()
    page.wait_for_timeout(1000)
    return page


def status(page: Any) -> str:
    indicator = page.locator(".jp-Notebook-ExecutionIndicator").first
    return str(indicator.get_attribute("data-status", timeout=1000))


def typed(page: Any, text: str, *, cell: int = 0) -> None:
    """At the end of a cell, or of a text file."""
    page.locator(".cm-content").nth(cell).click()
    page.keyboard.press("Control+End")
    page.keyboard.insert_text(text)


def run_cell(page: Any, cell: int) -> None:
    page.locator(".jp-Notebook .jp-CodeCell .cm-content").nth(cell).click()
    page.keyboard.press("Control+Enter")


def outputs_of(text: str, cell: int = 0) -> list[dict[str, Any]]:
    return list(json.loads(text)["cells"][cell]["outputs"])


def text_of(outputs: Sequence[dict[str, Any]]) -> str:
    found = []
    for output in outputs:
        parts = output.get("text", output.get("data", {}).get("text/plain", ""))
        found.append("".join(parts))
    return "".join(found)


class Trials:
    """All of them; each yields what it measured."""

    def __init__(self, name: str, environment: Path, folder: Path, driver: Any) -> None:
        self.name = name
        self._environment = environment
        self._folder = folder
        self._driver = driver
        self._count = 0

    @contextlib.contextmanager
    def _at_work(self, **files: str) -> Iterator[tuple[Server, Browser]]:
        self._count += 1
        home = self._folder / f"home-{self.name}-{os.getpid()}-{self._count}"
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        for path, content in files.items():
            (home / path.replace("__", ".")).write_text(content)
        with serving(self.name, self._environment, home) as server:
            browser = Browser(self._driver, self._folder / f"profile-{self.name}-{os.getpid()}")
            try:
                yield server, browser
            finally:
                browser.kill()

    def typed_then_browser_killed(self) -> dict[str, object]:
        found: dict[str, object] = {}
        for path in ("a__ipynb", "a__txt"):
            for seconds in (1, 5):
                content = notebook("1") if "ipynb" in path else "1"
                with self._at_work(**{path: content}) as (server, browser):
                    file = path.replace("__", ".")
                    page = opened(server, browser, file)
                    typed(page, " + 4711")
                    page.wait_for_timeout(1000 * seconds)
                    browser.kill()
                    found[f"{file} {seconds} s"] = until(lambda: "4711" in server.file(file), 5)  # noqa: B023
        return found

    def prints_then_browser_killed(self) -> dict[str, object]:
        with self._at_work(a__ipynb=notebook(PRINTS)) as (server, browser):
            page = opened(server, browser, "a.ipynb")
            run_cell(page, 0)
            page.get_by_text("tick 4").first.wait_for()
            browser.kill()
            time.sleep(4)
            second = Browser(self._driver, self._folder / f"profile2-{self.name}-{os.getpid()}")
            try:
                page = opened(server, second, "a.ipynb", workspace="b", idle=False)
                prompt = page.locator(".jp-InputPrompt").first.inner_text()
                kept = max((n for n in range(30) if f"tick {n}\n" in shown(page)), default=None)
                shown_later = until(lambda: "tick 29" in shown(page), 40)
            finally:
                second.kill()
            in_file = until(lambda: "tick 29" in text_of(outputs_of(server.file("a.ipynb"))), 5)
            return {
                "reopened while it runs: last line shown": kept,
                "prompt": prompt,
                "all shown once it ended": shown_later,
                "all in the file": in_file,
            }

    def prints_without_a_browser(self) -> dict[str, object]:
        with self._at_work(a__ipynb=notebook(PRINTS)) as (server, browser):
            page = opened(server, browser, "a.ipynb")
            run_cell(page, 0)
            page.get_by_text("tick 4").first.wait_for()
            browser.kill()
            in_file = until(lambda: "tick 29" in text_of(outputs_of(server.file("a.ipynb"))), 40)
            second = Browser(self._driver, self._folder / f"profile2-{self.name}-{os.getpid()}")
            try:
                page = opened(server, second, "a.ipynb", workspace="b", idle=False)
                all_shown = until(lambda: "tick 29" in shown(page), 5)
            finally:
                second.kill()
            server.end(signal.SIGTERM)
            finally_in_file = "tick 29" in text_of(outputs_of(server.file("a.ipynb")))
            return {
                "all in the file": in_file,
                "all shown when opened again": all_shown,
                "in the file once the server has ended": finally_in_file,
            }

    def two_tabs(self) -> dict[str, object]:
        with self._at_work(a__ipynb=notebook("1", "2")) as (server, browser):
            one = opened(server, browser, "a.ipynb", workspace="a")
            two = opened(server, browser, "a.ipynb", workspace="b")
            typed(one, " + 100", cell=0)
            seen = until(lambda: "+ 100" in two.locator(".jp-Notebook").inner_text(), 5)
            typed(two, " + 200", cell=1)
            for page in (one, two):
                page.keyboard.press("Control+s")
                page.wait_for_timeout(2000)
            text = server.file("a.ipynb")
            dialogs = one.locator(".jp-Dialog").count() + two.locator(".jp-Dialog").count()
            return {
                "seen in the other": seen,
                "both in the file": "+ 100" in text and "+ 200" in text,
                "dialogs": dialogs,
            }

    def outputs(self) -> dict[str, object]:
        found: dict[str, object] = {}
        with self._at_work(a__ipynb=notebook(*CELLS.values())) as (server, browser):
            page = opened(server, browser, "a.ipynb")
            for number, name in enumerate(CELLS):
                began = time.monotonic()
                run_cell(page, number)
                if name == "input":
                    box = page.locator(".jp-Stdin-input")
                    try:
                        box.first.wait_for(timeout=8000)
                        box.first.fill("Ada")
                        box.first.press("Enter")
                    except Exception:
                        found["input asked"] = False
                cell = page.locator(".jp-Notebook .jp-CodeCell").nth(number)
                prompt = cell.locator(".jp-InputPrompt")
                done = until(lambda: "*" not in prompt.inner_text(), 15)  # noqa: B023
                page.wait_for_timeout(700)
                text = " ".join(cell.locator(OUTPUTS).all_inner_texts())
                images = cell.locator(f"{OUTPUTS} img").count()
                took = round(time.monotonic() - began - 0.7, 2)
                found[name] = {"done": done, "s": took, "text": text[-120:], "images": images}
            slider = page.locator(".jp-CodeCell").nth(list(CELLS).index("interact"))
            with contextlib.suppress(Exception):
                slider.locator(".noUi-handle").first.focus(timeout=3000)
                page.keyboard.press("ArrowRight")
                page.wait_for_timeout(1500)
            found["interact moved"] = " ".join(slider.locator(OUTPUTS).all_inner_texts())[-60:]
            page.keyboard.press("Control+s")
            page.wait_for_timeout(3000)
            text = server.file("a.ipynb")
            found["in the file"] = {
                name: [
                    [each["output_type"], *sorted(each.get("data", {}))]
                    for each in outputs_of(text, number)
                ]
                for number, name in enumerate(CELLS)
            }
        return found

    def large_notebook(self) -> dict[str, object]:
        line = "x" * 99 + "\n"
        outputs = [{"output_type": "stream", "name": "stdout", "text": line * 500}]
        content = notebook(*(["1"] * 100), outputs=outputs)
        with self._at_work(a__ipynb=content) as (server, browser):
            before = server.megabytes()
            began = time.monotonic()
            page = opened(server, browser, "a.ipynb")
            open_s = time.monotonic() - began - 1
            typed(page, " + 4711")
            began = time.monotonic()
            until(lambda: "4711" in server.file("a.ipynb"), 10)
            save_s = time.monotonic() - began
            page.wait_for_timeout(5000)
            cpu = sum(psutil.Process(server.process.pid).cpu_times()[:2])
            for _ in range(20):
                page.keyboard.insert_text("1")
                page.wait_for_timeout(250)
            used = sum(psutil.Process(server.process.pid).cpu_times()[:2]) - cpu
            stores = [*server.home.rglob("*.db"), *server.home.rglob("*.y")]
            return {
                "MB": round(len(content) / 1e6, 1),
                "opened s": round(open_s, 1),
                "typed until in the file s": round(save_s, 1),
                "server CPU % while typing": round(100 * used / 5),
                "server MiB before, after": [before, server.megabytes()],
                "stores bytes": {each.name: each.stat().st_size for each in stores},
            }

    def changed_on_disk(self) -> dict[str, object]:
        found: dict[str, object] = {}
        with self._at_work(a__ipynb=notebook("1")) as (server, browser):
            page = opened(server, browser, "a.ipynb")
            page.wait_for_timeout(2000)
            (server.home / "a.ipynb").write_text(notebook("'of git'"))
            found["clean: shown"] = until(lambda: "of git" in page.content(), 8)
            typed(page, " + 4711")
            page.keyboard.press("Control+s")
            page.wait_for_timeout(3000)
            text = server.file("a.ipynb")
            found["then typed: git's and typed in the file"] = ["of git" in text, "4711" in text]
            found["dialogs"] = page.locator(".jp-Dialog").count()
        with self._at_work(a__ipynb=notebook("1")) as (server, browser):
            page = opened(server, browser, "a.ipynb")
            page.wait_for_timeout(2000)
            typed(page, " + 4711")
            (server.home / "a.ipynb").write_text(notebook("'of git'"))
            page.wait_for_timeout(8000)
            text = server.file("a.ipynb")
            found["unsaved: git's and typed in the file"] = ["of git" in text, "4711" in text]
            shown_text = page.locator(".jp-Notebook").inner_text()
            found["unsaved: git's and typed shown"] = ["git" in shown_text, "4711" in shown_text]
            found["unsaved: dialogs"] = page.locator(".jp-Dialog").count()
        return found

    def server_ends(self) -> dict[str, object]:
        found: dict[str, object] = {}
        for how in (signal.SIGTERM, signal.SIGKILL):
            for seconds in (0.2, 3.0):
                with self._at_work(a__ipynb=notebook("1")) as (server, browser):
                    page = opened(server, browser, "a.ipynb")
                    typed(page, " + 4711")
                    page.wait_for_timeout(1000 * seconds)
                    took = server.end(how)
                    found[f"{how.name} {seconds} s"] = {
                        "in the file": "4711" in server.file("a.ipynb"),
                        "exit s": round(took, 1),
                    }
        return found

    def cost(self) -> dict[str, object]:
        starts, memory = [], []
        for _ in range(3):
            with self._at_work(a__txt="") as (server, _browser):
                time.sleep(2)
                starts.append(server.listening_ms)
                memory.append(server.megabytes())
        size = sum(f.stat().st_size for f in self._environment.rglob("*") if f.is_file())
        return {
            "listening ms": sorted(starts)[1],
            "MiB": sorted(memory)[1],
            "installed MB": round(size / 1e6),
        }

    def away_and_back(self) -> dict[str, object]:
        """A laptop that sleeps: the page is offline while its document leaves the memory."""
        with self._at_work(a__ipynb=notebook("'first'")) as (server, browser):
            page = opened(server, browser, "a.ipynb")
            typed(page, " + 4711")
            page.wait_for_timeout(3000)
            page.context.set_offline(True)
            typed(page, " + 4712")
            page.wait_for_timeout(100_000)
            page.context.set_offline(False)
            page.wait_for_timeout(20_000)
            dialogs = page.locator(".jp-Dialog").all_inner_texts()
            page.keyboard.press("Control+s")
            page.wait_for_timeout(5000)
            text = server.file("a.ipynb")
            return {
                "in the file": {each: text.count(each) for each in ("first", "4711", "4712")},
                "dialogs": dialogs,
                "cells": len(json.loads(text)["cells"]),
            }


def shown(page: Any) -> str:
    return "\n".join(page.locator(OUTPUTS).all_inner_texts()) + "\n"


TRIALS = (
    "cost",
    "typed_then_browser_killed",
    "prints_without_a_browser",
    "prints_then_browser_killed",
    "two_tabs",
    "outputs",
    "large_notebook",
    "changed_on_disk",
    "server_ends",
    "away_and_back",
)


def main() -> None:
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default=",".join(CANDIDATES))
    parser.add_argument("--trials", default=",".join(TRIALS))
    options = parser.parse_args()
    folder = options.folder.absolute()
    with sync_playwright() as driver:
        for name in options.only.split(","):
            trials = Trials(name, install(name, folder), folder / "work", driver)
            for trial in options.trials.split(","):
                try:
                    figures: object = getattr(trials, trial)()
                except Exception as error:
                    figures = {"failed": f"{error!r}"[:300]}
                print(json.dumps({"candidate": name, "trial": trial, **figures}), flush=True)  # type: ignore[dict-item]


if __name__ == "__main__":
    main()
