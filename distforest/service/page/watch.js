"use strict";
// The server writes the page. This asks for it again and puts in what has changed, so that what is selected,
// focused or scrolled to stays where it is.

const EVERY = 2000;
const PATIENCE = 15000;
const notice = document.getElementById("notice");
let answered = new Date();
let version = null;
let asking = false;

/** Make `here` equal to `there`, changing only what differs. */
function put(here, there) {
  if (here.isEqualNode(there)) return;
  if (here.nodeName !== there.nodeName) {
    here.replaceWith(document.importNode(there, true));
  } else if (here.nodeType !== Node.ELEMENT_NODE) {
    here.data = there.data;
  } else {
    for (const { name } of [...here.attributes]) if (!there.hasAttribute(name)) here.removeAttribute(name);
    for (const { name, value } of there.attributes) if (here.getAttribute(name) !== value) here.setAttribute(name, value);
    putChildren(here, there);
  }
}

/** A child with a data-key is the one that had this key, wherever it was; the others are matched in their order. */
function putChildren(here, there) {
  const kept = new Set([...there.children].map((child) => child.dataset.key));
  const known = new Map();
  for (const child of [...here.children]) {
    if (kept.has(child.dataset.key)) known.set(child.dataset.key, child);
    else if (child.dataset.key) child.remove();
  }
  let next = here.firstChild;
  for (const child of there.childNodes) {
    const old = child.dataset?.key ? known.get(child.dataset.key) : next?.dataset?.key ? null : next;
    if (!old) {
      here.insertBefore(document.importNode(child, true), next);
      continue;
    }
    if (old === next) next = next.nextSibling;
    else here.insertBefore(old, next);
    put(old, child);
  }
  while (next) {
    const gone = next;
    next = next.nextSibling;
    gone.remove();
  }
}

async function ask() {
  const headers = version ? { "If-None-Match": version } : {};
  const answer = await fetch(location.href, { headers, cache: "no-store", signal: AbortSignal.timeout(PATIENCE) });
  if (answer.status === 304) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  put(document.querySelector("main"), page.querySelector("main"));
  document.title = page.title;
  version = answer.headers.get("ETag");
}

async function watch() {
  if (asking || document.hidden) return;
  asking = true;
  try {
    await ask();
    answered = new Date();
    notice.hidden = true;
  } catch {
    notice.textContent = `No answer since ${answered.toLocaleTimeString()}. What is below may have changed.`;
    notice.hidden = false;
  }
  asking = false;
}

setInterval(watch, EVERY);
document.addEventListener("visibilitychange", watch);
