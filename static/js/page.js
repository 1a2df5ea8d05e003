// On every page: menus that close, errors that are told, and "/" for the search.

const notice = document.getElementById("notice");

export function tell(message) {
  notice.querySelector("span").textContent = message;
  notice.hidden = false;
}

function messageOf(xhr) {
  const isText = xhr.getResponseHeader("Content-Type")?.startsWith("text/plain");
  return isText ? xhr.responseText : `The server answered with an error (${xhr.status}).`;
}

document.addEventListener("htmx:responseError", (event) => tell(messageOf(event.detail.xhr)));
document.addEventListener("htmx:sendError", () => tell("The server cannot be reached. Check the connection, then try again."));
document.addEventListener("htmx:timeout", () => tell("The server took too long to answer. Try again."));
document.addEventListener("htmx:swapError", () => tell("The answer could not be shown. Reload the page."));
document.addEventListener("htmx:afterRequest", (event) => {
  if (event.detail.successful && !event.detail.target?.closest("#news, [id^=context]")) notice.hidden = true;
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
