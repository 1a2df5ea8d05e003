// Find in the session: n and N move to the next and previous step with the text, which is marked in the step and on
// the timeline. The server finds the steps; without this file, the form and its links do the same.

const MAX_MARKED = 2000; // matches that are marked in one step
const MAX_UNFOLDED = 3; // folded texts that are loaded to reach a match
const MAX_PARTS = 20; // requests that one search makes until a step is found

const root = document.querySelector("[data-playhead]");
const form = document.querySelector("form[data-find]");
const panel = document.getElementById("step");

if (form && panel) {
  const field = form.elements.find;
  const frame = document.getElementById("found");
  const at = () => Number(panel.querySelector("[data-at]").dataset.at);
  const status = () => frame.querySelector("[data-found]");
  const steps = () => (status()?.dataset.found || "").split(",").filter(Boolean).map(Number);
  const move = (name) => frame.querySelector(`[data-find-move="${name}"]`);

  // As the server compares: in lower case, with as many characters as before.
  const lowered = (text) => [...text].map((each) => (each === "\u0130" ? "i" : each.toLowerCase())).join("").replaceAll("\u03c2", "\u03c3");
  const folded = (text) => (/^[\x00-\x7f]*$/.test(text) ? text.toLowerCase() : lowered(text));

  /** The page's address with the search, and the searches that follow. */
  const query = (after) => {
    const { asOf, filter, view, find } = root.dataset;
    return `step=${at()}${asOf}${filter}${view}${find}${after ? `&find_after=${after}` : ""}`;
  };

  const load = (after) => loadInto(frame, `${root.dataset.page}/find?${query(after)}`);

  async function search(after = "") {
    const text = field.value.trim();
    root.dataset.find = text && `&find=${encodeURIComponent(text)}`;
    history.replaceState(history.state, "", `${root.dataset.page}?${query()}`);
    htmx.trigger(frame, "htmx:abort"); // the answer for another text
    if (!text) frame.replaceChildren();
    else await load(after);
    // A rare text may be far into a long session, and one request searches only a part.
    for (let part = 0; part < MAX_PARTS && text === field.value.trim() && !steps().length && status()?.dataset.more; part += 1) {
      await load(status().dataset.more);
    }
    show();
  }

  /** Makes count, links and marks agree with the step in view. */
  function show() {
    const found = steps();
    if (found.length) {
      const here = found.indexOf(at());
      const total = found.length.toLocaleString("en");
      frame.querySelector("[data-found-place]").textContent = here < 0 ? total : `${(here + 1).toLocaleString("en")} of ${total}`;
      for (const name of ["next", "previous"]) link(name, stepFrom(at(), name));
      for (const row of frame.querySelectorAll(".found-steps a")) markRow(row);
    }
    markTimeline(found);
    markText();
  }

  /** The next or previous step with the text; 0 where that is not known. */
  function stepFrom(from, name) {
    const found = steps();
    const isWhole = !status().dataset.more && status().dataset.after === "0";
    const isNext = name === "next";
    const known = isNext ? found.find((step) => step > from) : found.findLast((step) => step < from);
    return known ?? (isWhole && found.length ? found.at(isNext ? 0 : -1) : 0);
  }

  function markRow(row) {
    if (Number(row.dataset.step) === at()) row.setAttribute("aria-current", "step");
    else row.removeAttribute("aria-current");
  }

  function link(name, step) {
    const button = move(name);
    const searchesOn = name === "next" && status().dataset.more;
    if (step || searchesOn) button.removeAttribute("aria-disabled");
    else button.setAttribute("aria-disabled", "true");
    if (step) {
      button.dataset.step = step;
      button.href = `${root.dataset.page}?${query().replace(/^step=\d+/, `step=${step}`)}`;
    } else {
      delete button.dataset.step;
      button.removeAttribute("href");
    }
  }

  /** Goes to the next or previous step; where the known ones end, searches on first. */
  async function go(name, since = send("ask")) {
    if (!status()) return;
    const from = send("wanted"); // another step may be on its way
    if (name === "next" && !stepFrom(from, name) && status().dataset.more) {
      await search(status().dataset.more);
      if (steps().includes(from)) return;
    }
    const step = status() && stepFrom(from, name);
    if (!step || since !== send("asked")) return;
    startReveal();
    send("go", { step, since });
  }

  // The text of the step.
  let reveal = false; // whether the first match is to be scrolled into view
  let unfolded = 0; // folded texts that were loaded for it

  function startReveal() {
    [reveal, unfolded] = [true, 0];
  }

  function rangesIn(nodes, needle, room) {
    const text = folded(nodes.map((node) => node.data).join(""));
    const ranges = [];
    let index = 0;
    let before = 0; // characters in the nodes before nodes[index]
    const place = (offset) => {
      while (offset - before > nodes[index].data.length) before += nodes[index++].data.length;
      return [nodes[index], offset - before];
    };
    for (let start = text.indexOf(needle); start >= 0 && ranges.length < room; start = text.indexOf(needle, start + needle.length)) {
      const [startContainer, startOffset] = place(start);
      const [endContainer, endOffset] = place(start + needle.length);
      // Each change of the page would update 2,000 other ranges, which takes milliseconds.
      ranges.push(new StaticRange({ startContainer, startOffset, endContainer, endOffset }));
    }
    return ranges;
  }

  /** Opens the folded parts that contain an element. */
  function unfold(element) {
    for (let part = element.closest("details"); part; part = part.parentElement.closest("details")) part.open = true;
  }

  function markText() {
    if (!window.Highlight) return; // an older browser: count, list and timeline still lead to the steps
    const needle = root.dataset.find ? folded(field.value.trim()) : "";
    const ranges = [];
    if (needle) {
      for (const nodes of textBlocks(panel)) ranges.push(...rangesIn(nodes, needle, MAX_MARKED - ranges.length));
    }
    CSS.highlights.set("find", new Highlight(...ranges));
    if (unfoldsFor(ranges)) return;
    if (reveal && ranges.length) {
      const isShown = (range) => range.startContainer.parentElement.checkVisibility();
      const range = ranges.find(isShown) ?? ranges[0];
      const match = range.startContainer.parentElement;
      if (!isShown(range)) unfold(match);
      match.scrollIntoView({ block: "nearest" });
      scrollTo(range);
    }
    reveal = false;
  }

  /** Loads folded text until it has a match, or says that the match is there. Returns whether a text is loading. */
  function unfoldsFor(ranges) {
    const link = !ranges.length && steps().includes(at()) && panel.querySelector("a.unfold");
    const loads = link && reveal && send("wanted") === at() && ("opened" in link.dataset || unfolded < MAX_UNFOLDED);
    const note = frame.querySelector("[data-find-folded]");
    if (note) note.hidden = !link || loads;
    if (loads && !("opened" in link.dataset)) {
      link.dataset.opened = "";
      unfolded += 1;
      link.click(); // the text arrives as a change of the step, after which this is called again
    }
    return loads;
  }

  /** Scrolls to a match within a long text, of which only a part may be in view. The text may scroll as well. */
  function scrollTo(match) {
    const range = new Range();
    range.setStart(match.startContainer, match.startOffset);
    range.setEnd(match.endContainer, match.endOffset);
    for (let box = range.startContainer.parentElement; box !== panel; box = box.parentElement) scrollIn(box, box, range);
    scrollIn(panel.scrollHeight > panel.clientHeight ? panel : document.scrollingElement, panel, range);
  }

  function scrollIn(scroller, box, range) {
    if (scroller.scrollHeight <= scroller.clientHeight) return;
    const [match, seen] = [range.getBoundingClientRect(), box.getBoundingClientRect()];
    const [top, bottom] = [Math.max(seen.top, 0), Math.min(seen.bottom, innerHeight)];
    if (match.top < top || match.bottom > bottom) scroller.scrollTop += match.top - top - (bottom - top) / 3;
  }

  /** Marks the steps on the timeline, where it shows them, and on the minimap. */
  function markTimeline(found) {
    markMap(found);
    for (const key of document.querySelectorAll("[data-hit-key]")) key.hidden = !found.length;
    const layer = document.querySelector("#timeline [data-hits]");
    if (!layer) return;
    const places = new Set(send("places", { steps: found }).filter((x) => x !== null).map((x) => x.toFixed(1))); // closer marks are one
    layer.replaceChildren(...[...places].map(hit));
  }

  /** As dashboard/timeline/minimap.py does. */
  function markMap(found) {
    const map = document.querySelector("#timeline [data-map]");
    if (!map) return;
    const total = Number(map.dataset.steps);
    const counts = new Map();
    for (const step of found) {
      const slot = Math.floor(((step - 1) * 250) / total);
      counts.set(slot, (counts.get(slot) ?? 0) + 1);
    }
    const most = Math.max(1, ...counts.values());
    const column = ([slot, count]) => [4 * slot, 5 + Math.round((2 * count) / most)];
    const path = [...counts].map(column).map(([x, height]) => `M${x} 7v-${height}h4v${height}z`);
    map.querySelector("[data-map-hits]").setAttribute("d", path.join(""));
    const lane = map.querySelector("[data-map-lane]");
    if (!found.length) return void lane.setAttribute("display", "none");
    lane.removeAttribute("display");
    const percent = (step) => `${((100 * step) / total).toFixed(2)}%`;
    const first = status().dataset.after === "0" ? 1 : found[0];
    const last = status().dataset.more ? found.at(-1) : total;
    map.querySelector("[data-map-unsearched=before]").setAttribute("width", percent(first - 1));
    map.querySelector("[data-map-unsearched=after]").setAttribute("x", percent(last));
  }

  function hit(x) {
    const mark = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    mark.setAttribute("x", `${x}%`);
    return mark;
  }

  const searched = () => new URLSearchParams(root.dataset.find).get("find");
  const isSearched = () => steps().length > 0 && searched() === field.value.trim();

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const since = send("ask");
    field.blur();
    if (isSearched()) return void go("next", since);
    await search();
    if (!steps().length) return;
    if (!steps().includes(send("wanted"))) return void go("next", since);
    startReveal();
    show();
  });
  field.addEventListener("keydown", (event) => {
    if (event.key === "Escape") field.blur();
    if (event.key !== "Enter" || !event.shiftKey || event.isComposing || !isSearched()) return;
    event.preventDefault(); // else the form is submitted, which goes to the next step
    event.stopPropagation();
    field.blur();
    go("previous");
  });
  // The field has lost the focus, so that keys such as n work. Enter is not theirs while nothing has the focus.
  document.addEventListener("keydown", (event) => {
    const isFree = event.target === document.body && !document.querySelector("dialog[open]");
    if (event.key !== "Enter" || event.ctrlKey || event.metaKey || event.altKey || !isFree || !isSearched()) return;
    event.preventDefault();
    go(event.shiftKey ? "previous" : "next");
  });
  frame.addEventListener("click", (event) => {
    if (event.target.closest("[data-find-folded]")) {
      startReveal();
      show();
    }
    const target = event.target.closest("a");
    if (event.ctrlKey || event.metaKey || event.shiftKey || !target) return;
    if (target.matches("[data-find-clear]")) {
      event.preventDefault();
      field.value = "";
      search();
    } else if (target.matches("[data-find-more]")) {
      event.preventDefault();
      search(new URL(target.href).searchParams.get("find_after") ?? "");
    } else if (target.matches("[data-find-move=next]") && !target.dataset.step) {
      event.preventDefault();
      go("next");
    } else if (target.dataset.step) {
      startReveal(); // the playhead follows the link
      target.closest("[data-menu]")?.removeAttribute("open");
    }
  });
  document.addEventListener("playhead:do", (event) => {
    if (event.detail.action === "find-next") go("next");
    if (event.detail.action === "find-previous") go("previous");
  });
  // After a change of the step, of folded text or of the part of the timeline.
  const observer = new MutationObserver((changes) => {
    if (changes.some((change) => !change.target.matches("[data-hits]"))) show();
  });
  for (const part of [panel, document.getElementById("timeline")]) observer.observe(part, { childList: true, subtree: true });
  window.addEventListener("popstate", (event) => {
    if (!event.state) return; // a link to a part of this page
    field.value = new URLSearchParams(location.search).get("find") ?? "";
    search();
  });
  if (location.hash === `#${field.id}`) field.focus();
  show();
}
