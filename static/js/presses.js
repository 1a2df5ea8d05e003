// A browser sends a click only if the same element is under the mouse when the button goes down and up. Between the two, an
// answer may replace the element or move it away. This file then sends the click, so that none is lost.

const CONTROL = "a[href], button, summary, label, input[type=checkbox], input[type=radio]";
const MAX_MOVE = 5; // pixels; a reader who moves further wants no click

let press = null;

/** What a control has in common with its replacement, and with no control that does something else. */
function identity(control) {
  const own = ["href", "hx-get", "for", "name", "value", "formaction"].map((name) => control.getAttribute(name));
  const text = control.hasAttribute("href") ? "" : control.textContent.trim();
  return JSON.stringify([control.localName, control.form?.getAttribute("action"), text, ...own]);
}

/** The control that has replaced one; null if there is none, or if several may be meant. */
function replacement(control, x, y) {
  const same = [...document.querySelectorAll(control.localName)].filter((each) => identity(each) === identity(control));
  const under = same.find((each) => each.contains(document.elementFromPoint(x, y)));
  if (control.hasAttribute("href")) return under ?? same[0] ?? null; // links to one address do the same
  return same.length === 1 ? same[0] : null;
}

document.addEventListener("pointerdown", (event) => {
  const control = event.button || event.pointerType === "touch" ? null : event.target.closest(CONTROL);
  press = control && { control, x: event.clientX, y: event.clientY };
}, true);
document.addEventListener("pointercancel", () => (press = null), true);

document.addEventListener("pointerup", (event) => {
  const { clientX, clientY, ctrlKey, metaKey, shiftKey, altKey, target } = event;
  const { control, x, y } = press ?? {};
  press = null;
  if (!control || Math.hypot(clientX - x, clientY - y) > MAX_MOVE) return;
  if (control.isConnected && control.contains(target)) return; // the browser sends the click
  const found = control.isConnected ? control : replacement(control, clientX, clientY);
  if (!found || found.disabled) return;
  const options = { bubbles: true, cancelable: true, view: window, clientX, clientY, ctrlKey, metaKey, shiftKey, altKey };
  setTimeout(() => found.dispatchEvent(new MouseEvent("click", options)));
}, true);
