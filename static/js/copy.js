// Buttons that copy the text of an element: <button data-copy="ID OF THE ELEMENT">. Without an id they copy the id or
// link beside them, else the text that is shown of the block around them.

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const named = button.dataset.copy && document.getElementById(button.dataset.copy);
  const beside = button.closest(".copyable")?.querySelector("code");
  const element = named || beside || button.closest(".block").querySelector(".text, .prose");
  try {
    await navigator.clipboard.writeText(element.textContent);
    button.textContent = "Copied";
  } catch {
    // Browsers refuse the clipboard to pages without HTTPS. The text is selected instead.
    getSelection().selectAllChildren(element);
    button.textContent = "Selected";
  }
  setTimeout(() => (button.textContent = "Copy"), 2000);
});
