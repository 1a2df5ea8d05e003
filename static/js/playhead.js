// The playhead: moves by fetching the step under it, and keeps the address in step. replay.js plays.
// Every control is a link as well, so the page works without this file.

// Browsers refuse to change the address more than 100 times in 30 seconds, which a fast replay would do.
const MAX_WRITES = 90;
const WINDOW = 30_000; // milliseconds
const REST = 500; // milliseconds between two steps of a replay in the address

const root = document.querySelector("[data-playhead]");
const panel = document.getElementById("step");

if (panel) {
  const view = () => panel.querySelector("[data-at]");
  const number = (name) => Number(view().dataset[name]);
  const part = (name) => root.querySelector(`[data-${name}]`);
  const { asOf } = root.dataset; // empty, or what follows in an address
  const { filter } = root.dataset; // of the list: likewise

  const pageUrl = (step) => `${root.dataset.page}?step=${step}${asOf}${filter}${root.dataset.view}${root.dataset.find}`;
  const tabUrl = (tab, step) => `${root.dataset.page}/${tab.dataset.tab}?step=${step}${asOf}`;
  const stepUrl = (step) => `${root.dataset.page}/steps/${step}?revision=${root.dataset.revision}${asOf}`;
  const rowsUrl = (step) => `${root.dataset.page}/steps?around=${step}${asOf}${filter}`;
  const within = (step) => Math.min(Math.max(1, step), number("steps"));

  // The step to which each control moves.
  const moves = {
    first: () => 1,
    back: () => within(wanted() - 1),
    forward: () => within(wanted() + 1),
    last: () => number("steps"),
  };

  let scrolled = number("at"); // the step whose text the panel scrolls
  let next = null; // the step to load once the current request has ended
  let moving = null;
  let requested = null; // the step that the reader requested and that is not in view yet
  let asked = 0; // grows with each move that the reader asks for; one that is ready after a later one is dropped
  let missed = null; // the value of asked when the newest step could not be loaded; it is followed after an outage

  /** The step from which the reader moves: each of several quick keys counts. */
  const wanted = () => requested ?? number("at");

  /** Brings a step into view, and the part of it with an ID. While a step loads, only the last request is kept. */
  function go(step, { remember = true, fragment = "" } = {}) {
    next = { step: within(step), remember, fragment };
    requested = null;
    moving ??= loadNext().finally(() => (moving = null));
    return moving;
  }

  async function loadNext() {
    while (next) {
      const { step, remember, fragment } = next;
      const before = number("at");
      next = null;
      await loadInto(panel, stepUrl(step));
      if (!next) requested = null;
      if (number("at") !== step) {
        if (next) continue;
        stop();
        showPosition(number("at"));
        return;
      }
      writeAddress(step, remember);
      if (fragment) document.getElementById(fragment)?.scrollIntoView({ block: "nearest" });
      if (!next) await show();
    }
  }

  let writes = []; // when the address was written
  let writing = null;

  /** Puts the step into the address: at once where it may, later on where it changes too often. */
  function writeAddress(step, remember) {
    clearTimeout(writing);
    const now = performance.now();
    writes = writes.filter((time) => now - time < WINDOW);
    const rested = remember || !writes.length ? now : writes.at(-1) + REST;
    const free = writes.length < MAX_WRITES ? rested : writes[0] + WINDOW;
    if (free > now) {
      writing = setTimeout(() => writeAddress(step, false), free - now);
      return;
    }
    writes.push(now);
    history[remember ? "pushState" : "replaceState"]({ step }, "", pageUrl(step));
  }

  /** Makes timeline, controls and list agree with the step in the panel. */
  async function show() {
    const at = number("at");
    showPosition(at);
    showControls(at);
    document.title = document.title.replace(/^Step [\d,]+/, `Step ${at.toLocaleString("en")}`);
    if (!isPlaying()) part("announced").textContent = view().querySelector("header").innerText;
    await markRow(at);
    prefetch(at + 1);
    if (!isPlaying()) await updateTabs(at);
  }

  function showControls(at) {
    for (const link of root.querySelectorAll("[data-move]")) updateLink(link);
    for (const field of root.querySelectorAll("[data-step-field]")) field.value = at;
    for (const link of root.querySelectorAll("[data-keeps-step]")) {
      const query = new URLSearchParams(link.search);
      query.set("step", at);
      link.search = query;
    }
    const failures = root.querySelector("a[data-jump=next-error]");
    if (view().dataset.laterFailure === "yes") failures.removeAttribute("aria-disabled");
    else failures.setAttribute("aria-disabled", "true");
  }

  /** Lets the browser keep the next step, so that replay need not wait for it. */
  function prefetch(step) {
    if (step <= number("steps")) fetch(stepUrl(step), { headers: { "HX-Request": "true", "HX-Target": "step" } }).catch(() => {});
  }

  function showPosition(at) {
    send("position", { step: at });
    if (document.activeElement !== part("number")) part("number").value = at;
    part("slider").value = at;
    showInLedger(at);
  }

  /** Marks the step in the ledger's chart, where that shows it. */
  function showInLedger(at) {
    const chart = part("chart");
    if (!chart) return;
    const first = Number(chart.dataset.first);
    const last = Number(chart.dataset.last);
    chart.querySelector("[aria-current]")?.removeAttribute("aria-current");
    chart.querySelector(`[data-step="${at}"]`)?.setAttribute("aria-current", "step");
    const cursor = part("chart-cursor");
    cursor.setAttribute("x", `${(100 * (at - first + 0.5)) / (last - first + 1)}%`);
    cursor.setAttribute("display", at < first || at > last ? "none" : "inline");
  }

  /** Loads the open tabs for the step, except those whose chart already shows it. */
  async function updateTabs(at, { reload = false } = {}) {
    for (const tab of root.querySelectorAll(".tab[open]")) {
      const chart = tab.querySelector("[data-chart]");
      if (!reload && chart && at >= Number(chart.dataset.first) && at <= Number(chart.dataset.last)) continue;
      await loadInto(tab.querySelector(".tab-body"), tabUrl(tab, at));
    }
  }

  function updateLink(link) {
    const step = moves[link.dataset.move]();
    if (step) {
      link.href = pageUrl(step);
      link.removeAttribute("aria-disabled");
    } else {
      link.removeAttribute("href");
      link.setAttribute("aria-disabled", "true");
    }
  }

  /** Marks the step's row, and fetches the rows around it when the list holds others. */
  async function markRow(at) {
    const isListed = () => root.querySelector(`#rows [data-step="${at}"]`);
    if (!isListed() && !filter) await loadInto("#rows", rowsUrl(at)); // a filtered list need not hold the step
    const row = markOnly(at);
    row?.dispatchEvent(new CustomEvent("playhead:marked", { bubbles: true }));
    reveal(row);
  }

  /** Marks the step's row, or says that a filtered list has none. New rows carry no mark, or that of the step that was
   * in view when they were requested. */
  function markOnly(at) {
    for (const row of root.querySelectorAll("#rows [aria-current]")) row.removeAttribute("aria-current");
    const row = root.querySelector(`#rows [data-step="${at}"]`);
    row?.setAttribute("aria-current", "step");
    part("unlisted")?.toggleAttribute("hidden", Boolean(row));
    return row;
  }

  /** Scrolls the list, and only the list, so that a row is well inside it. */
  function reveal(row) {
    if (!row) return;
    const list = part("steps-pane");
    const top = row.getBoundingClientRect().top - list.getBoundingClientRect().top;
    if (top < list.clientHeight * 0.15 || top > list.clientHeight * 0.75) list.scrollTop += top - list.clientHeight * 0.35;
  }

  const isPlaying = () => "playing" in root.dataset;
  const stop = () => send("stop");

  /** Moves as the reader asks. `since` says when, for a move that had to be looked up first (the action "ask"). */
  function jump(step, { fragment, since = (asked += 1) } = {}) {
    if (since !== asked) return null;
    stop();
    if (!step) return null;
    const done = go(step, { fragment });
    requested = within(step);
    return done;
  }

  /** A held key moves on once its step is in view, so that the reader sees each step. */
  const keyed = (move) => (detail) => (detail.repeat && wanted() !== number("at") ? null : jump(move()));

  async function openDialog(url) {
    stop();
    if (await loadInto("#dialog-body", url)) return;
    const dialog = document.getElementById("dialog");
    if (dialog.querySelector("form")) dialog.showModal();
  }

  root.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    const link = event.target.closest("a");
    if (event.target.closest("[data-close]")) {
      event.preventDefault();
      event.target.closest("dialog").close();
    } else if (link?.matches("[data-dialog]")) {
      event.preventDefault();
      link.closest("[data-menu]")?.removeAttribute("open");
      openDialog(link.href);
    } else if (event.target.closest("[data-timeline]")) {
      return; // bars.js
    } else if (link?.dataset.step) {
      event.preventDefault();
      jump(Number(link.dataset.step));
    } else if (link?.dataset.move) {
      event.preventDefault();
      jump(moves[link.dataset.move]());
    }
  });

  part("slider").addEventListener("input", (event) => {
    stop();
    asked += 1;
    part("number").value = event.target.value;
    go(Number(event.target.value), { remember: false });
  });
  part("slider").addEventListener("change", (event) => jump(Number(event.target.value)));
  part("jump").addEventListener("submit", (event) => {
    event.preventDefault();
    part("number").blur();
    jump(Number(part("number").value));
  });

  /** What keys.js, replay.js and palette.js ask for by name. */
  const actions = {
    back: keyed(moves.back),
    forward: keyed(moves.forward),
    first: () => jump(moves.first()),
    last: () => jump(moves.last()),
    go: (detail) => (detail.done = jump(detail.step, detail)),
    ask: (detail) => (detail.done = asked += 1),
    asked: (detail) => (detail.done = asked),
    arrive: (detail) => (detail.done = requested && moving),
    show: (detail) => ((missed = null), (detail.done = go(detail.step, { remember: false }))), // as a part of a replay
    settle: () => updateTabs(number("at")),
    wanted: (detail) => (detail.done = wanted()),
  };
  document.addEventListener("playhead:do", (event) => actions[event.detail.action]?.(event.detail));

  /** New steps were recorded: list and controls grow, and a playhead at the newest step follows. */
  async function grow({ before, now, rows }) {
    const since = asked;
    const wasRewound = before.cut !== now.cut;
    const wasNewest = wanted() >= Number(before.steps) || missed === asked;
    root.dataset.revision = now.revision;
    Object.assign(view().dataset, { steps: now.steps, laterFailure: now.laterFailure });
    part("total").textContent = Number(now.steps).toLocaleString("en");
    for (const field of [part("number"), part("slider")]) field.max = now.steps;
    showPosition(number("at"));
    showControls(number("at"));
    if (before.head === now.head) return;
    if (wasRewound || filter) await loadInto("#rows", rowsUrl(within(wanted())));
    else extend(Number(before.steps), rows);
    markOnly(number("at"));
    const isFollowing = wasNewest && since === asked && !isPlaying() && !isReading();
    if (isFollowing) await follow();
    else if (wasRewound) await go(wanted(), { remember: false });
    await updateTabs(number("at"), { reload: true });
  }

  async function follow() {
    const since = asked;
    await go(number("steps"), { remember: false });
    missed = since === asked && number("at") < number("steps") ? asked : null;
  }

  /** Puts rows into the list from the newest step known so far, which may have changed. */
  function extend(known, rows) {
    const row = root.querySelector(`#rows [data-step="${known}"]`)?.closest("li");
    if (!row) return; // the list ends before it, with a link to later steps
    const first = row.previousElementSibling?.matches(".input-row") ? row.previousElementSibling : row;
    while (first.nextElementSibling) first.nextElementSibling.remove();
    first.replaceWith(rows.content);
    htmx.process(document.getElementById("rows"));
  }

  /** Whether moving the page would disturb the reader. */
  const isReading = () => Boolean(document.querySelector("dialog[open]")) || !getSelection().isCollapsed;

  root.addEventListener("playhead:news", (event) => (event.detail.done = grow(event.detail)));
  document.addEventListener("playhead:change", () => {
    if (missed === asked && !moving && !isPlaying() && !isReading()) follow();
  });
  root.addEventListener("htmx:configRequest", (event) => {
    if (event.target.matches(".tab")) event.detail.path = tabUrl(event.target, number("at"));
  });
  root.addEventListener("htmx:afterSwap", (event) => {
    if (event.target.matches(".tab-body")) showInLedger(number("at"));
    if (event.target.matches("#rows, #rows > li")) markOnly(number("at"));
    if (event.target === panel && number("at") !== scrolled) {
      scrolled = number("at");
      panel.scrollTop = 0; // at once: find.js scrolls to a match later
    }
  });

  window.addEventListener("popstate", (event) => {
    // A link to a part of this page moves nothing, because loading the step again would remove the focus from it.
    if (!event.state) return void history.replaceState({ step: number("at") }, "");
    stop();
    asked += 1;
    next = null;
    clearTimeout(writing);
    go(event.state.step, { remember: false });
  });

  // Earlier rows are inserted above the rows that the reader sees, which must not move.
  root.addEventListener("htmx:beforeSwap", (event) => {
    if (!event.target.querySelector(":scope > [data-earlier]")) return;
    const list = part("steps-pane");
    const below = list.scrollHeight - list.scrollTop;
    queueMicrotask(() => (list.scrollTop = list.scrollHeight - below));
  });

  history.replaceState({ step: number("at") }, "");
  prefetch(number("at") + 1);
  reveal(root.querySelector("#rows [aria-current]"));
}
