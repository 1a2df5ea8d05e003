// The page of a session requests updates after each change (events.js), and replaces the changed parts.
// A playhead at the newest step follows the agent; at any other step a bar shows the number of new steps.

const PAUSE = 100; // milliseconds between an answer and the next request
const RETRY = 3000; // after a request that failed

const root = document.querySelector("[data-playhead]");
const frame = document.getElementById("news");

if (frame) {
  const state = () => frame.querySelector("[data-news]").dataset;
  const at = () => Number(root.querySelector("[data-at]")?.dataset.at ?? 0);

  let seen = Number(state().steps); // steps that the reader has seen
  let isLoading = false;
  let isOutdated = false; // something has changed since the request under way
  let hasFailed = false;

  async function load() {
    isLoading = true;
    isOutdated = hasFailed = false;
    const before = { ...state() };
    const query = new URLSearchParams({ revision: before.revision, step: at(), steps: before.steps, seen });
    await loadInto(frame, `${root.dataset.page}/news?${query}${root.dataset.filter}${root.dataset.view}`);
    if (state().revision !== before.revision) await notify(before, state());
    isLoading = false;
    if (isOutdated || hasFailed) setTimeout(request, hasFailed ? RETRY : PAUSE);
  }

  function request() {
    if (isLoading) isOutdated = true;
    else load();
  }

  /** Notifies the playhead. A page without steps has none, so that its first step needs a reload. */
  async function notify(before, now) {
    if (before.head !== now.head && !(at() && Number(now.steps))) return location.replace(root.dataset.page);
    growTurn();
    const detail = { before, now, rows: frame.querySelector("[data-new-rows]") };
    root.dispatchEvent(new CustomEvent("playhead:news", { detail }));
    await detail.done;
    show();
  }

  /** Replaces the head of the turn that has grown, if the list shows it. */
  function growTurn() {
    const head = frame.querySelector("[data-turn-head]")?.content.firstElementChild;
    document.getElementById(head?.id)?.replaceWith(document.importNode(head, true));
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

  for (const name of ["sendError", "timeout", "responseError"]) {
    frame.addEventListener(`htmx:${name}`, ({ detail }) => {
      const { status } = detail.xhr;
      hasFailed = !status || status === 429 || status >= 500;
    });
  }
  document.addEventListener("playhead:change", ({ detail }) => {
    if (detail.kind !== "poll" || state().status === "live") request();
  });
  document.getElementById("step")?.addEventListener("htmx:afterSwap", (event) => {
    if (event.target.id === "step") show();
  });
  show();
}
