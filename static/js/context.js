// The context panel is a form that htmx sends; the playhead sets its step.
// Here: a budget that the server proposes goes into the form's field, so that it stays.

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-budget]");
  if (!button) return;
  event.preventDefault();
  button.form.querySelector("input[name=max_tokens]").value = button.value;
  button.form.requestSubmit();
});
