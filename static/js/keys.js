// The keys of the session page. The help that ? shows contains the table of keys; the server makes both from one list.

const help = document.querySelector("dialog[data-keys]");
const root = document.querySelector("[data-playhead]");
const MAX_PARTS = 20; // requests of one jump; each searches a part of a long session
const NOTE = 5000; // milliseconds that a note stays

const table = new Map([...help.querySelectorAll("[data-key]")].map((each) => [each.dataset.key, each.dataset]));
const at = () => document.querySelector("#step [data-at]")?.dataset.at;

// The palette requests jumps by name.
const JUMPS = new Set([...table.values()].map((each) => each.jump).filter(Boolean));
document.addEventListener("playhead:do", (event) => JUMPS.has(event.detail.action) && jump(event.detail.action));

let noteTimer = null;

/** Shows a short note, which screen readers read. */
function say(text) {
  const note = document.getElementById("jump-note");
  note.textContent = text;
  clearTimeout(noteTimer);
  noteTimer = setTimeout(() => (note.textContent = ""), NOTE);
}

let jumps = Promise.resolve(); // those that were asked for, one after another
let waiting = 0;
let latest = 0; // grows with every key that is no jump: jumps that were asked for before it are dropped

/** Goes to the step that the server names, after the jumps before it have arrived. */
function jump(to) {
  const mine = latest;
  waiting += 1;
  jumps = jumps
    .then(() => mine === latest && follow(to, () => mine === latest))
    .catch(() => say("The server cannot be reached. Check the connection, then try again."))
    .finally(() => (waiting -= 1));
}

async function follow(to, isWanted) {
  const { step, reason } = await search(to, isWanted);
  if (!isWanted()) return;
  if (step) return send("go", { step });
  say(reason);
}

/** The step to which a jump leads, or the reason why it leads nowhere. */
async function search(to, isWanted = () => true) {
  let step = at();
  let found = { reason: "" };
  for (let part = 0; part < MAX_PARTS && step && isWanted(); part += 1) {
    const { page, asOf, filter } = root.dataset;
    const address = `${page}/jump?step=${step}${asOf}${filter}&to=${to}`;
    const answer = await fetch(address, { headers: { "HX-Request": "true" } });
    if (!answer.ok) return { reason: await answer.text(), isRefused: true };
    found = await answer.json();
    if (found.step) break;
    step = found.searched_to;
  }
  return found;
}

document.addEventListener("playhead:do", (event) => {
  if (event.detail.action === "search-jump") event.detail.done = search(event.detail.to);
});

const own = {
  help: () => help.showModal(),
  find: () => document.querySelector("[data-search]")?.focus(),
};

// Every key can be switched off, for people who speak to their computer or whose screen reader uses single keys.
const switchOf = help.querySelector("[data-keys-on]");
switchOf.checked = kept("keys") !== "off";
switchOf.addEventListener("change", () => kept("keys", switchOf.checked ? "on" : "off"));

/** The key as the table has it: of a keyboard with other letters the Latin one at its place; caps lock changes nothing. */
function keyOf(event) {
  const latin = /^Key[A-Z]$/.test(event.code) && event.key.length === 1 && event.key > "\x7f" ? event.code.at(-1) : event.key;
  if (latin === event.key && !event.getModifierState("CapsLock")) return event.key;
  return event.shiftKey ? latin.toUpperCase() : latin.length === 1 ? latin.toLowerCase() : latin;
}

// A control that was clicked keeps the focus, but not the keys; a control that was reached by keyboard keeps both.
const TYPED = "input:not([type=range], [type=radio], [type=checkbox]), textarea, select, dialog";
const PRESSED = "button, summary, [type=radio], [type=checkbox]";
let byPointer = false;
document.addEventListener("pointerdown", () => (byPointer = true), true);
document.addEventListener("keydown", (event) => (byPointer &&= event.key !== "Tab"), true);

document.addEventListener("keydown", (event) => {
  const busy = event.isComposing || event.target.closest(TYPED) || document.querySelector("dialog[open]");
  const theirs = event.key === " " ? PRESSED : event.key.startsWith("Arrow") ? "[type=range], [type=radio]" : "";
  const isTheirs = theirs && !byPointer && event.target.closest(theirs);
  const found = table.get(keyOf(event));
  if (busy || isTheirs || event.ctrlKey || event.metaKey || event.altKey || !found || !switchOf.checked) return;
  event.preventDefault();
  if (found.jump) return void ((event.repeat && waiting) || jump(found.jump));
  latest += 1;
  if (own[found.action]) own[found.action]();
  else send(found.action);
});

root.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-jump]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  jump(link.dataset.jump);
});
