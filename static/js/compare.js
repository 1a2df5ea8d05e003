// The page that compares two runs: buttons and the keys n and p move between differences.

const list = document.getElementById("pairs");
const bar = document.querySelector("[data-pair-jumps]");
const note = document.getElementById("pair-note");
const MAX_PAGES = 20; // of pairs that one jump loads
const moves = {
  first: () => go(0),
  next: () => go(current ? different().indexOf(current) + 1 : 0),
  previous: () => go(current ? different().indexOf(current) - 1 : -1),
};
const KEYS = { n: "next", p: "previous" };
let current = null;
let busy = false;

const different = () => [...list.querySelectorAll(".pair:not(.pair-same)")];

function mark(row) {
  current?.removeAttribute("aria-current");
  current = row;
  row.setAttribute("aria-current", "true");
  row.querySelector("a").focus({ preventScroll: true });
  row.scrollIntoView({ block: "center" });
  note.textContent = "";
}

/** Loads the next page of pairs. False where there is none. */
async function load() {
  const more = list.querySelector(".more a");
  if (!more) return false;
  const item = more.closest("li");
  await htmx.ajax("GET", more.href, { source: more, target: item, swap: "outerHTML" });
  return !item.isConnected;
}

/** Goes to the difference with this index; loads further pairs until it is there. */
async function go(index) {
  if (index < 0) return void (note.textContent = "This is the first difference on this page.");
  for (let page = 0; different().length <= index && page < MAX_PAGES; page += 1) {
    note.textContent = "Loading…";
    if (!(await load())) break;
  }
  const row = different()[index];
  if (row) mark(row);
  else note.textContent = list.querySelector(".more a") ? "No difference in these pairs. Load more pairs." : "No further difference.";
}

async function move(name) {
  if (busy) return;
  busy = true;
  await moves[name]().catch(() => (note.textContent = ""));
  busy = false;
}

bar.hidden = false;
bar.addEventListener("click", (event) => {
  const button = event.target.closest("[data-difference]");
  if (button) move(button.dataset.difference);
});
document.addEventListener("keydown", (event) => {
  const isTyped = event.isComposing || event.target.closest("input, textarea, select, dialog") || document.querySelector("dialog[open]");
  const name = KEYS[event.key];
  if (!name || isTyped || event.ctrlKey || event.metaKey || event.altKey || kept("keys") === "off") return;
  event.preventDefault();
  move(name);
});
