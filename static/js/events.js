// Receives changes of the page's project or session as server-sent events while the page is visible.
// Each is dispatched as "playhead:change" with the kind of the change. Two more kinds: "opened" after a new connection,
// because earlier changes may have been missed, and "poll" every three seconds without a connection.
//
// An element with an id and data-reloaded-by names the kinds of change after which htmx loads it again (hx-trigger="reload").
// It is not loaded while data-reload-unless selects something in it, for example a part that the reader has unfolded.

const POLL = 3000; // milliseconds between requests without a connection
const RETRY = 10_000; // before another connection is tried, once the server has refused one
const PAUSE = 1000; // between two reloads of an element
const KINDS = [
  "session_created", "entries", "rewind", "summaries", "run", "budget", "notes", "session_changed", "session_deleted",
]; // as in models/changes.py

let address = document.body.dataset.events; // the first one may begin after a cursor of the page
let stream = null;
let opened = 0; // when a connection was last known to work
let retry = null;

const dispatch = (kind) => document.dispatchEvent(new CustomEvent("playhead:change", { detail: { kind } }));

function connect() {
  clearTimeout(retry);
  const isGapless = address.includes("?after=");
  let isNew = true; // an old one that connects again goes on with its own cursor
  stream = new EventSource(address);
  stream.addEventListener("open", () => {
    opened = Date.now();
    address = address.split("?")[0];
    if (isNew && !isGapless) dispatch("opened");
    isNew = false;
  });
  stream.addEventListener("error", () => {
    if (stream?.readyState === EventSource.CLOSED) retry = setTimeout(connect, RETRY);
  });
  for (const kind of KINDS) stream.addEventListener(kind, () => dispatch(kind));
}

function disconnect() {
  clearTimeout(retry);
  stream?.close();
  stream = null;
}

function poll() {
  if (stream?.readyState === EventSource.OPEN) opened = Date.now();
  if (!document.hidden && Date.now() - opened >= POLL) dispatch("poll");
}

// A hidden page holds no connection, because a browser opens at most six connections to a server. The first one
// waits for the other scripts of the page, which would miss its first changes.
if (address) {
  document.addEventListener("DOMContentLoaded", () => document.hidden || stream || connect());
  setInterval(poll, POLL);
  document.addEventListener("visibilitychange", () => (document.hidden ? disconnect() : connect()));
  window.addEventListener("pagehide", disconnect);
  window.addEventListener("pageshow", (event) => {
    if (event.persisted && !document.hidden) connect();
  });
}

// A page of a share link has no stream, because anyone who has the link could hold many connections.
if ("polls" in document.body.dataset) setInterval(() => document.hidden || dispatch("poll"), POLL);

// Elements that load themselves again and again (hx-trigger="every …") pause while the page is hidden. Those that also
// have the trigger "shown" load once the page is shown, also for the first time.
const paused = new Set();
document.addEventListener("htmx:beforeRequest", (event) => {
  const { elt, requestConfig } = event.detail;
  const isTimed = !requestConfig.triggeringEvent && elt.getAttribute("hx-trigger")?.includes("every ");
  if (!document.hidden || !isTimed) return;
  event.preventDefault();
  paused.add(elt);
});
document.addEventListener("visibilitychange", () => {
  if (document.hidden) return;
  for (const element of paused) if (element.isConnected) htmx.trigger(element, "shown");
  paused.clear();
});

const reloads = new Map(); // when each element may be loaded again, by its id: a swap may replace it

function reload(element) {
  const unless = element.dataset.reloadUnless;
  if (unless && element.querySelector(unless)) return void (element.dataset.reloadDue = "");
  delete element.dataset.reloadDue;
  const now = Date.now();
  const next = reloads.get(element.id) ?? 0;
  if (next > now + PAUSE) return; // a reload is due already
  const wait = Math.max(0, next - now);
  reloads.set(element.id, now + wait + PAUSE);
  setTimeout(() => htmx.trigger(`#${element.id}`, "reload"), wait);
}

// The element may have changed since the request began: then it is not replaced, or is loaded again with what it includes.
document.addEventListener("htmx:beforeSwap", ({ detail }) => {
  const { elt, triggeringEvent, formData } = detail.requestConfig;
  if (triggeringEvent?.type !== "reload") return;
  const unless = elt.dataset.reloadUnless;
  const included = elt.getAttribute("hx-include");
  const isBusy = unless && elt.querySelector(unless);
  const sent = ({ name, value }) => formData.getAll(name).includes(value);
  if (!isBusy && (!included || [...document.querySelectorAll(included)].every(sent))) return;
  detail.shouldSwap = false;
  reload(elt);
});

document.addEventListener("playhead:change", ({ detail }) => {
  for (const element of document.querySelectorAll("[data-reloaded-by]")) {
    const kinds = [...element.dataset.reloadedBy.split(" "), "opened", "poll"];
    if (kinds.includes(detail.kind)) reload(element);
  }
});

const reloadDue = () => setTimeout(() => document.querySelectorAll("[data-reload-due]").forEach(reload));
for (const name of ["toggle", "focusout"]) document.addEventListener(name, reloadDue, { capture: true });
