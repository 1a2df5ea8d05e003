// Marks the names of the step's calls, once somebody has opened "Where did it get this from?". A mark opens a box with
// what the section says of the name. From then on the section of each step that is looked at is loaded by itself.

const WANTED = "playhead-origins";
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

// Where a name begins in a text, as a whole word; -1: nowhere.
function placeOf(text, name) {
  for (let at = text.indexOf(name); at >= 0; at = text.indexOf(name, at + 1)) {
    const around = `${text[at - 1] ?? " "}${text[at + name.length] ?? " "}`;
    if (!/[\p{L}\p{N}_]/u.test(around)) return at;
  }
  return -1;
}

function markIn(node, names) {
  for (const { name, state } of names) {
    const at = placeOf(node.data, name);
    if (at < 0) continue;
    const after = node.splitText(at);
    const rest = after.splitText(name.length);
    const mark = document.createElement("button");
    mark.type = "button";
    mark.className = `origin-mark is-${state}`;
    mark.dataset.of = name;
    mark.title = state === "nowhere" ? "From nowhere" : "Where did it get this from?";
    after.replaceWith(mark);
    mark.append(after);
    markIn(node, names);
    markIn(rest, names);
    return;
  }
}

function markNames() {
  const items = [...step.querySelectorAll(".origins [data-name]")];
  const names = items.map((item) => ({ name: item.dataset.name, state: item.dataset.state }));
  names.sort((one, other) => other.name.length - one.name.length);
  for (const mark of step.querySelectorAll(".origin-mark")) mark.replaceWith(...mark.childNodes);
  for (const call of step.querySelectorAll(".action")) {
    call.normalize();
    const walker = document.createTreeWalker(call, NodeFilter.SHOW_TEXT);
    const texts = [];
    while (walker.nextNode()) texts.push(walker.currentNode);
    for (const text of texts) {
      if (!text.parentElement.closest(".result, a, button, summary, .visually-hidden")) markIn(text, names);
    }
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
