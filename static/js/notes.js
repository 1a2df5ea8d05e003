// Bookmarks and notes: the key B, Ctrl Enter, the mark in the step list, and discarding steps that the page fetched
// before a note was saved.

const root = document.querySelector("[data-playhead]");

document.addEventListener("playhead:do", (event) => {
  if (event.detail.action === "bookmark") document.querySelector("#note [data-bookmark]")?.click();
});

// Before the note is shown, so that a key pressed immediately cannot show the old step.
document.addEventListener("htmx:beforeSwap", (event) => {
  if (event.target.id !== "note" || !root) return;
  const answer = new DOMParser().parseFromString(event.detail.serverResponse, "text/html");
  const note = answer.getElementById("note");
  if (!note) return;
  root.dataset.revision = note.dataset.revision;
  markRow(note.dataset.noteStep, answer.querySelector("[data-note-mark]"));
});

/** Shows the mark at the step's row, if the list shows that step. Without a template, removes it. */
function markRow(step, template) {
  const number = document.querySelector(`#rows [data-step="${step}"] .n`);
  number?.querySelector(".bookmark")?.remove();
  if (template) number?.append(document.importNode(template.content, true));
}

// Ctrl Enter, or ⌘ Enter, saves the note that is being written.
document.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || !event.target.matches("textarea")) return;
  event.target.closest("details, form")?.querySelector("button")?.click();
});
