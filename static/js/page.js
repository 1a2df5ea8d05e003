// On every page: menus that close, the error bar, forms that show a preview, and "/" for the search.

const notice = document.getElementById("notice");

/** What the browser keeps under a name; with a value, keeps that. Null where there is nothing or it refuses. */
window.kept = (name, value, storage = "localStorage") => {
  try {
    if (value === undefined) return window[storage].getItem(name);
    window[storage].setItem(name, value);
  } catch {
    // The setting lasts until the page is left.
  }
  return null;
};

/** Asks the parts of the session page for an action. Whoever does it may leave an answer in `done`. */
window.send = (action, fields = {}) => {
  const detail = { action, ...fields };
  document.dispatchEvent(new CustomEvent("playhead:do", { detail }));
  return detail.done;
};

const loads = new WeakMap(); // the newest request of each part

/** Swaps in the server's answer; the error bar shows what goes wrong. Each part of the page is the source of its own
 * requests. A new one aborts the one before it, which then returns true: its answer is not wanted any more. */
window.loadInto = async (target, url) => {
  const part = (typeof target === "string" ? document.querySelector(target) : target) ?? document.body;
  const mine = {};
  loads.set(part, mine);
  htmx.trigger(part, "htmx:abort");
  await htmx.ajax("GET", url, { source: target, target, swap: "innerHTML" }).catch(() => {});
  return loads.get(part) !== mine;
};

// htmx loads a part when a reader unfolds it, but not one that was unfolded before htmx began to listen.
document.addEventListener("DOMContentLoaded", () => {
  for (const part of document.querySelectorAll("details[open][hx-trigger^=toggle]")) htmx.trigger(part, "toggle");
});

const BLOCK = "p, pre, li, td, th, dt, dd, summary, h2, h3, h4, h5, h6, div, section, figure";

/** The text nodes of an element, those of one paragraph or line together: a word may stand in several of them. */
window.textBlocks = function* (element) {
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  let block = null;
  let nodes = [];
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const own = node.parentElement.closest(BLOCK);
    if (own !== block && nodes.length) {
      yield nodes;
      nodes = [];
    }
    block = own;
    nodes.push(node);
  }
  if (nodes.length) yield nodes;
};

/** Shows the error bar. `source` is the id of a part of the page that loads automatically, or empty. */
function showError(message, source = "") {
  notice.dataset.source = source;
  notice.querySelector("span").textContent = message;
  notice.hidden = false;
}

function messageOf(xhr) {
  const isText = xhr.getResponseHeader("Content-Type")?.startsWith("text/plain");
  return isText ? xhr.responseText : `The server answered with an error (${xhr.status}).`;
}

// A session is not shown as live while the server cannot be reached.
document.addEventListener("htmx:sendError", () => document.body.toggleAttribute("data-unreachable", true));
document.addEventListener("htmx:afterRequest", ({ detail }) => {
  if (detail.xhr.status) document.body.removeAttribute("data-unreachable");
});

// A part that loads automatically hides only its own errors.
const sourceOf = (event) => event.detail.target?.closest("#news, [id^=watch], [id^=context]")?.id ?? "";
// What the page loads without being asked, it loads again later.
const isAutomatic = (event) => sourceOf(event) || event.detail.requestConfig?.triggeringEvent?.type === "reload";
const whatNow = (event) => (isAutomatic(event) ? "This page continues when it answers." : "Check the connection, then try again.");
const errors = {
  responseError: (event) => messageOf(event.detail.xhr),
  sendError: (event) => `The server cannot be reached. ${whatNow(event)}`,
  timeout: () => "The server took too long to answer. Try again.",
  swapError: () => "The response could not be shown. Reload the page.",
};
for (const [name, message] of Object.entries(errors)) {
  document.addEventListener(`htmx:${name}`, (event) => showError(message(event), sourceOf(event)));
}
document.addEventListener("htmx:afterRequest", (event) => {
  const source = sourceOf(event);
  if (event.detail.successful && (!source || source === notice.dataset.source)) notice.hidden = true;
});

document.addEventListener("click", (event) => {
  if (event.target.closest("[data-dismiss]")) notice.hidden = true;
  for (const menu of document.querySelectorAll("[data-menu][open]")) {
    if (!menu.contains(event.target)) menu.open = false;
  }
});

// A link to a search takes along what is typed in a field, also if it opens in a new tab.
for (const kind of ["mousedown", "click"]) {
  document.addEventListener(kind, ({ target }) => {
    const link = target.closest("[data-takes-text]");
    const typed = link && document.querySelector(link.dataset.takesText).value.trim();
    if (link) link.search = typed && new URLSearchParams({ q: typed });
  });
}

// Typing after a form was opened goes into the form: with the focus outside of it, single keys are shortcuts.
document.addEventListener("toggle", (event) => {
  if (!event.target.matches("[data-menu][open], .note-form[open]")) return;
  event.target.querySelector("input[name]:not([type]), textarea")?.focus();
}, true);

document.addEventListener("submit", (event) => {
  const button = event.target.matches("[data-busy]") && event.target.querySelector("button");
  if (button) {
    button.textContent = event.target.dataset.busy;
    button.disabled = true;
  }
});

// A preview is out of date once something is typed. Its buttons are disabled until the server sends the new preview,
// and a running request is aborted, because its response would be out of date too.
document.addEventListener("input", (event) => {
  const form = event.target.closest("[data-invalidates]");
  if (!form) return;
  htmx.trigger(form, "htmx:abort");
  for (const button of document.querySelectorAll(`${form.dataset.invalidates} button`)) button.disabled = true;
});

// If the server could not send the new preview, a button requests it again.
function offerRetry(event) {
  const form = event.detail.elt?.closest?.("[data-invalidates]");
  const preview = form && document.querySelector(form.dataset.invalidates);
  if (!preview) return;
  const known = preview.querySelector("[data-retry]");
  if (known) return void (known.disabled = false);
  const button = Object.assign(document.createElement("button"), { type: "button", className: "button", textContent: "Try again" });
  button.dataset.retry = "";
  button.addEventListener("click", () => htmx.trigger(form, "input"));
  preview.append(button);
}
for (const name of ["responseError", "sendError", "timeout"]) document.addEventListener(`htmx:${name}`, offerRetry);

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    const menu = document.querySelector("[data-menu][open]");
    if (menu) {
      menu.open = false;
      menu.querySelector("summary").focus();
    }
  }
  const hasKeys = document.querySelector("dialog[data-keys]"); // key_table.js knows whether they are switched off
  if (event.key === "/" && !hasKeys && !event.target.closest("input, textarea, select")) {
    const search = document.querySelector("[data-search]");
    if (search) {
      event.preventDefault();
      search.focus();
    }
  }
});
