// Original or summary: the choice at one step applies to the next steps.

const panel = document.getElementById("step");
const choices = () => [...panel.querySelectorAll("[data-shown]")];

if (panel) {
  let shown = choices().find((choice) => choice.checked)?.value ?? "original";

  panel.addEventListener("change", (event) => {
    if (event.target.matches("[data-shown]")) shown = event.target.value;
  });
  panel.addEventListener("htmx:afterSwap", (event) => {
    if (event.target !== panel) return;
    for (const choice of choices()) choice.checked = choice.value === shown;
  });
}
