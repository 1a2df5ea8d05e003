// Selects sessions in the list: all of a page, or a range with Shift. A bar shows actions for the selected sessions.
// The selection stays when the list is loaded again.

const bar = document.getElementById("bulk");
const chosen = new Set();
let last = null; // the box that was clicked last, from which Shift chooses a range

const boxes = () => [...document.querySelectorAll("#results input[name=session]")];

function show() {
  const all = boxes();
  const count = all.filter((box) => box.checked).length;
  bar.hidden = !count;
  bar.querySelector("[data-bulk-count]").textContent = count;
  bar.querySelector("[data-bulk-pair]").hidden = count !== 2;
  const every = document.querySelector("#results [data-bulk-all]");
  if (every) {
    every.checked = count > 0 && count === all.length;
    every.indeterminate = count > 0 && count < all.length;
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
  for (const box of all) box.checked = chosen.has(box.value);
  chosen.clear();
  all.forEach(keep);
  show();
});

boxes().forEach(keep); // a browser that goes back keeps the boxes
show();
