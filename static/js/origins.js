// Marks the names of the step's calls, once somebody has opened "Where do these names come from?". A mark opens a box with
// the section's text about the name. After that, the section of each viewed step is loaded automatically.

const WANTED = "playhead-origins";
const UNMARKED = ".result, a, button, summary, .visually-hidden";
const MAX_MARKED = 2000; // marks of one step
const RESTING = 500; // milliseconds: steps that are only passed on the way are not asked for
const step = document.getElementById("step");
let waiting = 0;

const stored = (name, value) => kept(name, value, "sessionStorage");

const box = document.createElement("div");
box.id = "origin-box";
box.popover = "auto";
document.body.append(box);

function show(mark) {
  const item = step.querySelector(`.origins [data-name="${CSS.escape(mark.dataset.of)}"]`);
  if (!item) return;
  box.replaceChildren(...item.cloneNode(true).childNodes);
  htmx.process(box);
  box.showPopover();
  const at = mark.getBoundingClientRect();
  const left = Math.max(8, Math.min(at.left, innerWidth - box.offsetWidth - 8));
  const below = at.bottom + 6 + box.offsetHeight < innerHeight;
  box.style.left = `${left}px`;
  box.style.top = `${below ? at.bottom + 6 : Math.max(8, at.top - 6 - box.offsetHeight)}px`;
}

// The index of a name in a text, as a whole word; -1 if the text does not contain it.
function placeOf(text, name, from = 0) {
  for (let at = text.indexOf(name, from); at >= 0; at = text.indexOf(name, at + 1)) {
    const around = `${text[at - 1] ?? " "}${text[at + name.length] ?? " "}`;
    if (!/[\p{L}\p{N}_]/u.test(around)) return at;
  }
  return -1;
}

// The places of names in a text, the last first; of two overlapping names only the longer one.
function placesIn(text, names, room) {
  const places = [];
  for (const { name, state } of names) {
    for (let start = placeOf(text, name); start >= 0; start = placeOf(text, name, start + name.length)) {
      const end = start + name.length;
      if (places.length === room) break;
      if (places.every((place) => end <= place.start || start >= place.end)) places.push({ start, end, name, state });
    }
  }
  return places.sort((one, other) => other.start - one.start);
}

// Moves the text between two places into a mark. Ranges in one long text are slow: 4 ms for each mark in Chromium.
function enclose(mark, first, start, last, end) {
  if (first === last) {
    const rest = first.splitText(end);
    mark.append(first.splitText(start));
    rest.before(mark);
    return;
  }
  const range = new Range();
  range.setStart(first, start);
  range.setEnd(last, end);
  mark.append(range.extractContents());
  range.insertNode(mark);
}

// Marks the names in text nodes of one line, and returns their number. A coloured name may span several nodes.
function markIn(nodes, names, room) {
  let length = 0;
  const ends = nodes.map((node) => (length += node.length));
  const text = nodes.map((node) => (node.parentElement.closest(UNMARKED) ? " ".repeat(node.length) : node.data)).join("");
  const places = placesIn(text, names, room);
  for (const { start, end, name, state } of places) {
    const first = ends.findIndex((each) => each > start);
    const last = ends.findIndex((each) => each >= end);
    const mark = document.createElement("button");
    mark.type = "button";
    mark.className = `origin-mark is-${state}`;
    mark.dataset.of = name;
    mark.title = state === "nowhere" ? "From nowhere" : "Where does this name come from?";
    enclose(mark, nodes[first], start - (ends[first - 1] ?? 0), nodes[last], end - (ends[last - 1] ?? 0));
  }
  return places.length;
}

function markNames() {
  const items = [...step.querySelectorAll(".origins [data-name]")];
  const names = items.map((item) => ({ name: item.dataset.name, state: item.dataset.state }));
  names.sort((one, other) => other.name.length - one.name.length);
  for (const mark of step.querySelectorAll(".origin-mark")) mark.replaceWith(...mark.childNodes);
  let room = MAX_MARKED;
  for (const call of step.querySelectorAll(".action")) {
    call.normalize();
    for (const nodes of [...textBlocks(call)]) room -= markIn(nodes, names, room);
  }
}

if (step) {
  step.addEventListener("toggle", (event) => {
    if (event.target.matches("[data-origins]") && event.target.open) stored(WANTED, "1");
  }, true);
  document.addEventListener("htmx:afterSwap", (event) => {
    if (event.target.matches?.(".origins-body")) markNames();
  });
  document.addEventListener("click", (event) => {
    const mark = event.target.closest?.(".origin-mark");
    if (mark) show(mark);
  });
  const rest = () => {
    clearTimeout(waiting);
    if (stored(WANTED)) waiting = setTimeout(() => load(step.querySelector("[data-origins]:not([open])")), RESTING);
  };
  const load = (section) => {
    const body = section?.querySelector(".origins-body");
    if (body?.querySelector(".loading")) loadInto(body, section.getAttribute("hx-get"));
  };
  new MutationObserver(rest).observe(step, { childList: true });
  rest();
}
