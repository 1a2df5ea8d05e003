// On narrow screens list, step and context are tabs, on small laptops step and context. CSS shows the chosen
// tab; this file switches tabs.

const root = document.querySelector("[data-playhead]");
const tab = (value) => root.querySelector(`.pane-tabs [value="${value}"]`);

if (tab("step")) {
  // A link to a step, in the list or among search results, opens the tab of the step, unless the list stays visible.
  root.addEventListener("click", (event) => {
    const opens = event.target.closest("a[data-step]") && !event.ctrlKey && !event.metaKey;
    if (opens && tab("list").offsetParent) tab("step").checked = true;
  });

  // A hidden list cannot follow the playhead; it scrolls to the step when it is shown.
  root.addEventListener("change", (event) => {
    if (event.target === tab("list")) root.querySelector("#rows [aria-current]")?.scrollIntoView({ block: "nearest" });
  });
}
