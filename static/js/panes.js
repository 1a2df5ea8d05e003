// The panes of the session page: the browser remembers the widths that the reader sets. Heights for style sheets.

const panes = document.querySelector(".panes");
const page = document.querySelector(".session");

if (panes) {
  const BOUNDS = { list: [240, 640], context: [280, 720] }; // pixels
  const KEY_STEP = 16;

  /** Sets a pane's width and keeps it. */
  function setWidth(handle, width) {
    const name = handle.dataset.resize;
    const [least, most] = BOUNDS[name];
    const bounded = Math.round(Math.min(most, Math.max(least, width)));
    page.style.setProperty(`--${name}-width`, `${bounded}px`);
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

  // On narrow screens the timeline stays at the top, and links to a failure lead below it.
  new ResizeObserver(([timeline]) => {
    page.style.setProperty("--timeline-height", `${timeline.target.offsetHeight}px`);
  }).observe(page.querySelector(".timeline"));

  // A clipped row shows its whole text under the pointer, and wraps it while it has the focus.
  panes.addEventListener("pointerover", (event) => {
    const text = event.target.closest(".row .what, .row .came");
    if (text && text.scrollWidth > text.clientWidth) text.title = text.textContent.replace(/\s+/g, " ").trim();
  });
}
