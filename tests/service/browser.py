"""A headless Chromium, spoken to in the WebDriver protocol."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.programs import program
from tests.service.processes import until

DRIVER, CHROMIUM = program("chromedriver"), program("chromium") or program("google-chrome")
MISSING = "" if DRIVER and CHROMIUM else "needs chromium and chromedriver (Debian: chromium, chromium-driver)"

STYLED = "return [...document.querySelectorAll('link[rel=stylesheet]')].every(link => link.sheet?.cssRules.length)"


class Browser:
    """One tab of a browser."""

    def __init__(self, session: str) -> None:
        self._session = session
        self._runs = True

    def _post(self, command: str, **asked: Any) -> Any:
        return post(f"{self._session}/{command}", asked)

    def open(self, url: str) -> None:
        """Load a page and wait until it is there with its styles.

        A browser gives up what it is loading when an interface of this machine comes or goes, as other tests' hosts do;
        the page is then loaded once more.
        """
        for _ in range(4):
            self._post("url", url=url)
            if not self._runs or self.run(STYLED):
                return
        raise AssertionError(f"{url}: its styles were not loaded, {self.complaints()}")

    def run(self, script: str, *arguments: Any) -> Any:
        """What a script returns that runs in the page."""
        return self._post("execute/sync", script=script, args=arguments)

    def protocol(self, command: str, **asked: Any) -> Any:
        """A command of Chromium's own protocol."""
        return self._post("goog/cdp/execute", cmd=command, params=asked)

    def resize(self, width: int, height: int, *, dark: bool = False) -> None:
        """Show the page as on a screen of this size."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 700}
        self.protocol("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.protocol("Emulation.setEmulatedMedia", features=[scheme])

    def scripts(self, run: bool) -> None:
        """Whether scripts of pages are run from now on."""
        self._runs = run
        self.protocol("Emulation.setScriptExecutionDisabled", value=not run)

    def seen(self) -> str:
        """All text of the page, once it is laid out, without a script's help."""
        return until(self._laid_out)

    def _laid_out(self) -> str:
        strings = self.protocol("DOMSnapshot.captureSnapshot", computedStyles=[])
        texts = strings["documents"][0]["layout"]["text"]
        return " ".join(strings["strings"][text] for text in texts if text >= 0)

    def offline(self, gone: bool) -> None:
        """Let no request come through, or again all."""
        self.protocol("Network.enable")
        unlimited = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
        self.protocol("Network.emulateNetworkConditions", offline=gone, **unlimited)

    def complaints(self) -> list[str]:
        """What the console has of errors and of what the policy of a page forbids, since it was last asked."""
        return [entry["message"] for entry in self._post("se/log", type="browser")]

    def text(self, selector: str) -> str:
        """What a person reads in the first such element; empty where there is none, or it is not shown."""
        found = "const found = document.querySelector(arguments[0]);"
        return str(self.run(f"{found} return found?.checkVisibility() ? found.innerText : ''", selector))

    def wait_for(self, selector: str, fits: Callable[[str], bool], seconds: float = 120.0) -> str:
        """The element's text as soon as it fits."""
        until = time.monotonic() + seconds
        while not fits(text := self.text(selector)):
            assert time.monotonic() < until, f"{selector} says {text!r} after {seconds} s"
            time.sleep(0.05)
        return text

    def picture(self, path: Path) -> bytes:
        """Save the whole page as a picture, and give its bytes."""
        shot = self.protocol("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(content := base64.b64decode(shot["data"]))
        return content


def post(url: str, asked: dict[str, Any], method: str = "POST") -> Any:
    """One command to the driver; an error is told with the browser's words."""
    body = json.dumps(asked).encode() if method == "POST" else None
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=40) as answer:
            return json.load(answer)["value"]
    except urllib.error.HTTPError as error:
        with error:
            said = json.load(error)["value"]
        raise AssertionError(f"{said['error']}: {said['message']}") from None


@contextlib.contextmanager
def browsing() -> Iterator[Browser]:
    """A browser with a profile of its own; it and its driver end with the block."""
    assert DRIVER
    command = [DRIVER, "--port=0", "--log-level=SEVERE"]
    # a test's own folder may have too long a name for the browser's sockets
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        home = {**os.environ, "HOME": folder, "TMPDIR": folder}
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        with subprocess.Popen(command, **streams, text=True, env=home) as driver:
            try:
                yield from _session(f"http://127.0.0.1:{_port(driver)}", folder)
            finally:
                driver.terminate()


def _port(driver: subprocess.Popen[str]) -> int:
    """The port that the driver has found for itself; pytest-timeout ends a driver that says none."""
    assert driver.stdout
    for line in driver.stdout:
        if found := re.search(r"success.* on port (\d+)", line):
            return int(found[1])
    raise AssertionError("chromedriver has ended before it had a port")


def _session(driver: str, folder: str) -> Iterator[Browser]:
    flags = ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--no-first-run"]
    flags += ["--disable-background-networking", "--disable-component-update", f"--user-data-dir={folder}/profile"]
    options = {"binary": CHROMIUM, "args": flags}
    asked = {"capabilities": {"alwaysMatch": {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}}}
    session = f"{driver}/session/{post(f'{driver}/session', asked)['sessionId']}"
    try:
        yield Browser(session)
    finally:
        post(session, {}, "DELETE")
