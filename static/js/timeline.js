// Redraws the timeline without loading the page again after a choice, a zoom or a move of the minimap's window.
// Without this file, choices, zoom buttons and parts of the minimap are links.

const WAIT = 300; // milliseconds after the last key until the new part is drawn
const MIN = 20; // steps that the timeline shows at least
const VIEW = ["axis", "height", "colour", "zoom"]; // what a query says about the timeline

const root = document.querySelector("[data-playhead]");
const frame = document.getElementById("timeline");
const panel = document.getElementById("step");

if (frame && panel) {
  const at = () => Number(panel.querySelector("[data-at]").dataset.at);
  const map = () => frame.querySelector("[data-map]");

  let requested = null; // the query of the timeline that is on its way
  let chosen = null; // the part that keys have chosen and that is not drawn yet
  let drag = null; // of the minimap's window

  /** The query of a choice, with those that were made before it and are not drawn yet. */
  function withEarlierChoices(query) {
    if (!requested) return query;
    const drawn = new URLSearchParams(frame.querySelector("[data-timeline]").dataset.view);
    const chosen = new URLSearchParams(query);
    const all = new URLSearchParams(requested);
    for (const name of VIEW) {
      if (chosen.get(name) === drawn.get(name)) continue;
      if (chosen.has(name)) all.set(name, chosen.get(name));
      else all.delete(name);
    }
    return `?${all}`;
  }

  /** The choices of the drawn timeline or, if there is one, of that on its way. */
  function view() {
    if (!requested) return root.dataset.view;
    const all = new URLSearchParams(requested);
    return VIEW.filter((name) => all.has(name)).map((name) => `&${name}=${all.get(name)}`).join("");
  }

  /** Draws the timeline as a query says, also if another is on its way. The address and the other links follow. */
  async function draw(query) {
    requested = query;
    const focused = document.activeElement?.dataset?.mapEdge;
    if (await loadInto(frame, `${root.dataset.page}/timeline${query}`)) return;
    requested = null;
    const view = frame.querySelector("[data-timeline]").dataset.view;
    root.dataset.view = view;
    const zoom = new URLSearchParams(view).get("zoom");
    const shown = zoom ? `&zoom=${zoom}` : ""; // the server draws the whole run if nothing is left out
    const address = query.replace(/\bstep=\d+/, `step=${at()}`).replace(/&zoom=[\d-]+/, shown);
    history.replaceState(history.state, "", `${root.dataset.page}${address}`); // the playhead may have moved
    send("position", { step: at(), isDrawn: true });
    for (const link of root.querySelectorAll("a[data-keeps-step]:not(#timeline-form a)")) setZoom(link, zoom);
    prepareMap();
    if (focused) map()?.querySelector(`[data-map-edge="${focused}"]`).focus();
  }

  function setZoom(link, zoom) {
    const query = new URLSearchParams(link.search);
    if (zoom) query.set("zoom", zoom);
    else query.delete("zoom");
    link.search = query;
  }

  /** Draws what the reader chose. Meanwhile the reader may have moved the playhead out of the part. */
  async function choose(query) {
    await draw(query);
    follow(send("wanted"));
  }

  /** Shows a part of the run, at least MIN steps. A playhead outside of it goes to its nearest step or stays. */
  async function zoom(from, to, keepsStep = false) {
    const all = Number(panel.querySelector("[data-at]").dataset.steps);
    const first = Math.max(1, Math.min(from, all - MIN + 1));
    const last = Math.min(all, Math.max(to, first + MIN - 1));
    const before = send("wanted");
    const nearest = Math.min(Math.max(before, first), last);
    const step = keepsStep ? before : nearest;
    const kept = step === nearest ? "" : `-${step}`; // the server keeps the part while the playhead is there
    const { asOf, filter, find } = root.dataset;
    const rest = view().replace(/&zoom=[\d-]+/, "");
    const isWhole = map() && first === 1 && last === steps();
    const drawn = choose(`?step=${step}${asOf}${filter}${rest}${isWhole ? "" : `&zoom=${first}-${last}${kept}`}${find}`);
    if (step !== before) send("go", { step });
    else send("ask");
    await drawn;
  }

  /** Shows another part when the playhead has left the shown one. The server chooses a part around the step. */
  async function follow(step) {
    const { asOf, filter, view, find } = root.dataset;
    const [first, last, kept] = new URLSearchParams(view).get("zoom")?.split("-").map(Number) ?? [1, Infinity];
    if (requested || chosen || drag || step === kept || (first <= step && step <= last)) return;
    await draw(`?step=${step}${asOf}${filter}${view}${find}`);
    if (send("wanted") !== step) follow(send("wanted"));
  }

  document.addEventListener("playhead:do", ({ detail }) => {
    if (detail.action === "zoom") detail.done = zoom(detail.first, detail.last, detail.keepsStep);
    if (detail.action === "position" && !detail.isDrawn) follow(detail.step);
  });
  root.addEventListener("click", (event) => {
    const link = event.target.closest("#timeline-form a");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    choose(withEarlierChoices(link.search));
  });

  document.addEventListener("htmx:afterSwap", (event) => {
    if (event.target.id === "note") choose(withEarlierChoices(location.search)); // a bookmark was set or removed
  });

  // The minimap: its window is moved and resized by pointer and keys.
  const steps = () => Number(map().dataset.steps);
  const part = () => ({ first: Number(map().dataset.first), last: Number(map().dataset.last) });

  /** The part after one edge, or both of them, have moved by some steps. */
  function moved({ first, last }, edge, by) {
    const size = last - first + 1;
    const within = (value, low, high) => Math.round(Math.min(Math.max(value, low), high));
    if (edge === "first") return { first: within(first + by, 1, Math.max(1, last - MIN + 1)), last };
    if (edge === "last") return { first, last: within(last + by, Math.min(steps(), first + MIN - 1), steps()) };
    const start = within(first + by, 1, steps() - size + 1);
    return { first: start, last: start + size - 1 };
  }

  function showPart({ first, last }) {
    Object.assign(map().dataset, { first, last });
    const [x, end] = [first - 1, last].map((step) => (100 * step) / steps());
    const set = (name, values) => {
      for (const [key, value] of Object.entries(values)) map().querySelector(name).setAttribute(key, value);
    };
    set("[data-map-before]", { width: `${x}%` });
    set("[data-map-after]", { x: `${end}%` });
    set(".map-window", { x: `${x}%`, width: `${end - x}%` });
    set("[data-map-edge=first]", { x: `${x}%`, "aria-valuenow": first, "aria-valuetext": `from step ${first}` });
    set("[data-map-edge=last]", { x: `${end}%`, "aria-valuenow": last, "aria-valuetext": `to step ${last}` });
    set("[data-map-edge=both]", { "aria-valuenow": first, "aria-valuetext": `steps ${first} to ${last}` });
  }

  /** Makes the window and its edges controls; without scripts they could not be used. */
  function prepareMap() {
    if (!map()) return;
    const names = { both: "Part that the timeline shows", first: "First step of the part", last: "Last step of the part" };
    for (const [edge, label] of Object.entries(names)) {
      const control = map().querySelector(`[data-map-edge=${edge}]`);
      const values = { role: "slider", tabindex: 0, "aria-label": label, "aria-valuemin": 1, "aria-valuemax": steps() };
      for (const [name, value] of Object.entries(values)) control.setAttribute(name, value);
    }
    const { first, last } = part();
    map().toggleAttribute("data-map-moves", last - first + 1 < steps());
    showPart(chosen ?? { first, last });
    showPlayhead();
  }

  const showPlayhead = () => map()?.querySelector("[data-map-playhead]").setAttribute("x", `${(100 * (at() - 0.5)) / steps()}%`);

  frame.addEventListener("pointerdown", (event) => {
    const edge = event.target.closest("[data-map-edge]")?.dataset.mapEdge;
    if (event.button || !edge) return;
    event.preventDefault();
    event.target.closest("[data-map-edge]").focus({ focusVisible: false });
    drag = { edge, from: event.clientX, before: part(), width: map().getBoundingClientRect().width };
  });
  window.addEventListener("pointermove", (event) => {
    if (drag) showPart(moved(drag.before, drag.edge, ((event.clientX - drag.from) * steps()) / drag.width));
  });
  window.addEventListener("pointerup", () => {
    if (!drag) return;
    const { before } = drag;
    drag = null;
    const { first, last } = part();
    if (first !== before.first || last !== before.last) zoom(first, last);
  });
  window.addEventListener("pointercancel", () => {
    if (drag) showPart(drag.before);
    drag = null;
  });

  function zoomToChosen() {
    const { first, last } = chosen;
    chosen = null;
    zoom(first, last);
  }

  let timer = null;
  frame.addEventListener("keydown", (event) => {
    const edge = event.target.closest("[data-map-edge]")?.dataset.mapEdge;
    if (!edge || event.ctrlKey || event.metaKey || event.altKey) return;
    const { first, last } = chosen ?? part();
    const size = last - first + 1;
    const small = Math.max(1, Math.round(size / 10));
    const by = {
      ArrowLeft: -small, ArrowDown: -small, ArrowRight: small, ArrowUp: small,
      PageDown: -size, PageUp: size, Home: -steps(), End: steps(),
    }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    chosen = moved({ first, last }, edge, by);
    showPart(chosen);
    clearTimeout(timer);
    timer = setTimeout(zoomToChosen, WAIT);
  });

  new MutationObserver(showPlayhead).observe(panel, { childList: true });
  new MutationObserver(() => map() && !map().querySelector("[role=slider]") && prepareMap()).observe(frame, { childList: true });
  prepareMap();
}
