"""Gives a dev node work of every kind and photographs its pages. Called by scripts/screenshots."""

import base64
import json
import math
import os
import pathlib
import random
import struct
import sys
import time
import urllib.error
import urllib.request
import zlib

port, driver, folder, out = sys.argv[1:5]
node, driver = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{driver}"
WIDTHS = {"phone": 390, "tablet": 900, "wide": 1600}
SECONDS = int(os.environ.get("SCREENSHOTS_SECONDS", "780"))
ONLY = os.environ.get("SCREENSHOTS_PAGES", "").split()
TARGET = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC"
REVERTS = "0x00000000000000000000000000000000000bad00"
BYTES_MAX = 120_000


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
        except (OSError, KeyError, TypeError, IndexError):
            pass
        time.sleep(0.2)
    raise SystemExit(f"screenshots: waited in vain for {what}\n{open(folder + '/node.log').read()[-2000:]}")


until("the node", lambda: call(f"{node}/readyz")["status"] == "ready")
log = open(f"{folder}/node.log").read()
rpc = next(line.split()[-1] for line in log.splitlines() if line.startswith("dev chain"))
accounts = [one["address"] for one in call(f"{node}/api/v1/submitters")["items"]]
busy, paused, stuck, sweeps, mixed = accounts[:5]
chain_id = call(f"{node}/api/v1/chains")["items"][0]["chainId"]


def chain(method, params=()):
    answer = call(rpc, {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)})
    if "error" in answer:
        raise SystemExit(f"screenshots: {method}: {answer}")
    return answer["result"]


def create(account, name, to=TARGET, not_before=None, **more):
    value = str(random.randint(2, 900) * 10**14)
    payload = {"to": to, "value": value, "gas": 30000, **more}
    body = {"submitter": account, "requestId": name, "payload": payload,
            "metadata": {"order": name, "desk": name.split("-")[0]}}
    if not_before:
        body["notBefore"] = not_before
    answer = call(f"{node}/api/v1/tx", body)
    if "txId" not in answer:
        raise SystemExit(f"screenshots: {name}: {answer}")
    return answer["txId"]


def shown(account):
    return call(f"{node}/api/v1/submitters/{account}")


def state(tx_id):
    return call(f"{node}/api/v1/tx/{tx_id}?view=operator")


def finished(account):
    return not any(shown(account)["depth"].values())


def act(account, action, body):
    return call(f"{node}/api/v1/submitters/{account}/{action}", body)


# --- work ---------------------------------------------------------------------

random.seed(7)
for account, label in [(busy, "payouts"), (paused, "treasury"), (stuck, "settlement"), (sweeps, "sweeps"),
                       (mixed, "withdrawals")]:
    call(f"{node}/api/v1/submitters/{account}", {"label": label}, "PATCH")
chain("devchain_setBehaviour", [REVERTS, "revert", "limit of the day reached"])
# An account that has enough for its settlements, and little more.
chain("devchain_setBalance", [stuck, hex(33 * 10**17)])
act(paused, "pause", {"reason": "key rotation"})
for number in range(3):
    create(paused, f"rebalance-{number}")

# Payouts and sweeps, more of them at times, so that the charts have a shape.
begun, number, settled, swept = time.time(), 0, 0, 0
while time.time() - begun < SECONDS:
    passed = time.time() - begun
    while settled < min(40, 42 * passed / SECONDS):
        create(stuck, f"settlement-{settled:03}")
        settled += 1
    rate = 3 + 2 * math.sin(passed / 60) + math.sin(passed / 13) + (4 if 300 < passed < 380 else 0)
    for _ in range(max(0, round(rate + random.uniform(-1, 1)))):
        create(busy, f"payout-{number:05}", to=REVERTS if number % 97 == 11 else TARGET)
        number += 1
    if random.random() < 0.5:
        create(sweeps, f"sweep-{swept:04}")
        swept += 1
    time.sleep(1)

until("the settlements", lambda: finished(stuck))
# One account's transactions can't be afforded any more when they get their nonces: what is behind the first waits.
act(stuck, "pause", {"reason": "end of day"})
first = create(stuck, "settlement-040")
for number in range(41, 52):
    create(stuck, f"settlement-{number:03}")
chain("devchain_setBalance", [stuck, hex(10**14)])
act(stuck, "resume", {"reason": "next day"})
until("trouble", lambda: state(first)["lastError"], 90)


