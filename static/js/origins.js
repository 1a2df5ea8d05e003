// Marks the names of the step's calls, once somebody has opened "Where do these names come from?". A mark opens a box with
// the section's text about the name. After that, the section of each viewed step is loaded automatically.

const WANTED = "playhead-origins";
const UNMARKED = ".result, a, button, summary, .visually-hidden";
const MAX_MARKED = 2000; // marks of one step
const RESTING = 500; // milliseconds: steps that are only passed on the way are not asked for
const step = document.getElementById("step");
const range = new Range(); // only one, because each change of the page updates all ranges
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

// The places of names in a text, the last first; of two overlapping names only the longer one, which comes first.
function placesIn(text, names, room) {
  const places = [];
  const isTaken = new Uint8Array(text.length);
  for (const { name, state } of names) {
    for (let start = placeOf(text, name); start >= 0; start = placeOf(text, name, start + name.length)) {
      const end = start + name.length;
      if (places.length === room) break;
      if (isTaken[start] || isTaken[end - 1]) continue;
      isTaken.fill(1, start, end);
      places.push({ start, end, name, state });
    }
  }
  return places.sort((one, other) => other.start - one.start);
}

function markOf(name, state) {
  const mark = document.createElement("button");
  mark.type = "button";
  mark.className = `origin-mark is-${state}`;
  mark.dataset.of = name;
  mark.title = state === "nowhere" ? "From nowhere" : "Where does this name come from?";
  return mark;
}

// Puts marks into a text node, the last first, and returns the text node before them. The node is replaced once, because
// Chromium takes milliseconds for each change of a long text that it has laid out.
function divide(node, marks) {
  const parts = [];
  let rest = node.data;
  for (const { mark, start, end } of marks) {
    mark.textContent = rest.slice(start, end);
    parts.push(rest.slice(end), mark);
    rest = rest.slice(0, start);
  }
  const before = document.createTextNode(rest);
  node.replaceWith(before, ...parts.reverse());
  return before;
}

// Marks the names in text nodes of one line, and returns their number. A coloured name may span several nodes.
function markIn(nodes, names, room) {
  let length = 0;
  const starts = nodes.map((node) => (length += node.length) - node.length);
  const text = nodes.map((node) => (node.parentElement.closest(UNMARKED) ? " ".repeat(node.length) : node.data)).join("");
  const places = placesIn(text, names, room);
  let last = nodes.length - 1;
  let index = last;
  let marks = []; // within the node at the index
  const finish = () => {
    if (marks.length) nodes[index] = divide(nodes[index], marks);
    marks = [];
  };
  for (const { start, end, name, state } of places) {
    while (starts[last] >= end) last -= 1;
    let first = last;
    while (starts[first] > start) first -= 1;
    const [from, to] = [start - starts[first], end - starts[last]];
    const mark = markOf(name, state);
    if (first !== index) finish();
    index = first;
    if (first === last) {
      marks.push({ mark, start: from, end: to });
      continue;
    }
    range.setStart(nodes[first], from);
    range.setEnd(nodes[last], to);
    mark.append(range.extractContents());
    range.insertNode(mark);
  }
  finish();
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
