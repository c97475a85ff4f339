"""Gives a dev node work of every kind and photographs its pages. Called by scripts/screenshots."""

import base64
import json
import pathlib
import sys
import time
import urllib.error
import urllib.request

port, driver, folder, out = sys.argv[1:5]
node, driver = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{driver}"
WIDTHS = {"phone": 390, "tablet": 900, "wide": 1600}
TARGET = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC"


def call(url, body=None, method=None):
    data = None if body is None else json.dumps(body).encode()
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(url, data=data, headers=headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        return json.loads(error.read() or b"null")


def until(what, ask, seconds=60):
    end = time.time() + seconds
    while time.time() < end:
        try:
            found = ask()
            if found:
                return found
        except (OSError, KeyError, TypeError):
            pass
        time.sleep(0.2)
    raise SystemExit(f"screenshots: waited in vain for {what}\n{open(folder + '/node.log').read()[-2000:]}")


until("the node", lambda: call(f"{node}/readyz")["status"] == "ready")
log = open(f"{folder}/node.log").read()
rpc = next(line.split()[-1] for line in log.splitlines() if line.startswith("dev chain"))
accounts = [one["address"] for one in call(f"{node}/api/v1/submitters")["items"]][:4]


def chain(method, params):
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return call(rpc, body)


def create(account, name, **more):
    payload = {"to": TARGET, "value": "25000000000000000", "gas": 30000, **more}
    body = {"submitter": account, "requestId": name, "payload": payload,
            "metadata": {"order": name, "desk": "payouts"}}
    return call(f"{node}/api/v1/tx", body)["txId"]


busy, paused, stuck = accounts[0], accounts[1], accounts[2]
for number in range(260):
    create(busy, f"payout-{number:04}")
for number in range(40):
    create(accounts[3], f"sweep-{number:03}")
    create(stuck, f"settlement-{number:03}")
finished = lambda account: not any(
    call(f"{node}/api/v1/submitters/{account}")["depth"].values())
until("the first payments to be final", lambda: all(map(finished, [busy, stuck, accounts[3]])), 120)
call(f"{node}/api/v1/submitters/{paused}/pause", {"reason": "key rotation"})
for number in range(3):
    create(paused, f"rebalance-{number}")
# The next transaction of one account can't be afforded: what is behind it waits.
chain("devchain_setBalance", [stuck, "0x5af3107a4000"])
first = create(stuck, "settlement-040")
for number in range(41, 52):
    create(stuck, f"settlement-{number:03}")
for number in range(260, 275):
    create(busy, f"payout-{number:04}")
until("trouble", lambda: call(f"{node}/api/v1/tx/{first}?view=operator")["lastError"], 90)


class Browser:
    def __init__(self, scheme, width):
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
                     "--disable-background-networking", "--disable-component-update", "--disable-sync",
                     "--hide-scrollbars", f"--user-data-dir={folder}/profile-{scheme}-{width}"]
        wanted = {"browserName": "chrome", "goog:chromeOptions": {"args": arguments}}
        answer = call(f"{driver}/session", {"capabilities": {"alwaysMatch": wanted}})
        self.session = f"{driver}/session/{answer['value']['sessionId']}"
        self.cdp("Emulation.setEmulatedMedia",
                 {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
        self.width = width

    def cdp(self, command, params):
        return call(f"{self.session}/goog/cdp/execute", {"cmd": command, "params": params})["value"]

    def run(self, script):
        return call(f"{self.session}/execute/sync", {"script": script, "args": []})["value"]

    def photograph(self, path, file, height_max):
        metrics = {"width": self.width, "height": 900, "deviceScaleFactor": 1, "mobile": self.width < 600}
        self.cdp("Emulation.setDeviceMetricsOverride", metrics)
        call(f"{self.session}/url", {"url": node + path})
        until("the page to be live", lambda: self.run(
            "return !document.body.dataset.live || document.querySelector('.pulse.on') !== null"), 15)
        wide = self.run("return document.documentElement.scrollWidth")
        if wide > self.width:
            print(f"screenshots: {file} is {wide} wide", file=sys.stderr)
        height = min(self.run("return document.documentElement.scrollHeight"), height_max)
        self.cdp("Emulation.setDeviceMetricsOverride", {**metrics, "height": height})
        clip = {"x": 0, "y": 0, "width": self.width, "height": height, "scale": 1}
        shot = self.cdp("Page.captureScreenshot", {"format": "png", "clip": clip})
        data = base64.b64decode(shot["data"])
        # What a page of documentation may weigh.
        if len(data) > 200_000:
            print(f"screenshots: {file} has {len(data)} bytes", file=sys.stderr)
        pathlib.Path(out, file).write_bytes(data)

    def close(self):
        call(self.session, method="DELETE")


chain_id = call(f"{node}/api/v1/chains")["items"][0]["chainId"]
done = call(f"{node}/api/v1/tx?submitter={busy}&state=CONFIRMED&limit=1")["items"][0]["txId"]
pages = {
    "overview": "/",
    "account": f"/submitters/{chain_id}/{stuck}",
    "ladder": f"/submitters/{chain_id}/{busy}?from=0&to=300",
    "transaction": f"/tx/{first}",
    "confirmed": f"/tx/{done}",
    "transactions": "/tx",
    "action": f"/tx/{first}/cancel",
}
for scheme in ["light", "dark"]:
    for name, width in WIDTHS.items():
        browser = Browser(scheme, width)
        for page, path in pages.items():
            browser.photograph(path, f"{page}-{name}-{scheme}.png", 900 if width > 800 else 1300)
        browser.close()