def mix():
    """An account with slots of every kind, on a chain that stands still."""
    for number in range(150):
        create(mixed, f"withdrawal-{number:04}", to=REVERTS if number in (37, 38, 96) else TARGET)
    until("the withdrawals", lambda: finished(mixed), 120)
    chain("devchain_pauseMining")
    dropped = [create(mixed, f"withdrawal-{number:04}") for number in range(150, 156)]
    until("the sends", lambda: state(dropped[-1])["state"] == "TRACKING")
    for tx_id in dropped[1:3]:
        call(f"{node}/api/v1/tx/{tx_id}/cancel", {"reason": "ordered twice"})
    until("the cancellations", lambda: len(state(dropped[2])["attempts"]) == 2)
    chain("devchain_resumeMining")
    until("their end", lambda: finished(mixed), 90)
    chain("devchain_pauseMining")
    for number in range(156, 163):
        last = create(mixed, f"withdrawal-{number:04}")
    until("the sends", lambda: state(last)["state"] == "TRACKING")
    chain("devchain_mine", [1])
    until("the block", lambda: state(last)["subState"] == "MINED")
    for number in range(163, 167):
        last = create(mixed, f"withdrawal-{number:04}")
    until("the sends", lambda: state(last)["state"] == "TRACKING")
    # A caller holds a nonce and gives it back once others are behind it: the chain waits for a nonce that nobody has.
    hole = reserve()
    for number in range(167, 170):
        last = create(mixed, f"withdrawal-{number:04}")
    reserve()
    reserve()
    for number in range(170, 174):
        last = create(mixed, f"withdrawal-{number:04}")
    until("the sends", lambda: state(last)["state"] == "TRACKING")
    # No node takes a transaction as large as this one.
    chain("devchain_setPoolLimits", [{"txBytes": 1000}])
    refused = create(mixed, "withdrawal-0174", data="0x" + "11" * 1500, gas=90000)
    until("the refusal", lambda: state(refused)["state"] == "STUCK", 30)
    last = create(mixed, "withdrawal-0175")
    until("the send", lambda: state(last)["state"] == "TRACKING")
    later = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 7200))
    for number in range(179, 191):
        create(mixed, f"withdrawal-{number:04}", not_before=later)
    # The pool takes no more of the account: whether another node behind the same address has it is not known.
    chain("devchain_setPoolLimits", [{"txBytes": 1000, "perSender": 12}])
    for number in range(176, 179):
        create(mixed, f"withdrawal-{number:04}")
    path = f"{node}/api/v1/submitters/{mixed}/nonces/{hole['nonce']}/recyclable"
    call(path, {"ownerToken": hole["ownerToken"], "reason": "withdrawn"})
    until("the hole", lambda: shown(mixed)["holes"], 30)


def reserve():
    return call(f"{node}/api/v1/submitters/{mixed}/nonces", {"holdSeconds": 600})


# --- pictures -----------------------------------------------------------------

# Counts the colours of a picture, keeps the 256 most common ones, and gives each other pixel the nearest of
# them. Text on plain ground loses nothing that one could see, and the file is half as large.
PALETTE = """
const [data, done] = arguments;
const image = new Image();
image.onload = () => {
  const canvas = new OffscreenCanvas(image.width, image.height);
  const context = canvas.getContext("2d");
  context.drawImage(image, 0, 0);
  const pixels = new Uint32Array(context.getImageData(0, 0, image.width, image.height).data.buffer);
  const counts = new Map();
  for (const pixel of pixels) counts.set(pixel, (counts.get(pixel) || 0) + 1);
  const colours = [...counts].sort((a, b) => b[1] - a[1]).map(([pixel]) => pixel);
  const palette = colours.slice(0, 256);
  const index = new Map(palette.map((pixel, place) => [pixel, place]));
  for (const pixel of colours.slice(256)) {
    let [best, least] = [0, Infinity];
    palette.forEach((other, place) => {
      let far = 0;
      for (const shift of [0, 8, 16]) far += ((pixel >> shift & 255) - (other >> shift & 255)) ** 2;
      if (far < least) [best, least] = [place, far];
    });
    index.set(pixel, best);
  }
  let text = "";
  const places = Uint8Array.from(pixels, (pixel) => index.get(pixel));
  for (let at = 0; at < places.length; at += 30000) text += String.fromCharCode(...places.subarray(at, at + 30000));
  done({ width: image.width, height: image.height, palette, places: btoa(text) });
};
image.src = "data:image/png;base64," + data;
"""


