// Bookmarks: the key B, and a page that no longer trusts steps that it fetched before a note was saved.

const root = document.querySelector("[data-playhead]");

document.addEventListener("playhead:do", (event) => {
  if (event.detail.action === "bookmark") document.querySelector("#note [data-bookmark]")?.click();
});

// Before the new note is on the page, so that a key pressed at once cannot fetch the step as it was.
document.addEventListener("htmx:beforeSwap", (event) => {
  if (event.target.id !== "note" || !root) return;
  const answer = new DOMParser().parseFromString(event.detail.serverResponse, "text/html");
  root.dataset.revision = answer.getElementById("note")?.dataset.revision ?? root.dataset.revision;
});
