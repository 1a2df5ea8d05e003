// Bookmarks: the key B, and a page that no longer trusts steps that it fetched before a note was saved.

const root = document.querySelector("[data-playhead]");

document.addEventListener("keydown", (event) => {
  if (event.key !== "b" || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, textarea, select, dialog")) return;
  document.querySelector("#note [data-bookmark]")?.click();
});

document.addEventListener("htmx:afterSettle", (event) => {
  const note = event.target.closest?.("#note");
  if (note && root) root.dataset.revision = note.dataset.revision;
});