def png(picture):
    """A PNG with a palette."""
    width, height = picture["width"], picture["height"]
    places = base64.b64decode(picture["places"])
    rows = b"".join(b"\0" + places[row * width:(row + 1) * width] for row in range(height))
    colours = b"".join(bytes((c & 255, c >> 8 & 255, c >> 16 & 255)) for c in
                       (pixel & 0xFFFFFFFF for pixel in picture["palette"]))

    def chunk(kind, content):
        checksum = zlib.crc32(kind + content)
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", checksum)

    packer = zlib.compressobj(9, zlib.DEFLATED, 15, 9)
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    parts = [(b"IHDR", header), (b"PLTE", colours), (b"IDAT", packer.compress(rows) + packer.flush()), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(kind, content) for kind, content in parts)


class Browser:
    def __init__(self, name):
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
                     "--disable-background-networking", "--disable-component-update", "--disable-sync",
                     "--hide-scrollbars", f"--user-data-dir={folder}/profile-{name}"]
        wanted = {"browserName": "chrome", "goog:chromeOptions": {"args": arguments}}
        answer = call(f"{driver}/session", {"capabilities": {"alwaysMatch": wanted}})
        self.session = f"{driver}/session/{answer['value']['sessionId']}"

    def cdp(self, command, params):
        return call(f"{self.session}/goog/cdp/execute", {"cmd": command, "params": params})["value"]

    def run(self, script):
        return call(f"{self.session}/execute/sync", {"script": script, "args": []})["value"]

    def packed(self, data):
        answer = call(f"{self.session}/execute/async", {"script": PALETTE, "args": [data]})
        return png(answer["value"])

    def photograph(self, path, width, scheme, height_max):
        """A picture of a page, and what is too wide in it."""
        scheme = {"name": "prefers-color-scheme", "value": scheme}
        self.cdp("Emulation.setEmulatedMedia", {"features": [scheme]})
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.cdp("Emulation.setDeviceMetricsOverride", metrics)
        call(f"{self.session}/url", {"url": node + path})
        until("the page to be live", lambda: self.run(
            "return !document.body.dataset.live || document.querySelector('.pulse.on') !== null"), 15)
        until("the page to be drawn", lambda: self.run(
            "return !location.pathname.endsWith('/docs') || document.querySelector('section header') !== null"), 15)
        wide = self.run("return document.documentElement.scrollWidth")
        cut = self.run("return [...document.querySelectorAll('.figure, button, .button')].filter((it) => "
                       "it.scrollWidth > it.clientWidth + 1 && it.clientWidth > 0).map((it) => it.textContent)")
        wrong = [f"{wide} wide"] * (wide > width) + [f"cut: {text}" for text in cut]
        height = min(self.run("return document.documentElement.scrollHeight"), height_max)
        self.cdp("Emulation.setDeviceMetricsOverride", {**metrics, "height": height})
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        return self.cdp("Page.captureScreenshot", {"format": "png", "clip": clip})["data"], wrong

    def close(self):
        call(self.session, method="DELETE")


def take(pages):
    for page, path in pages.items():
        if ONLY and page not in ONLY:
            continue
        for name, width in WIDTHS.items():
            for scheme in ["light", "dark"]:
                file = f"{page}-{name}-{scheme}.png"
                data, wrong = browser.photograph(path, width, scheme, 1100 if width > 800 else 1400)
                bad.extend(f"{file}: {what}" for what in wrong)
                content = packer.packed(data)
                if len(content) > BYTES_MAX:
                    bad.append(f"{file}: {len(content)} bytes")
                pathlib.Path(out, file).write_bytes(content)


bad = []
browser, packer = Browser("pages"), Browser("packer")
done = call(f"{node}/api/v1/tx?submitter={busy}&state=CONFIRMED&limit=1")["items"][0]["txId"]
take({
    "overview": "/",
    "account": f"/submitters/{chain_id}/{stuck}",
    "transaction": f"/tx/{first}",
    "confirmed": f"/tx/{done}",
    "transactions": "/tx",
    "action": f"/tx/{first}/cancel",
    "docs": "/docs",
})
if not ONLY or "ladder" in ONLY:
    mix()
    take({"ladder": f"/submitters/{chain_id}/{mixed}?from=0&to=240"})
for one in [browser, packer]:
    one.close()
if bad:
    raise SystemExit("screenshots: " + "\n".join(bad))
