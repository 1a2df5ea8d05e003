// Selects sessions in the list: all of a page, or a range with Shift. A bar shows actions for the selected sessions.
// Once all loaded rows are selected, a button also selects those of later pages, as hidden fields (#bulk-others).
// The selection stays when the list is loaded again.

const bar = document.getElementById("bulk");
const others = document.getElementById("bulk-others");
const chosen = new Set();
let last = null; // the box that was clicked last, from which Shift chooses a range

const results = () => document.getElementById("results");
const boxes = () => [...document.querySelectorAll("#results input[name=session]")];

function show() {
  const all = boxes();
  const checked = all.filter((box) => box.checked).length;
  const { listed } = results().dataset;
  if (!checked) others.replaceChildren(); // the bar disappears, so nothing stays selected
  for (const box of all) others.querySelector(`[value="${box.value}"]`)?.remove(); // its own row counts
  const count = checked + others.children.length;
  const more = bar.querySelector("[data-bulk-listed]");
  more.hidden = !listed || checked < all.length || others.children.length > 0 || all.length >= Number(listed);
  more.querySelector("span").textContent = Number(listed).toLocaleString("en");
  bar.hidden = !count;
  bar.querySelector("[data-bulk-count]").textContent = count;
  bar.querySelector("[data-bulk-pair]").hidden = count !== 2;
  const every = document.querySelector("#results [data-bulk-all]");
  if (every) {
    every.checked = checked > 0 && checked === all.length;
    every.indeterminate = checked > 0 && checked < all.length;
  }
}

function keep(box) {
  if (box.checked) chosen.add(box.value);
  else chosen.delete(box.value);
}

function choose(some, isChosen) {
  for (const box of some) {
    box.checked = isChosen;
    keep(box);
  }
}

/** Selects the sessions of all pages, unless the list or the selection has changed meanwhile. */
async function selectListed() {
  const { query } = results().dataset;
  const isLatest = !(await loadInto(others, `/listed-sessions?${query}`));
  const isSame = isLatest && query === results().dataset.query && boxes().every((box) => box.checked);
  if (!isSame) others.replaceChildren();
  show();
}

document.addEventListener("click", (event) => {
  const { target, shiftKey } = event;
  if (target.matches?.("#results input[name=session]")) {
    const all = boxes();
    const from = shiftKey && last ? all.findIndex((box) => box.value === last) : -1;
    const to = all.indexOf(target);
    if (from >= 0) choose(all.slice(Math.min(from, to), Math.max(from, to) + 1), target.checked);
    keep(target);
    last = target.value;
    show();
  } else if (target.matches?.("#results [data-bulk-all]")) {
    choose(boxes(), target.checked);
    show();
  } else if (target.closest?.("[data-bulk-listed]")) {
    selectListed();
  } else if (target.closest?.("[data-bulk-none]")) {
    choose(boxes(), false);
    show();
  } else if (target.closest?.("[data-bulk-close]")) {
    document.getElementById("bulk-result").replaceChildren();
    event.preventDefault();
  }
});

// A new list has no selected rows: selects them again in the same task as the swap, so that no click comes between.
// If the filters change, sessions that are no longer listed are no longer selected.
document.addEventListener("htmx:afterSwap", ({ target }) => {
  if (!target.closest?.("#results") && !target.querySelector?.("#results")) return;
  const all = boxes();
  if (results().dataset.query !== listedQuery) others.replaceChildren();
  listedQuery = results().dataset.query;
  const isChosen = ({ value }) => chosen.has(value) || others.querySelector(`[value="${value}"]`);
  for (const box of all) box.checked = Boolean(isChosen(box));
  chosen.clear();
  all.forEach(keep);
  show();
});

let listedQuery = results().dataset.query;
boxes().forEach(keep); // a browser that goes back keeps the boxes
show();
