// Buttons that copy the text of an element: <button data-copy="ID OF THE ELEMENT">. Without an id they copy the id or
// link next to them, or otherwise the shown text of the surrounding block.

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
    // Browsers deny pages without HTTPS access to the clipboard. The text is selected instead.
    getSelection().selectAllChildren(element);
    button.textContent = "Selected";
  }
  setTimeout(() => (button.textContent = "Copy"), 2000);
});
