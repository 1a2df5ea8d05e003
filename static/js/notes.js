// Bookmarks: the key B, and discarding steps that the page fetched before a note was saved.

const root = document.querySelector("[data-playhead]");

document.addEventListener("playhead:do", (event) => {
  if (event.detail.action === "bookmark") document.querySelector("#note [data-bookmark]")?.click();
});

// Before the note is shown, so that a key pressed immediately cannot show the old step.
document.addEventListener("htmx:beforeSwap", (event) => {
  if (event.target.id !== "note" || !root) return;
  const answer = new DOMParser().parseFromString(event.detail.serverResponse, "text/html");
  root.dataset.revision = answer.getElementById("note")?.dataset.revision ?? root.dataset.revision;
});
