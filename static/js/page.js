// On every page: menus that close, errors that are told, forms that say what they will do, and "/" for the search.

const notice = document.getElementById("notice");

export function tell(message, of = "") {
  notice.dataset.of = of;
  notice.querySelector("span").textContent = message;
  notice.hidden = false;
}

function messageOf(xhr) {
  const isText = xhr.getResponseHeader("Content-Type")?.startsWith("text/plain");
  return isText ? xhr.responseText : `The server answered with an error (${xhr.status}).`;
}

// What loads by itself puts out of sight only what it told itself.
const itself = (event) => event.detail.target?.closest("#news, [id^=watch], [id^=context]")?.id ?? "";

document.addEventListener("htmx:responseError", (event) => tell(messageOf(event.detail.xhr), itself(event)));
document.addEventListener("htmx:sendError", (event) => tell("The server cannot be reached. Check the connection, then try again.", itself(event)));
document.addEventListener("htmx:timeout", (event) => tell("The server took too long to answer. Try again.", itself(event)));
document.addEventListener("htmx:swapError", (event) => tell("The answer could not be shown. Reload the page.", itself(event)));
document.addEventListener("htmx:afterRequest", (event) => {
  if (event.detail.successful && (!itself(event) || itself(event) === notice.dataset.of)) notice.hidden = true;
});

document.addEventListener("click", (event) => {
  if (event.target.closest("[data-dismiss]")) notice.hidden = true;
  for (const menu of document.querySelectorAll("[data-menu][open]")) {
    if (!menu.contains(event.target)) menu.open = false;
  }
});

document.addEventListener("submit", (event) => {
  const button = event.target.matches("[data-busy]") && event.target.querySelector("button");
  if (button) {
    button.textContent = event.target.dataset.busy;
    button.disabled = true;
  }
});

// What a form has announced no longer holds once something is typed. Until the server has said what holds now, it
// cannot be pressed; and an answer that is on its way is about something else.
document.addEventListener("input", (event) => {
  const form = event.target.closest("[data-outdates]");
  if (!form) return;
  htmx.trigger(form, "htmx:abort");
  for (const button of document.querySelectorAll(`${form.dataset.outdates} button`)) button.disabled = true;
});

// When the server could not say what holds now, it can be asked again without typing anything.
function offerAgain(event) {
  const form = event.detail.elt?.closest?.("[data-outdates]");
  const place = form && document.querySelector(form.dataset.outdates);
  if (!place) return;
  const known = place.querySelector("[data-again]");
  if (known) return void (known.disabled = false);
  const button = Object.assign(document.createElement("button"), { type: "button", className: "button", textContent: "Try again" });
  button.dataset.again = "";
  button.addEventListener("click", () => htmx.trigger(form, "input"));
  place.append(button);
}
for (const name of ["responseError", "sendError", "timeout"]) document.addEventListener(`htmx:${name}`, offerAgain);

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    const menu = document.querySelector("[data-menu][open]");
    if (menu) {
      menu.open = false;
      menu.querySelector("summary").focus();
    }
  }
  if (event.key === "/" && !event.target.closest("input, textarea, select")) {
    const search = document.querySelector("[data-search]");
    if (search) {
      event.preventDefault();
      search.focus();
    }
  }
});
