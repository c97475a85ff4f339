"use strict";
// Makes pages live: reads a page again when the server says that what it shows has changed, and puts the parts
// that differ in place. Pages work without it. Nothing from the server is run: parts are parsed as a document.

const POLL_MS = 15000;
const AGE_MS = 1000;

// --- ages -------------------------------------------------------------------

function age(seconds) {
  const pair = (first, unit, second, smaller) =>
    first + " " + unit + (second ? " " + second + " " + smaller : "");
  if (seconds < 60) return seconds + " s";
  if (seconds < 3600) return pair(Math.floor(seconds / 60), "min", seconds % 60, "s");
  if (seconds < 86400) return pair(Math.floor(seconds / 3600), "h", Math.floor(seconds / 60) % 60, "min");
  return pair(Math.floor(seconds / 86400), "d", Math.floor(seconds / 3600) % 24, "h");
}

function showAges() {
  for (const element of document.querySelectorAll("time[data-age]")) {
    const seconds = Math.floor((Date.now() - Date.parse(element.dateTime)) / 1000);
    if (Number.isNaN(seconds)) continue;
    // The clocks of node and browser may differ by a little.
    const text = seconds < -5 ? "in " + age(-seconds) : age(Math.max(0, seconds)) + " ago";
    if (element.textContent !== text) element.textContent = text;
  }
}

// --- copying ----------------------------------------------------------------

function showCopies() {
  if (!navigator.clipboard) return;
  for (const button of document.querySelectorAll("button[data-copy][hidden]")) button.hidden = false;
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-copy]");
  if (!button) return;
  await navigator.clipboard.writeText(button.dataset.copy);
  button.classList.add("copied");
  setTimeout(() => button.classList.remove("copied"), 1200);
});

// --- keyboard ---------------------------------------------------------------

document.addEventListener("keydown", (event) => {
  const isTyping = event.target.closest("input, select, textarea");
  if (event.key !== "/" || isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
  const search = document.querySelector("[data-search]");
  if (!search) return;
  event.preventDefault();
  search.focus();
  search.select();
});

// --- the nonce ladder -------------------------------------------------------

// The ladder is one stop of the Tab key: the cell that was used last. The arrow keys move between cells that
// lead somewhere; up and down to the nearest one in the next row that has any.
function cellBeside(cells, from, key) {
  const place = cells.indexOf(from);
  if (key === "ArrowLeft") return cells[place - 1];
  if (key === "ArrowRight") return cells[place + 1];
  if (key === "Home") return cells[0];
  if (key === "End") return cells[cells.length - 1];
  const here = from.getBoundingClientRect();
  const sign = key === "ArrowDown" ? 1 : -1;
  let best = null;
  let least = Infinity;
  for (const cell of cells) {
    const there = cell.getBoundingClientRect();
    const rows = (there.top - here.top) * sign;
    if (rows < here.height / 2) continue;
    // A row that is nearer wins over a column that is.
    const far = rows * 1000 + Math.abs(there.left - here.left);
    if (far < least) { least = far; best = cell; }
  }
  return best;
}

document.addEventListener("keydown", (event) => {
  const from = event.target.closest("[data-ladder] a");
  const keys = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"];
  if (!from || !keys.includes(event.key) || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  const to = cellBeside([...from.closest("[data-ladder]").querySelectorAll("a")], from, event.key);
  if (!to) return;
  from.tabIndex = -1;
  to.tabIndex = 0;
  to.focus();
});

// --- live parts -------------------------------------------------------------

let isReading = false;
// Something changed while a page was being read, or while nobody looked.
let isBehind = false;
// A part was left alone because somebody works in it.
let isDue = false;

// What was in place when the page was written: ages and copy buttons are changed here, and are no news.
const written = new Map();
for (const part of document.querySelectorAll("[data-part]")) written.set(part.id, part.outerHTML);

// A part that somebody works in is left alone until they are done.
function isInUse(part) {
  const selection = document.getSelection();
  const isSelected = selection && !selection.isCollapsed && part.contains(selection.anchorNode);
  return isSelected || part.contains(document.activeElement);
}

function putInPlace(text) {
  const fresh = new DOMParser().parseFromString(text, "text/html");
  for (const part of fresh.querySelectorAll("[data-part]")) {
    const old = document.getElementById(part.id);
    if (!old || written.get(part.id) === part.outerHTML) continue;
    if (isInUse(old)) { isDue = true; continue; }
    written.set(part.id, part.outerHTML);
    const scrolled = old.querySelector(".scroll");
    const left = scrolled ? scrolled.scrollLeft : 0;
    const put = document.importNode(part, true);
    old.replaceWith(put);
    if (left) put.querySelector(".scroll")?.scrollTo({ left });
  }
  if (fresh.title) document.title = fresh.title;
  showAges();
  showCopies();
}

async function readAgain() {
  if (isReading || document.hidden) { isBehind = true; return; }
  isReading = true;
  isBehind = isDue = false;
  try {
    const answer = await fetch(location.href, { headers: { accept: "text/html" }, redirect: "manual" });
    if (answer.type === "opaqueredirect") { location.reload(); return; }
    if (answer.ok) putInPlace(await answer.text());
  } catch { /* The node is away: the next event or poll tries again. */ }
  isReading = false;
  if (isBehind) setTimeout(readAgain, 300);
}

function pulse(isOn, words) {
  const element = document.querySelector("[data-pulse]");
  if (!element) return;
  element.classList.toggle("on", isOn);
  if (element.textContent !== words) element.textContent = words;
}

function listen(address) {
  const events = new EventSource(address);
  let polling = null;
  events.addEventListener("current", () => {
    pulse(true, "live");
    if (polling) { clearInterval(polling); polling = null; }
    // What changed between the page and this event would be missed.
    readAgain();
  });
  events.addEventListener("changed", readAgain);
  events.onerror = () => {
    pulse(false, "connecting …");
    // A full or old node: read the page every now and then, and try to listen again.
    if (!polling) polling = setInterval(readAgain, POLL_MS);
    if (events.readyState === EventSource.CLOSED) setTimeout(() => { clearInterval(polling); listen(address); }, POLL_MS);
  };
  addEventListener("pagehide", () => events.close());
}

document.addEventListener("visibilitychange", () => { if (!document.hidden && (isBehind || isDue)) readAgain(); });
document.addEventListener("focusout", () => { if (isDue) setTimeout(readAgain, 0); });

showAges();
showCopies();
setInterval(showAges, AGE_MS);
if (document.body.dataset.live) listen(document.body.dataset.live);
// What the address says was done is said once: not again after a reload.
if (location.search.includes("done=")) {
  const address = new URL(location.href);
  address.searchParams.delete("done");
  history.replaceState(null, "", address);
}
