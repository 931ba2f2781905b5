// The program of the application centre's pages. The server renders all that is on them: this shows what changes while a page is open,
// and adds keys. Without it, the pages show the same on each reload.
import { Idiomorph } from "./idiomorph.js";

// hiddenTime is how long a tab that is not seen goes on being told, retryTime the time until a refused stream is opened again, and
// typingTime how long nothing more is typed before the list follows the filter.
const hiddenTime = 30_000, retryTime = 10_000, typingTime = 250;

const policy = globalThis.trustedTypes?.createPolicy("happ", { createHTML: text => text }) ?? { createHTML: text => text };
const reduced = matchMedia("(prefers-reduced-motion: reduce)");
let address = document.body.dataset.events;

// parse returns the element of a text that the server has rendered.
function parse(html) {
  const template = document.createElement("template");
  template.innerHTML = policy.createHTML(html);
  return template.content.firstElementChild;
}

const edited = e => e instanceof HTMLInputElement && e.value !== e.defaultValue;

// How an element becomes the new one: what the user has typed, opened or closed stays as it is.
const gently = {
  morphStyle: "outerHTML", ignoreActiveValue: true, restoreFocus: true,
  callbacks: {
    beforeNodeMorphed: old => !edited(old),
    beforeAttributeUpdated: (name, e) => !(name === "open" && e instanceof HTMLDetailsElement),
  },
};

const cells = e => [...e.querySelectorAll("td:not(.since), th, .state")];

// mark marks the cells whose text has changed, for a moment.
function mark(element, before) {
  for (const cell of cells(element)) {
    const text = before.get(cell);
    if (text === undefined || text === cell.textContent) continue;
    cell.classList.remove("changed");
    if (reduced.matches) continue;
    cell.classList.add("changed");
    cell.addEventListener("animationend", () => cell.classList.remove("changed"), { once: true });
  }
}

function showFragment({ id, html, in: parent }) {
  const next = parse(html), old = document.getElementById(id);
  if (!next) return;
  if (!old) {
    if (parent) document.getElementById(parent)?.append(next);
    return;
  }
  const before = new Map(cells(old).map(cell => [cell, cell.textContent]));
  Idiomorph.morph(old, next, gently);
  const now = document.getElementById(id);
  if (now) mark(now, before);
}

// arrange puts the children of an element into an order, and removes those that are not in it. The focus stays where it is.
function arrange({ id, ids }) {
  const list = document.getElementById(id);
  if (!list) return;
  const focused = document.activeElement, wanted = new Set(ids);
  for (const child of [...list.children]) if (!wanted.has(child.id)) child.remove();
  let at = list.firstElementChild;
  for (const child of ids.map(name => document.getElementById(name))) {
    if (!child) continue;
    if (child === at) at = at.nextElementSibling;
    else if (list.moveBefore) list.moveBefore(child, at);
    else list.insertBefore(child, at);
  }
  if (focused !== document.activeElement && list.contains(focused)) focused.focus({ preventScroll: true });
}

// tell shows how the page is connected: next to its title, and above it what is wrong.
function tell(live, text, away) {
  const shown = document.getElementById("live");
  shown.textContent = live;
  shown.className = away ? "bad" : text ? "" : "good";
  document.documentElement.classList.toggle("away", away);
  let line = document.getElementById("connection");
  if (!text) return line?.remove();
  if (!line) {
    line = document.createElement("p");
    line.id = "connection";
    line.setAttribute("role", "alert");
    document.querySelector("main").prepend(line);
  }
  line.className = away ? "bad" : "";
  if (line.textContent !== text) line.textContent = text;
}

const clock = time => time.toTimeString().slice(0, 8);

// away is since when the page is not connected, undefined while it is, and words are the message on that. lost is since when the server does
// not answer.
let source, away, words = "", lost, hiding, retrying, ended = false;

function showConnection(since, text) {
  [away, words] = [since, text];
  tell(away ? "○ not live" : "● live", words, Boolean(away));
}

function follow() {
  clearTimeout(retrying);
  if (source || ended || !address) return;
  source = new EventSource(address);
  const on = (name, show) => source.addEventListener(name, event => show(JSON.parse(event.data)));
  on("fragment", showFragment);
  on("gone", ({ id }) => document.getElementById(id)?.remove());
  on("order", arrange);
  on("pause", pause); // Newer tabs are followed.
  on("end", () => {
    pause();
    ended = true;
    showConnection(new Date(), "The application centre has ended at " + clock(new Date()) + ". What you see is of then.");
  });
  on("state", ({ connected, since, text }) => {
    lost = undefined;
    if (connected) return showConnection(undefined, text);
    const then = new Date(since);
    showConnection(then, "No connection to the cluster since " + clock(then) + ". What you see is of then.");
  });
  source.addEventListener("error", () => {
    lost ??= new Date();
    showConnection(away ?? lost, "The application centre does not answer since " + clock(lost) + ". What you see is of then. Start it again, or reload the page.");
    if (source.readyState !== EventSource.CLOSED) return; // The browser tries again by itself.
    source = undefined;
    retrying = setTimeout(follow, retryTime);
  });
}

