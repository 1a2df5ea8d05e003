// The context panel is a form that htmx sends; the playhead sets its step.
// Here: a budget that the server proposes goes into the form, so that it stays.

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-budget]");
  if (button) button.form.elements.namedItem("max_tokens").value = button.value;
});
