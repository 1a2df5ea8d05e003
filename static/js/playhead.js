// The playhead: moves by fetching the step under it, plays, and keeps the address in step.
// Every place it can go is a link as well, so the page works without this file.

const INTERVAL = 1000; // milliseconds that a step stays in view at ×1

const root = document.querySelector("[data-playhead]");
const panel = document.getElementById("step");

if (panel) {
  const view = () => panel.querySelector("[data-at]");
  const number = (name) => Number(view().dataset[name]);
  const part = (name) => root.querySelector(`[data-${name}]`);
  const asOf = root.dataset.asOf;

  const pageUrl = (step) => `${root.dataset.page}?step=${step}${asOf && `&as_of=${asOf}`}`;
  const stepUrl = (step) => `${root.dataset.page}/steps/${step}?revision=${root.dataset.revision}${asOf && `&as_of=${asOf}`}`;
  const rowsUrl = (step) => `${root.dataset.page}/steps?around=${step}${asOf && `&as_of=${asOf}`}`;
  const within = (step) => Math.min(Math.max(1, step), number("steps"));

  // Where each control leads from the step in view.
  const moves = {
    first: () => 1,
    back: () => within(number("at") - 1),
    forward: () => within(number("at") + 1),
    last: () => number("steps"),
    error: () => number("nextError") || null,
  };

  let wanted = null; // the step to go to once the request under way has ended
  let moving = null;

  /** Swaps in what the server answers. What goes wrong is told by the error bar. */
  const load = (url, target) => htmx.ajax("GET", url, { target, swap: "innerHTML" }).catch(() => {});

  /** Brings a step into view. While one is on its way only the newest wish is kept. */
  function go(step, { remember = true } = {}) {
    wanted = { step: within(step), remember };
    moving ??= follow().finally(() => (moving = null));
    return moving;
  }

  async function follow() {
    while (wanted) {
      const { step, remember } = wanted;
      wanted = null;
      await load(stepUrl(step), panel);
      if (number("at") !== step) {
        pause();
        showPosition(number("at"));
        return;
      }
      history[remember ? "pushState" : "replaceState"]({ step }, "", pageUrl(step));
      if (!wanted) await show();
    }
  }

  /** Makes strip, controls and list agree with the step in the panel. */
  async function show() {
    const at = number("at");
    showPosition(at);
    document.title = document.title.replace(/^Step [\d,]+/, `Step ${at.toLocaleString("en")}`);
    for (const link of root.querySelectorAll("[data-move]")) aim(link);
    for (const field of root.querySelectorAll("[data-step-field]")) field.value = at;
    if (!playing) part("announced").textContent = view().querySelector("header").innerText;
    panel.scrollTop = 0;
    await mark(at);
    prefetch(at + 1);
  }

  /** Lets the browser keep the next step, so that replay need not wait for it. */
  function prefetch(step) {
    if (step <= number("steps")) fetch(stepUrl(step), { headers: { "HX-Request": "true", "HX-Target": "step" } }).catch(() => {});
  }

  function showPosition(at) {
    const strip = part("strip");
    part("cursor").setAttribute("x", `${(100 * (at - 0.5)) / Number(strip.dataset.slots)}%`);
    if (document.activeElement !== part("number")) part("number").value = at;
    part("slider").value = at;
  }

  function aim(link) {
    if (link.dataset.move === "rewind") {
      link.search = `?step=${number("at")}`;
      return;
    }
    const step = moves[link.dataset.move]();
    if (step) {
      link.href = pageUrl(step);
      link.removeAttribute("aria-disabled");
    } else {
      link.removeAttribute("href");
      link.setAttribute("aria-disabled", "true");
    }
  }

  /** Marks the step's row, and fetches the rows around it when the list holds others. */
  async function mark(at) {
    const row = () => root.querySelector(`#rows [data-step="${at}"]`);
    if (!row()) await load(rowsUrl(at), "#rows");
    root.querySelector("#rows [aria-current]")?.removeAttribute("aria-current");
    row()?.setAttribute("aria-current", "step");
    reveal(row());
  }

  /** Scrolls the list, and only the list, so that a row is well inside it. */
  function reveal(row) {
    if (!row) return;
    const list = part("steps-pane");
    const top = row.getBoundingClientRect().top - list.getBoundingClientRect().top;
    if (top < list.clientHeight * 0.15 || top > list.clientHeight * 0.75) list.scrollTop += top - list.clientHeight * 0.35;
  }

  // Playing: each step stays in view for its time, or for as long as the next one takes to come.
  let playing = null; // the run under way: one that was paused stays paused when another begins
  let speed = 1;
  const rest = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

  async function play() {
    const run = {};
    showPlaying(run);
    if (number("at") === number("steps")) await go(1);
    while (playing === run && number("at") < number("steps")) {
      await rest(INTERVAL / speed);
      if (playing === run) await go(number("at") + 1, { remember: false });
    }
    if (playing === run) pause();
  }

  const pause = () => showPlaying(null);

  function showPlaying(run) {
    playing = run;
    const button = part("play");
    button.setAttribute("aria-pressed", String(Boolean(run)));
    button.title = run ? "Pause (space)" : "Play (space)";
  }

  function jump(step) {
    pause();
    if (step) go(step);
  }

  function setSpeed(button) {
    speed = Number(button.value);
    for (const other of part("speeds").children) other.setAttribute("aria-pressed", String(other === button));
  }

  /** The step that a place in the strip stands for. */
  function stepAt(event) {
    const strip = part("strip");
    const box = strip.getBoundingClientRect();
    return Math.ceil(((event.clientX - box.left) / box.width) * Number(strip.dataset.slots));
  }

  async function openDialog(url) {
    pause();
    await load(url, "#dialog-body");
    const dialog = document.getElementById("dialog");
    if (dialog.querySelector("form")) dialog.showModal();
  }

  root.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    const link = event.target.closest("a");
    if (event.target.closest("[data-play]")) return void (playing ? pause() : play());
    if (event.target.closest("[data-help]")) return void document.getElementById("help").showModal();
    const speedButton = event.target.closest("[data-speeds] button");
    if (speedButton) {
      setSpeed(speedButton);
      if (event.detail) speedButton.blur(); // chosen by mouse: the space bar is for playing again
      return;
    }
    if (event.target.closest("[data-close]")) {
      event.preventDefault();
      event.target.closest("dialog").close();
    } else if (link?.matches("[data-dialog]")) {
      event.preventDefault();
      openDialog(link.href);
    } else if (link?.matches(".strip-take")) {
      return; // another history: a page of its own
    } else if (event.target.closest("[data-strip]")) {
      event.preventDefault();
      jump(stepAt(event));
    } else if (link?.dataset.step) {
      event.preventDefault();
      jump(Number(link.dataset.step));
    } else if (link?.dataset.move) {
      event.preventDefault();
      jump(moves[link.dataset.move]());
    }
  });

  part("slider").addEventListener("input", (event) => {
    pause();
    part("number").value = event.target.value;
    go(Number(event.target.value), { remember: false });
  });
  part("slider").addEventListener("change", (event) => jump(Number(event.target.value)));
  part("jump").addEventListener("submit", (event) => {
    event.preventDefault();
    part("number").blur();
    jump(Number(part("number").value));
  });

  const keys = {
    " ": () => (playing ? pause() : play()),
    ArrowLeft: () => jump(moves.back()),
    ArrowRight: () => jump(moves.forward()),
    e: () => jump(moves.error()),
    g: () => jump(moves.first()),
    G: () => jump(moves.last()),
    "?": () => document.getElementById("help").showModal(),
  };

  document.addEventListener("keydown", (event) => {
    const busy = event.target.closest("input:not([type=range]), textarea, select, dialog") || document.querySelector("dialog[open]");
    const isTheirs = event.key === " " ? event.target.closest("button, summary") : event.target.closest("[type=range]") && event.key.startsWith("Arrow");
    if (busy || isTheirs || event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });

  window.addEventListener("popstate", (event) => {
    pause();
    const step = event.state?.step ?? Number(new URLSearchParams(location.search).get("step") ?? 1);
    wanted = null;
    go(step, { remember: false });
  });

  // Earlier rows come in above what is being read, which has to stay where it is.
  root.addEventListener("htmx:beforeSwap", (event) => {
    if (!event.target.querySelector(":scope > [data-earlier]")) return;
    const list = part("steps-pane");
    const below = list.scrollHeight - list.scrollTop;
    queueMicrotask(() => (list.scrollTop = list.scrollHeight - below));
  });

  history.replaceState({ step: number("at") }, "");
  prefetch(number("at") + 1);
  reveal(root.querySelector("#rows [aria-current]"));
}