function pause() {
  clearTimeout(retrying);
  source?.close();
  source = undefined;
  if (!address || ended) return;
  if (away) tell("‖ as of " + clock(away), words, true);
  else tell("‖ as of " + clock(new Date()), "", false);
}

// A browser opens few connections to a host: a tab that is not seen keeps none.
document.addEventListener("visibilitychange", () => {
  clearTimeout(hiding);
  if (document.visibilityState === "visible") return follow();
  hiding = setTimeout(pause, hiddenTime);
});
addEventListener("focus", follow);

const filter = document.getElementById("filter");
let typing;

// The list follows the filter as it is typed, and so does the address of the page.
filter?.addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(() => {
    const events = new URL(address, location.href), page = new URL(location.href);
    for (const url of [events, page]) url.searchParams.set("filter", filter.value);
    history.replaceState(null, "", page);
    address = events.href;
    source?.close();
    source = undefined;
    follow();
  }, typingTime);
});

// The theme is that of the browser, unless the user chooses one. The choice is for this address: with another port it is another one.
const themes = ["auto", "light", "dark"];
const button = Object.assign(document.createElement("button"), { type: "button", id: "theme" });

function choose(theme) {
  document.documentElement.dataset.theme = theme;
  button.textContent = "Theme: " + theme;
}

// kept returns what the browser keeps by a name, and keeps a text if there is one. Some keep nothing.
function kept(name, text) {
  try {
    if (text) localStorage.setItem(name, text);
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

button.addEventListener("click", () => {
  const next = themes[(themes.indexOf(document.documentElement.dataset.theme) + 1) % themes.length];
  kept("theme", next);
  choose(next);
});
const end = document.querySelector("header .end");
end.insertBefore(button, end.querySelector("form")); // The pages of a viewer have no form.
choose(themes.find(theme => theme === kept("theme")) ?? "auto");

const keys = {
  "/": ["Go to the filter", () => document.getElementById("filter")],
  "j": ["Next row", () => row(1)],
  "k": ["Row before", () => row(-1)],
  "t": ["Tree", () => heading("tree")],
  "h": ["What has happened", () => heading("happened")],
  "y": ["Spec", () => heading("spec")],
  "g l": ["Go to the list", () => { location.href = document.querySelector("header a").href; }],
  "?": ["Show the keys", help],
};

// row returns the link of the row that is so many rows away from the one with the focus.
function row(step) {
  const links = [...document.querySelectorAll("#rows a")];
  const at = links.indexOf(document.activeElement);
  return links[at < 0 ? (step > 0 ? 0 : links.length - 1) : Math.min(links.length - 1, Math.max(0, at + step))];
}

// heading returns the heading of a section, which is open then.
function heading(id) {
  const details = document.querySelector("#" + id + " section > details");
  if (details) details.open = true;
  return document.querySelector("#" + id + " :is(summary, h2)");
}

function help() {
  let dialog = document.getElementById("keys");
  if (!dialog) {
    dialog = document.createElement("dialog");
    dialog.id = "keys";
    dialog.setAttribute("aria-label", "Keys");
    const list = document.createElement("dl");
    for (const [key, [text]] of [...Object.entries(keys), ["Enter", ["Open the row"]], ["Esc", ["Leave the filter, close this"]]]) {
      list.append(Object.assign(document.createElement("dt"), { textContent: key }), Object.assign(document.createElement("dd"), { textContent: text }));
    }
    dialog.append(list);
    document.body.append(dialog);
  }
  if (!dialog.open) dialog.showModal();
}

let begun = "";

const field = event => event.target.closest?.("input, textarea, select");

document.addEventListener("keydown", event => {
  if (event.key === "Escape") field(event)?.blur();
});

// The keys are those that were typed, whatever the layout of the keyboard: "/" is two keys on some.
document.addEventListener("keypress", event => {
  if (field(event) || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const pressed = begun + event.key;
  begun = pressed === "g" ? "g " : "";
  const does = keys[pressed]?.[1];
  if (!does) return;
  event.preventDefault();
  does()?.focus();
});

if (document.visibilityState === "visible") follow();
