// The single keys of a page. The help that ? shows has their table; the server makes both from one list.

const help = document.querySelector("dialog[data-keys]");
const table = new Map([...help.querySelectorAll("[data-key]")].map((each) => [each.dataset.key, each.dataset]));

/** The data of every key in the table. */
window.keyTable = [...table.values()];

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

/** Calls `act` with the data of each pressed key of the table and the event, unless a field or dialog receives it. */
window.onKey = (act) =>
  document.addEventListener("keydown", (event) => {
    const busy = event.isComposing || event.target.closest(TYPED) || document.querySelector("dialog[open]");
    const theirs = event.key === " " ? PRESSED : event.key.startsWith("Arrow") ? "[type=range], [type=radio]" : "";
    const isTheirs = theirs && !byPointer && event.target.closest(theirs);
    const found = table.get(keyOf(event));
    if (busy || isTheirs || event.ctrlKey || event.metaKey || event.altKey || !found || !switchOf.checked) return;
    event.preventDefault();
    if (found.action === "help") help.showModal();
    else act(found, event);
  });

document.addEventListener("click", (event) => event.target.closest("[data-help]") && help.showModal());
