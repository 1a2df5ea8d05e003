// The panes of the session page: their widths, which stay as the reader has set them.

const panes = document.querySelector(".panes");

if (panes) {
  const BOUNDS = { list: [240, 640], context: [280, 720] }; // pixels
  const KEY_STEP = 16;

  /** Sets a pane's width and keeps it. */
  function setWidth(handle, width) {
    const name = handle.dataset.resize;
    const [least, most] = BOUNDS[name];
    const bounded = Math.round(Math.min(most, Math.max(least, width)));
    panes.style.setProperty(`--${name}-width`, `${bounded}px`);
    handle.setAttribute("aria-valuenow", bounded);
    kept(`width-of-${name}`, bounded);
  }

  for (const handle of panes.querySelectorAll("[data-resize]")) {
    const isList = handle.dataset.resize === "list";
    const width = Number(kept(`width-of-${handle.dataset.resize}`));
    if (width) setWidth(handle, width);
    handle.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      handle.setPointerCapture(event.pointerId);
    });
    handle.addEventListener("pointermove", (event) => {
      if (!handle.hasPointerCapture(event.pointerId)) return;
      const box = panes.getBoundingClientRect();
      setWidth(handle, isList ? event.clientX - box.left : box.right - event.clientX);
    });
    handle.addEventListener("keydown", (event) => {
      const towards = { ArrowLeft: -KEY_STEP, ArrowRight: KEY_STEP }[event.key];
      if (!towards) return;
      event.preventDefault();
      event.stopPropagation();
      setWidth(handle, Number(handle.getAttribute("aria-valuenow")) + (isList ? towards : -towards));
    });
  }

  // A row that is cut off shows all of its text when the pointer is on it; one with the focus wraps it.
  panes.addEventListener("pointerover", (event) => {
    const text = event.target.closest(".row .what, .row .came");
    if (text && text.scrollWidth > text.clientWidth) text.title = text.textContent.replace(/\s+/g, " ").trim();
  });
}
