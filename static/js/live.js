// The page of a live session asks for news while somebody can see it, and swaps in what has changed.
// The playhead is told: at the newest step it follows, elsewhere a bar says how many steps are new.

const EVERY = 3000; // milliseconds between an answer and the next question

const root = document.querySelector("[data-playhead]");
const frame = document.getElementById("news");

if (frame) {
  const state = () => frame.querySelector("[data-news]").dataset;
  const at = () => Number(root.querySelector("[data-at]")?.dataset.at ?? 0);

  let seen = Number(state().steps); // steps that the reader knows of
  let asking = false;
  let timer = null;

  async function ask() {
    asking = true;
    const before = { ...state() };
    const query = new URLSearchParams({ revision: before.revision, step: at(), steps: before.steps, seen });
    await htmx.ajax("GET", `${root.dataset.page}/news?${query}${root.dataset.filter}`, { target: frame, swap: "innerHTML" }).catch(() => {});
    if (state().revision !== before.revision) await pass(before, state());
    asking = false;
    wait();
  }

  /** Tells the playhead. A page without steps has none: what comes, or is left, takes another page. */
  async function pass(before, now) {
    if (before.head !== now.head && !(at() && Number(now.steps))) return location.replace(root.dataset.page);
    const detail = { before, now, rows: frame.querySelector("template") };
    root.dispatchEvent(new CustomEvent("playhead:news", { detail }));
    await detail.done;
    show();
  }

  function wait() {
    clearTimeout(timer);
    if (!document.hidden && state().status === "live") timer = setTimeout(ask, EVERY);
  }

  /** At the newest step everything has been seen. */
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
    if (!document.hidden && !asking && state().status === "live") ask();
  });
  document.getElementById("step")?.addEventListener("htmx:afterSwap", (event) => {
    if (event.target.id === "step") show();
  });
  show();
  wait();
}
