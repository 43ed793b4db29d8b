"""A browser, driven over the WebDriver protocol with the standard library.

    with Browser() as browser:
        browser.open("http://127.0.0.1:8437/")
        browser.wait("return document.querySelector('h1').textContent", "Hello")

Needs chromium and chromedriver (Debian: chromium, chromium-driver); find()
says what is missing.
"""
import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

LIMIT = 300               # seconds that anything is waited for
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


def find():
    """(browser, driver), or None and what to do about it."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    driver = shutil.which("chromedriver")
    if browser and driver:
        return (browser, driver), None
    return None, "there is no browser: sudo apt-get install chromium" \
        " chromium-driver"


class Browser:
    def __init__(self):
        self._home = tempfile.mkdtemp(prefix="browser-")
        browser, driver = find()[0]
        self._log = open(os.path.join(self._home, "log"), "w+b")
        self._driver = subprocess.Popen(
            [driver, "--port=0"], stdout=self._log, stderr=self._log)
        self._base = "http://127.0.0.1:%d" % self._port()
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu",
                     "--hide-scrollbars", "--disable-dev-shm-usage",
                     "--no-first-run", "--disable-background-networking",
                     "--disable-component-update", "--disable-sync",
                     "--user-data-dir=" + os.path.join(self._home, "profile")]
        try:
            self._session = None
            found = self.call("POST", "/session", {"capabilities": {
                "alwaysMatch": {"goog:chromeOptions": {
                    "binary": browser, "args": arguments}}}})
            self._session = "/session/" + found["sessionId"]
        except BaseException:
            self.close()
            raise

    def _port(self):
        """Which port the driver took, as it says itself."""
        until = time.monotonic() + LIMIT
        while time.monotonic() < until and self._driver.poll() is None:
            self._log.seek(0)
            for line in self._log.read().decode().splitlines():
                if "on port" in line and "started successfully" in line:
                    return int(line.split("on port")[1].strip(" ."))
            time.sleep(0.05)
        raise RuntimeError("chromedriver did not start")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if self._session:
            try:
                self.call("DELETE", "")
            except OSError:
                pass
        self._driver.terminate()
        self._driver.wait()
        self._log.close()
        shutil.rmtree(self._home, ignore_errors=True)

    def call(self, method, path, body=None):
        request = urllib.request.Request(
            self._base + (self._session or "") + path, method=method,
            data=None if method != "POST" else json.dumps(body or {}).encode(),
            headers={"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=2 * LIMIT) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(json.load(error)["value"]["message"]) from None

    def open(self, url):
        self.call("POST", "/url", {"url": url})

    def run(self, script, *arguments):
        return self.call("POST", "/execute/sync",
                         {"script": script, "args": list(arguments)})

    def wait(self, script, *wanted):
        """Run the script until it returns what is wanted, or anything that is
        true; returns that."""
        until = time.monotonic() + LIMIT
        found = None
        while time.monotonic() < until:
            found = self.run(script)
            if found == wanted[0] if wanted else found:
                return found
            time.sleep(0.05)
        raise AssertionError("%s: %r after %d s%s" % (
            script, found, LIMIT, ", not %r" % wanted if wanted else ""))

    def element(self, selector):
        found = self.call("POST", "/element", {"using": "css selector",
                                               "value": selector})
        return "/element/" + found[_ELEMENT]

    def click(self, selector):
        self.call("POST", self.element(selector) + "/click")

    def type(self, selector, text):
        self.call("POST", self.element(selector) + "/value", {"text": text})

    def press(self, *keys):
        """Keys, one after the other, wherever the focus is."""
        self.call("POST", "/actions", {"actions": [{
            "type": "key", "id": "keys", "actions": [
                {"type": kind, "value": key} for key in keys
                for kind in ("keyDown", "keyUp")]}]})

    def text(self, selector):
        return self.run("const e = document.querySelector(arguments[0]);"
                        " return e && e.textContent", selector)

    def size(self, width, height):
        """Of the page, whatever the window has around it."""
        self.cdp("Emulation.setDeviceMetricsOverride", width=width,
                 height=height, deviceScaleFactor=1, mobile=False)

    def colours(self, scheme):
        self.cdp("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": scheme}])

    def cdp(self, command, **parameters):
        return self.call("POST", "/goog/cdp/execute",
                         {"cmd": command, "params": parameters})

    def picture(self, file):
        with open(file, "wb") as out:
            out.write(base64.b64decode(self.call("GET", "/screenshot")))
