// The context panel is a form that htmx sends; the playhead sets its step.
// This file puts a budget that the server proposes into the form's field, and the form's choices into the address,
// and keeps the messages of requests open.

const FIELDS = ["mode", "policy", "max_tokens", "format", "model", "view"];
const USUAL = { mode: "recorded", view: "contents" };

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-budget]");
  if (!button) return;
  event.preventDefault();
  button.form.querySelector("input[name=max_tokens]").value = button.value;
  button.form.requestSubmit();
});

// Once somebody has opened the messages of a request, those of each later request are opened too. Until they are here,
// the panel keeps its height, so that it does not scroll.
const MESSAGES = "playhead-messages";
const areOpen = () => kept(MESSAGES, undefined, "sessionStorage") === "open";

document.addEventListener("toggle", (event) => {
  if (event.target.matches(".saw-messages")) kept(MESSAGES, event.target.open ? "open" : "closed", "sessionStorage");
}, true);
document.addEventListener("htmx:beforeSwap", (event) => {
  if (event.target.id === "context" && areOpen()) event.target.style.minHeight = `${event.target.offsetHeight}px`;
});
// Not earlier: htmx only now listens to the new parts.
document.addEventListener("htmx:afterSettle", (event) => {
  const { target } = event;
  const messages = target.id === "context" && areOpen() && target.querySelector(".saw-messages");
  if (messages) messages.open = true;
  else if (target.matches("#context, .saw-list")) target.closest("#context").style.minHeight = "";
});

// A request that did not reach the server is sent again once the server has answered another one.
// A session without steps has no panel.
const noteOfLost = () => document.querySelector("[data-context-lost]");

document.addEventListener("htmx:sendError", ({ detail }) => {
  if (detail.target.id === "context") noteOfLost().hidden = false;
});
document.addEventListener("htmx:afterRequest", ({ detail }) => {
  const note = noteOfLost();
  if (!note || note.hidden || !detail.xhr.status) return;
  note.hidden = true;
  if (detail.target.id !== "context") document.getElementById("context-form").requestSubmit();
});

// Moving the playhead replaces the address, so each new context adds the choices again.
document.addEventListener("htmx:afterSwap", (event) => {
  const form = document.getElementById("context-form");
  if (event.target.id !== "context" || !form) return;
  const address = new URL(location.href);
  const chosen = new FormData(form);
  const recorded = chosen.get("mode") === "recorded";
  for (const name of FIELDS) {
    const value = chosen.get(name);
    if (value && value !== USUAL[name] && !recorded) address.searchParams.set(name, value);
    else address.searchParams.delete(name);
  }
  if (address.href !== location.href) history.replaceState(history.state, "", address);
});
