// The keys of a run: jumps to steps that the server names, and actions of the other scripts.

const root = document.querySelector("[data-playhead]");
const MAX_PARTS = 20; // requests of one jump; each searches a part of a long session
const NOTE = 5000; // milliseconds that a note stays

const at = () => document.querySelector("#step [data-at]")?.dataset.at;

// The palette requests jumps by name.
const JUMPS = new Set(keyTable.map((each) => each.jump).filter(Boolean));
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
let since; // when the first of these jumps was asked for: all are dropped once the reader asks for another move

/** Goes to the step that the server names, after the jumps before it have arrived. */
function jump(to) {
  if (!waiting || since !== send("asked")) since = send("ask");
  const mine = since;
  waiting += 1;
  jumps = jumps
    .then(() => follow(to, mine))
    .catch(() => say("The server cannot be reached. Check the connection, then try again."))
    .finally(() => (waiting -= 1));
}

async function follow(to, mine) {
  const isWanted = () => mine === send("asked");
  const { step, reason } = await search(to, isWanted);
  if (!isWanted()) return;
  if (step) return send("go", { step, since: mine, fragment: to.endsWith("-error") ? "failure" : "" });
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

onKey((found, event) => {
  if (found.jump) return void ((event.repeat && waiting) || jump(found.jump));
  send("ask");
  if (found.action === "find") document.querySelector("[data-search]")?.focus();
  else send(found.action, { repeat: event.repeat });
});

root.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-jump]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  jump(link.dataset.jump);
});
