"""A Chromium without a window, driven by its DevTools protocol over two pipes: nothing but it is
needed. https://chromedevtools.github.io/devtools-protocol"""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from conftest import CHROMIUM

PATIENCE = 60.0  # seconds that an answer may take


def find() -> str | None:
    """The path of a Chromium."""
    return next((path for name in CHROMIUM if (path := shutil.which(name))), None)


class Browser:
    """One page of a browser of its own. `faults` are what its scripts raised or the console says,
    `asked` the addresses that it loaded."""

    def __init__(self, folder: Path) -> None:
        path = find()
        assert path is not None
        ours, theirs = os.pipe(), os.pipe()
        self._out, self._in = ours[1], theirs[0]

        def pipes() -> None:  # it reads at 3 and writes at 4
            os.dup2(ours[0], 103)
            os.dup2(theirs[1], 104)
            os.dup2(103, 3)
            os.dup2(104, 4)

        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        flags += ["--no-first-run", "--remote-debugging-pipe", "--force-device-scale-factor=1"]
        self._process = subprocess.Popen(
            [path, *flags, f"--user-data-dir={folder}", "about:blank"],
            preexec_fn=pipes, close_fds=False,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(ours[0])
        os.close(theirs[1])
        self._numbers = itertools.count(1)
        self._rest = b""
        self._session: str | None = None
        self.faults: list[str] = []
        self.asked: list[str] = []
        targets = self("Target.getTargets")["targetInfos"]
        page = next(t["targetId"] for t in targets if t["type"] == "page")
        attached = self("Target.attachToTarget", targetId=page, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self(f"{domain}.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._session = None
        with contextlib.suppress(OSError, RuntimeError):
            self("Browser.close")
        os.close(self._out)
        os.close(self._in)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    # ---- the protocol --------------------------------------------------------------------------

    def __call__(self, method: str, **params: Any) -> Any:
        """What a method gives. Raises RuntimeError."""
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        for answer in self._messages():
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self._note(answer)
        raise RuntimeError(f"{method}: no answer")

    def _messages(self) -> Iterator[dict[str, Any]]:
        end = time.monotonic() + PATIENCE
        while True:
            while b"\0" in self._rest:
                first, _, self._rest = self._rest.partition(b"\0")
                yield json.loads(first)
            if not select.select([self._in], [], [], max(0.0, end - time.monotonic()))[0]:
                raise RuntimeError(f"the browser says nothing for {PATIENCE:.0f} s")
            got = os.read(self._in, 1 << 20)
            if not got:
                raise RuntimeError("the browser is gone")
            self._rest += got

    def _note(self, event: dict[str, Any]) -> None:
        params = event.get("params", {})
        match event.get("method"):
            case "Runtime.exceptionThrown":
                self.faults.append(json.dumps(params["exceptionDetails"]))
            case "Log.entryAdded":
                self.faults.append(params["entry"]["text"])
            case "Runtime.consoleAPICalled":
                self.faults.append(json.dumps(params["args"]))
            case "Network.requestWillBeSent":
                self.asked.append(params["request"]["url"])

    # ---- what a person does --------------------------------------------------------------------

    def open(self, page: Path, width: int = 1280, height: int = 900) -> None:
        self("Emulation.setDeviceMetricsOverride", width=width, height=height,
             deviceScaleFactor=1, mobile=width < 700)  # fmt: skip
        self("Page.navigate", url=page.as_uri())
        self.until("document.readyState === 'complete'")

    def eval(self, code: str) -> Any:
        """The value of an expression."""
        found = self("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise RuntimeError(f"{code}: {json.dumps(found['exceptionDetails'])}")
        return found["result"].get("value")

    def until(self, code: str) -> None:
        """Waits until an expression is true."""
        end = time.monotonic() + PATIENCE
        while not self.eval(code):
            assert time.monotonic() < end, f"it never becomes true: {code}"
            time.sleep(0.02)

    def key(self, key: str, text: str = "") -> None:
        for kind in ("keyDown", "keyUp"):
            more = {"text": text} if text and kind == "keyDown" else {}
            self("Input.dispatchKeyEvent", type=kind, key=key, code=key, **more)

    def click(self, selector: str) -> None:
        """In the middle of the first such element, which is scrolled to."""
        box = self.eval(
            f"""(() => {{ const e = document.querySelector({json.dumps(selector)});
            e.scrollIntoView({{block: "center", inline: "center", behavior: "instant"}});
            const b = e.getBoundingClientRect();
            return [b.left + b.width / 2, b.top + b.height / 2]; }})()"""
        )
        for kind in ("mousePressed", "mouseReleased"):
            self("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left",
                 clickCount=1)  # fmt: skip

    def media(self, media: str = "", scheme: str = "light") -> None:
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        features += [{"name": "prefers-reduced-motion", "value": "reduce"}]  # clicks hit what stays
        self("Emulation.setEmulatedMedia", media=media, features=features)

    def paper(self) -> bytes:
        return base64.b64decode(self("Page.printToPDF", printBackground=True)["data"])
