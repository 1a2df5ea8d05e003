// Marks the names of the step's calls, once somebody has opened "Where do these names come from?". A mark opens a box with
// the section's text about the name. After that, the section of each viewed step is loaded automatically.

const WANTED = "playhead-origins";
const UNMARKED = ".result, a, button, summary, .visually-hidden";
const MAX_MARKED = 2000; // marks of one step
const MAX_TRIED = 200000; // places in one step's texts where a name is looked at, also within longer words
const RESTING = 500; // milliseconds: steps that are only passed on the way are not asked for
const step = document.getElementById("step");
let waiting = 0;
let marked = []; // lines with marks

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
function placeOf(text, name, from, left) {
  for (let at = text.indexOf(name, from); at >= 0 && left.tries > 0; at = text.indexOf(name, at + 1)) {
    left.tries -= 1;
    const around = `${text[at - 1] ?? " "}${text[at + name.length] ?? " "}`;
    if (!/[\p{L}\p{N}_]/u.test(around)) return at;
  }
  return -1;
}

// The places of names in a text, the last first; of two overlapping names only the longer one, which comes first.
function placesIn(text, names, left) {
  const places = [];
  const isTaken = new Uint8Array(text.length);
  for (const { name, state } of names) {
    for (let start = placeOf(text, name, 0, left); start >= 0; start = placeOf(text, name, start + name.length, left)) {
      const end = start + name.length;
      if (!left.marks) break;
      if (isTaken[start] || isTaken[end - 1]) continue;
      isTaken.fill(1, start, end);
      places.push({ start, end, name, state });
      left.marks -= 1;
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

// Marks the names in text nodes of one line. A coloured name may span several nodes.
function markIn(nodes, names, left) {
  let length = 0;
  const starts = nodes.map((node) => (length += node.length) - node.length);
  const text = nodes.map((node) => (node.parentElement.closest(UNMARKED) ? " ".repeat(node.length) : node.data)).join("");
  const places = placesIn(text, names, left);
  if (!places.length) return;
  let last = nodes.length - 1;
  const line = commonParent(nodes[0], nodes[last]);
  marked.push(line);
  changeOutside(line, () => {
    for (const { start, end, name, state } of places) {
      while (starts[last] >= end) last -= 1;
      let first = last;
      while (starts[first] > start) first -= 1;
      const parent = commonParent(nodes[first], nodes[last]);
      const mark = markOf(name, state);
      // A range would count all nodes before the place.
      parent.insertBefore(mark, dividedAt(parent, nodes[last], end - starts[last]));
      moveUntil(mark, dividedAt(parent, nodes[first], start - starts[first]), mark);
    }
  });
}

function unmark(line) {
  changeOutside(line, (content) => {
    for (const mark of content.querySelectorAll(".origin-mark")) mark.replaceWith(...mark.childNodes);
    content.normalize();
  });
}

// Changes what a line contains while it is outside of the page, because Chromium takes milliseconds for each change of a long
// line that it has laid out.
function changeOutside(line, change) {
  const content = new DocumentFragment();
  moveUntil(content, line.firstChild, null);
  change(content);
  line.append(content);
}

function commonParent(first, last) {
  let parent = first.parentNode;
  while (!parent.contains(last)) parent = parent.parentNode;
  return parent;
}

// Divides the elements between a parent and a text node at a place in the text. Returns the parent's child after it, or null.
function dividedAt(parent, node, offset) {
  let around = node.parentNode;
  let after = offset ? node.nextSibling : node;
  if (offset && offset < node.length) after = node.splitText(offset);
  for (; around !== parent; around = around.parentNode) {
    if (!after) after = around.nextSibling;
    else if (!after.previousSibling) after = around;
    else {
      const rest = around.cloneNode(false);
      moveUntil(rest, after, null);
      around.after(rest);
      after = rest;
    }
  }
  return after;
}

// Moves a node and those that follow it, until another one, to the end of an element.
function moveUntil(element, node, end) {
  while (node !== end) {
    const next = node.nextSibling;
    element.append(node);
    node = next;
  }
}

function markNames() {
  const items = [...step.querySelectorAll(".origins [data-name]")];
  const names = items.map((item) => ({ name: item.dataset.name, state: item.dataset.state }));
  names.sort((one, other) => other.name.length - one.name.length);
  for (const line of marked) unmark(line);
  marked = [];
  const left = { marks: MAX_MARKED, tries: MAX_TRIED };
  for (const call of step.querySelectorAll(".action")) {
    for (const nodes of [...textBlocks(call)]) markIn(nodes, names, left);
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
