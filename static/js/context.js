// The context panel is a form that htmx sends; the playhead sets its step.
// This file puts a budget that the server proposes into the form's field, and the form's choices into the address.

const FIELDS = ["mode", "policy", "max_tokens", "format", "model", "view"];
const USUAL = { mode: "recorded", view: "contents" };

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-budget]");
  if (!button) return;
  event.preventDefault();
  button.form.querySelector("input[name=max_tokens]").value = button.value;
  button.form.requestSubmit();
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
