"""A real browser without a window: Debian's headless Chromium, spoken to through a pipe (the DevTools protocol).

    with chromium() as browser:
        browser.show(page, width=390, dark=True)
        browser.evaluate("document.title")
        browser.pixel(10, 10)                       the colour on the screen: '#ffffff'

A pipe, so that no port is open. A message is JSON and ends in a null byte.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import zlib
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from kit.programs.commands import need

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROGRAM = "chromium-headless-shell"


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser with one tab."""
    program = need(PROGRAM, apt=PROGRAM)
    to_browser, from_us = os.pipe()
    from_browser, to_us = os.pipe()
    with TemporaryDirectory(ignore_cleanup_errors=True) as profile:  # a helper of the browser may end after it
        # The browser reads from descriptor 3 and writes to descriptor 4. It does not run as root in its own sandbox.
        options = f"--no-sandbox --disable-gpu --hide-scrollbars --remote-debugging-pipe --user-data-dir={profile}"
        shell = f"exec {program} {options} about:blank 3<&{to_browser} 4>&{to_us}"
        process = subprocess.Popen(["bash", "-c", shell], pass_fds=(to_browser, to_us), stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(to_us)
        with os.fdopen(from_us, "wb", buffering=0) as sink, os.fdopen(from_browser, "rb") as source, process:
            try:
                yield Browser(sink, source)
            finally:
                process.kill()
                process.wait()


class Browser:
    """One tab, and everything that the page in it did besides showing itself."""

    def __init__(self, sink: Any, source: Any) -> None:
        self._sink, self._source = sink, source
        self._number = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Log", "Runtime"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the DevTools protocol; events that arrive meanwhile are kept."""
        self._number += 1
        number = self._number
        session = {} if self._session is None else {"sessionId": self._session}
        self._sink.write(json.dumps({"id": number, "method": method, "params": parameters, **session}).encode() + b"\0")
        while (message := self._receive()).get("id") != number:
            self.events.append(message)
        assert "error" not in message, message
        result: dict[str, Any] = message["result"]
        return result

    def show(self, page: Path, *, width: int, dark: bool = False, media: str = "screen") -> None:
        """Load a page and wait until it is shown."""
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", media=media, features=features)
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600
        )
        self.events.clear()
        self.call("Page.navigate", url=page.as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._receive())

    def evaluate(self, expression: str) -> Any:
        """The value of an expression of JavaScript in the page, which runs whatever the page's own policy is."""
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def names(self, method: str) -> list[dict[str, Any]]:
        """What was said in the events of this method since the page was loaded."""
        return [event["params"] for event in self.events if event.get("method") == method]

    def picture(self, **clip: float) -> bytes:
        """A PNG of the page, or of the part that x, y, width and height name."""
        part = {"clip": {**clip, "scale": 1}} if clip else {}
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, **part)
        return base64.b64decode(shot["data"])

    def pixel(self, x: float, y: float) -> str:
        """The colour at a place of the page."""
        return "#" + first_pixel(self.picture(x=x, y=y, width=1, height=1)).hex()

    def _receive(self) -> dict[str, Any]:
        text = bytearray()
        while (byte := self._source.read(1)) != b"\0":
            assert byte, "the browser ended"
            text += byte
        message: dict[str, Any] = json.loads(text)
        return message


def first_pixel(png: bytes) -> bytes:
    """The colour of the first pixel; each filter of PNG leaves it as it is, because its neighbours count as zero."""
    at, data = 8, b""
    while at < len(png):
        length = int.from_bytes(png[at : at + 4])
        if png[at + 4 : at + 8] == b"IDAT":
            data += png[at + 8 : at + 8 + length]
        at += 12 + length
    return zlib.decompress(data)[1:4]
