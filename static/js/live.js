// The page of a live session polls for updates while it is visible, and swaps in what has changed.
// A playhead at the newest step follows; elsewhere a bar says how many steps are new.

const INTERVAL = 3000; // milliseconds between an answer and the next request

const root = document.querySelector("[data-playhead]");
const frame = document.getElementById("news");

if (frame) {
  const state = () => frame.querySelector("[data-news]").dataset;
  const at = () => Number(root.querySelector("[data-at]")?.dataset.at ?? 0);

  let seen = Number(state().steps); // steps that the reader has seen
  let polling = false;
  let timer = null;

  async function poll() {
    polling = true;
    const before = { ...state() };
    const query = new URLSearchParams({ revision: before.revision, step: at(), steps: before.steps, seen });
    await loadInto(frame, `${root.dataset.page}/news?${query}${root.dataset.filter}${root.dataset.view}`);
    if (state().revision !== before.revision) await notify(before, state());
    polling = false;
    wait();
  }

  /** Notifies the playhead. A page without steps has none, so that its first step needs a reload. */
  async function notify(before, now) {
    if (before.head !== now.head && !(at() && Number(now.steps))) return location.replace(root.dataset.page);
    const detail = { before, now, rows: frame.querySelector("template") };
    root.dispatchEvent(new CustomEvent("playhead:news", { detail }));
    await detail.done;
    show();
  }

  function wait() {
    clearTimeout(timer);
    if (!document.hidden && state().status === "live") timer = setTimeout(poll, INTERVAL);
  }

  /** Shows the bar unless the playhead is at the newest step. */
  function show() {
    const { steps, status } = state();
    const isNewest = at() >= Number(steps);
    if (isNewest) seen = Number(steps);
    root.toggleAttribute("data-following", isNewest && status === "live");
    const bar = frame.querySelector(".bar");
    if (bar) bar.hidden = isNewest;
  }

  document.addEventListener("visibilitychange", () => {
    clearTimeout(timer);
    if (!document.hidden && !polling && state().status === "live") poll();
  });
  document.getElementById("step")?.addEventListener("htmx:afterSwap", (event) => {
    if (event.target.id === "step") show();
  });
  show();
  wait();
}
