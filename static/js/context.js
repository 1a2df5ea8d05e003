// The context panel is a form that htmx sends; the playhead sets its step.
// This file puts a budget that the server proposes into the form's field.

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-budget]");
  if (!button) return;
  event.preventDefault();
  button.form.querySelector("input[name=max_tokens]").value = button.value;
  button.form.requestSubmit();
});
