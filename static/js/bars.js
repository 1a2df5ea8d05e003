// The bars of the timeline: the place of each step. A bar links to its step; dragging over the bars zooms in.

const MIN_DRAG = 8; // pixels

const root = document.querySelector("[data-playhead]");
const frame = document.getElementById("timeline");

if (frame) {
  const part = (name) => frame.querySelector(`[data-${name}]`);

  let known = null; // the bars, which are drawn again while a session grows

  /** The bars: their first steps, and where they begin and how wide they are, in percent. */
  function bars() {
    const group = part("bars");
    if (known?.group === group) return known.bars;
    const found = [...group.children].map((link) => {
      const rect = link.querySelector("rect");
      const first = Number(new URLSearchParams(link.getAttribute("href")).get("step"));
      return { first, x: parseFloat(rect.getAttribute("x")), width: parseFloat(rect.getAttribute("width")) };
    });
    known = { group, bars: found };
    return found;
  }

  /** The steps of a bar; the last bar of the whole run ends with the newest step. */
  const stepsOf = (all, index) => (all[index + 1]?.first ?? Math.max(all[index].first + 1, Number(part("bars").dataset.end) + 1)) - all[index].first;

  /** Where a step stands in the timeline, in percent; null outside. */
  function placeOf(step) {
    const all = bars();
    const index = all.findLastIndex((bar) => bar.first <= step);
    if (index < 0 || step >= all[index].first + stepsOf(all, index)) return null;
    const { first, x, width } = all[index];
    return x + (width * (step - first + 0.5)) / stepsOf(all, index);
  }

  /** The step that a place in the timeline stands for. */
  function stepAt(clientX) {
    const box = part("timeline").getBoundingClientRect();
    const place = (100 * (clientX - box.left)) / box.width;
    const all = bars();
    const index = Math.max(0, all.findLastIndex((bar) => bar.x <= place));
    const { first, x, width } = all[index];
    const steps = stepsOf(all, index);
    return first + Math.min(steps - 1, Math.max(0, Math.floor(((place - x) / width) * steps)));
  }

  /** Puts the playhead at a step; what comes after it is paler. */
  function showPlayhead(step) {
    const x = placeOf(step);
    part("cursor").setAttribute("x", `${x ?? 0}%`);
    part("cursor").setAttribute("display", x === null ? "none" : "inline");
    part("veil").setAttribute("x", `${x ?? (step < bars()[0]?.first ? 0 : 100)}%`);
  }

  const actions = {
    position: (detail) => showPlayhead(detail.step),
    places: (detail) => (detail.done = detail.steps.map(placeOf)),
  };
  document.addEventListener("playhead:do", (event) => actions[event.detail.action]?.(event.detail));

  let drag = null;
  let isDragged = false;

  frame.addEventListener("pointerdown", (event) => {
    isDragged = false;
    if (!event.button && event.pointerType !== "touch" && event.target.closest("[data-timeline]")) drag = event.clientX;
  });
  root.addEventListener("pointermove", (event) => {
    if (drag === null) return;
    const box = part("timeline").getBoundingClientRect();
    const [from, to] = [drag, event.clientX].sort((a, b) => a - b);
    isDragged ||= to - from >= MIN_DRAG;
    if (!isDragged) return;
    const selection = part("selection");
    selection.setAttribute("x", Math.max(0, from - box.left));
    selection.setAttribute("width", Math.min(to, box.right) - Math.max(from, box.left));
    selection.removeAttribute("display");
  });
  frame.addEventListener("dragstart", (event) => {
    if (event.target.closest?.("[data-timeline]")) event.preventDefault();
  });
  window.addEventListener("pointerup", (event) => {
    if (drag === null) return;
    const [first, last] = [drag, event.clientX].sort((a, b) => a - b).map(stepAt);
    drag = null;
    if (!isDragged) return;
    part("selection").setAttribute("display", "none");
    send("zoom", { first, last, keepsStep: true });
  });

  frame.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button || !event.target.closest("[data-timeline]")) return;
    const link = event.target.closest("a");
    if (link?.matches(".timeline-take, .mark:not([data-step])")) return; // takes, forks and sub-agents have pages of their own
    event.preventDefault();
    if (!isDragged) send("go", { step: Number(link?.dataset.step) || stepAt(event.clientX) });
  });
}
