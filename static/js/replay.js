// Replay: shows one step after the other, by the recorded times, one per second, or turn by turn. The step's
// HTML says how long it is shown and when its text was written (dashboard/pace.py), in milliseconds at ×1.

const BEATS = { step: 1000, turn: 2000 }; // milliseconds at ×1 where the recorded times do not count
const WHOLE_RUN = 120_000; // milliseconds that the whole run takes at the suggested speed, unless it takes less at ×1
const [MAX_PAUSE, SHORTENED, MIN] = [30_000, 2_000, 500]; // as in dashboard/pace.py
const FASTEST_TEXT = 1000; // characters a second; nobody can follow more
const BRIEFEST_TEXT = 300; // milliseconds on the screen; a text that takes less is shown at once
const STALE = 1000; // milliseconds after which the context says that it waits
const TEXTS = ".part-thought, .part-text, .part-answer";
const UNREACHABLE = "The server cannot be reached. Check the connection, then play again.";
const BLOCKS = "p, li, pre, table, blockquote, h4, h5, h6";
const STRETCHES = { pause: "pause of", model: "model call of", tools: "tools for", turn: "turn of" };

const root = document.querySelector("[data-playhead]");
const panel = document.getElementById("step");

/** The stretch of a step's time after some milliseconds on the screen, and the time in the run. */
function placeIn(pace, elapsed) {
  let time = pace.begins;
  let left = elapsed;
  for (const [name, took, shown] of pace.stretches) {
    if (left < shown) return { name, took, shown, time: time + (took * left) / shown };
    left -= shown;
    time += took;
  }
  return { name: "", time };
}

/** Hides the text of the step, which then appears from its beginning. */
function hideText() {
  const nodes = [];
  const blocks = new Map();
  let length = 0;
  for (const part of panel.querySelectorAll(TEXTS)) {
    const walker = document.createTreeWalker(part, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      for (let block = node.parentElement.closest(BLOCKS); block; block = block.parentElement.closest(BLOCKS)) {
        if (!blocks.has(block)) blocks.set(block, length);
      }
      nodes.push({ node, start: length });
      length += node.data.length;
    }
  }
  for (const block of blocks.keys()) block.dataset.unwritten = "";
  const range = new Range();
  let reached = 0;

  /** Shows the text up to a share of it. */
  function show(share) {
    const offset = Math.floor(length * share);
    while (reached + 1 < nodes.length && nodes[reached + 1].start <= offset) reached += 1;
    const { node, start } = nodes[reached];
    range.setStart(node, Math.min(offset - start, node.data.length));
    range.setEndAfter(nodes.at(-1).node);
    for (const [block, first] of blocks) {
      if (first > offset) break;
      delete block.dataset.unwritten;
      blocks.delete(block);
    }
    window.CSS?.highlights?.set("unwritten", new Highlight(range));
  }

  function end() {
    for (const block of blocks.keys()) delete block.dataset.unwritten;
    window.CSS?.highlights?.delete("unwritten");
    delete root.dataset.writing;
  }

  if (!length) return null;
  root.dataset.writing = "";
  return { length, show, end };
}

if (panel) {
  const view = () => panel.querySelector("[data-at]");
  const at = () => Number(view().dataset.at);
  const steps = () => Number(view().dataset.steps);
  const part = (name) => root.querySelector(`[data-${name}]`);
  const speed = () => Number(part("speed").value);
  const frame = () => new Promise(requestAnimationFrame);

  let run = null; // the replay under way: one that was stopped stays stopped when another begins
  let elapsed = 0; // milliseconds of the step in view, at ×1
  let stopped = {}; // the step at which the reader stopped, and its milliseconds
  let text = null; // the text of the step while it appears

  /** How long the step in view stays, or the turn that ended then. A step without a time takes a beat. */
  function pace(ended) {
    const recorded = view().dataset.pace && JSON.parse(view().dataset.pace);
    const choice = part("pace-choice").value;
    if (choice === "recorded" && recorded) return recorded;
    const beat = { shown: BEATS[choice] ?? BEATS.step, stretches: [], text: [0, 0] };
    if (choice !== "turn" || !recorded || !ended) return beat;
    const begins = recorded.begins + recorded.stretches[0][1];
    const took = Math.max(0, ended - begins);
    const shown = took > MAX_PAUSE ? SHORTENED : Math.max(MIN, took);
    return { ...beat, begins, stretches: [["turn", took, shown]], shown };
  }

  let suggested = ""; // why the speed is not ×1, until the reader chooses one
  let timesLeft = null; // of the last 0, size, 2 × size … steps

  async function loadTimesLeft() {
    const answer = await fetch(`${root.dataset.page}/replay-time?${root.dataset.asOf}`, { headers: { "HX-Request": "true" } }).catch(() => {});
    if (!answer?.ok) return;
    timesLeft = await answer.json();
    suggestSpeed();
  }

  /** Until the reader chooses a speed. */
  function suggestSpeed() {
    if (kept("replay-speed") !== null) return;
    const whole = part("pace-choice").value === "recorded" ? (timesLeft?.times.at(-1) ?? 0) : 0;
    const speeds = [...part("speed").options].filter((option) => option.value >= 1);
    const { value } = speeds.find((option) => whole / option.value <= WHOLE_RUN) ?? speeds.at(-1);
    part("speed").value = value;
    explain(value === "1" ? "" : `×${value}, because ×1 would take about ${durationText(whole)}`);
  }

  function explain(words) {
    suggested = words;
    part("speed").title = words ? `Speed of the replay: ${words}` : "Speed of the replay";
  }

  /** How long the steps after the one in view take, at ×1; undefined where that is not known. */
  function timeLeft(choice) {
    const left = steps() - at();
    if (choice === "step") return left * BEATS.step;
    if (choice === "turn" || !timesLeft?.times.length) return undefined;
    const place = left / timesLeft.size;
    const before = timesLeft.times[Math.floor(place)] ?? timesLeft.times.at(-1);
    const after = timesLeft.times[Math.ceil(place)] ?? before;
    return before + (after - before) * (place % 1);
  }

  async function play() {
    const mine = {};
    run = mine;
    showPlaying();
    if (!timesLeft) loadTimesLeft();
    send("ask");
    await send("arrive"); // the step that the reader asked for before
    if (run !== mine) return;
    if (at() === steps()) await send("show", { step: 1 });
    else if (stopped.step === at()) elapsed = stopped.elapsed;
    else elapsed = pace().stretches[0]?.[2] ?? 0; // the reader has waited long enough
    while (run === mine) {
      const { step: next, reason, ended } = part("pace-choice").value === "turn" ? await nextTurn() : nextStep();
      if (!reason) await stay(mine, ended);
      if (run !== mine) return;
      if (reason) return stop(reason);
      if (next === null) break;
      await send("show", { step: next });
      if (at() !== next) break; // the error bar says why
    }
    if (run === mine) stop();
  }

  const nextStep = () => ({ step: at() < steps() ? at() + 1 : null });

  /** The step after the next input from a person, or the newest step; a reason where the server does not answer. */
  async function nextTurn() {
    try {
      const { step, reason, isRefused, ended } = await send("search-jump", { to: "next-turn" });
      return isRefused ? { reason } : { step: step ?? (at() < steps() ? steps() : null), ended };
    } catch {
      return { reason: UNREACHABLE };
    }
  }

  /** Waits until the time of the step is over. */
  async function stay(mine, ended) {
    const own = pace(ended);
    appear(own);
    let before = performance.now();
    while (run === mine && elapsed < own.shown) {
      showProgress(own);
      const now = Math.max(before, await frame()); // a frame can have begun before this step came
      elapsed += (now - before) * speed();
      before = now;
    }
    text?.end();
    text = null;
  }

  /** Hides the text of a new step before it is painted, where its writing can be followed. */
  function appear(own) {
    const [from, length] = own.text;
    const milliseconds = length / speed();
    const isLate = elapsed >= own.stretches[0]?.[2] + from + length;
    if (text || milliseconds < BRIEFEST_TEXT || isLate) return;
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    text = hideText();
    if (text && text.length / milliseconds > FASTEST_TEXT / 1000) {
      text.end();
      text = null;
    }
    text?.show(0);
  }

  function showProgress(own) {
    const place = placeIn(own, elapsed);
    if (place.time) showTime(place.time);
    showNote(place, own.shown - elapsed);
    showContextWaits();
    if (!text) return;
    const [from, length] = own.text;
    const share = (elapsed - own.stretches[0][2] - from) / length;
    if (share < 1) text.show(Math.max(0, share));
    else {
      text.end();
      text = null;
    }
  }

  function showNote({ name, took, shown }, ownLeft) {
    const choice = part("pace-choice").value;
    const left = timeLeft(choice);
    const notes = [];
    if (name && took >= 1000) notes.push(`${STRETCHES[name]} ${durationText(took)}`);
    if (name && took > shown) notes.push(`shortened to ${Number((shown / speed() / 1000).toFixed(2))} s`);
    if (left !== undefined) notes.push(`${choice === "step" ? "" : "about "}${durationText((left + Math.max(0, ownLeft)) / speed())} left`);
    if (suggested) notes.push(suggested);
    write(part("replay-note"), notes.join(", "));
  }

  const write = (element, words) => {
    if (element.textContent !== words) element.textContent = words;
  };

  /** The time in the run, to the second; js/times.js puts it into the reader's zone. */
  function showTime(milliseconds) {
    const clock = part("clock"); // not in a run without times
    const iso = `${new Date(milliseconds).toISOString().slice(0, 19)}Z`;
    if (!clock || clock.firstElementChild?.dateTime === iso) return;
    const time = document.createElement("time");
    time.dateTime = iso;
    time.dataset.shown = "clock";
    time.textContent = iso.slice(11, 19);
    clock.replaceChildren(time);
  }

  /** The time of the step in view: when its output was complete. */
  function showStepTime() {
    const recorded = view().dataset.pace;
    if (!recorded) return void part("clock")?.replaceChildren();
    const { begins, stretches } = JSON.parse(recorded);
    showTime(begins + stretches[0][1] + stretches[1][1]);
  }

  // The context is loaded when a step has been shown for a moment, so it is late or not updated in a fast replay.
  const context = { step: at(), since: 0 }; // the step that it shows, and when that was last the step in view

  function showContextWaits() {
    if (context.step === at()) context.since = performance.now();
    const waits = run && performance.now() - context.since > STALE;
    part("context-waits").hidden = !waits;
    if (waits) write(part("context-waits"), `Step ${context.step.toLocaleString("en")}. The panel updates when the replay is slower or stops.`);
  }

  document.addEventListener("htmx:afterSwap", (event) => {
    if (event.target.id !== "context") return;
    const shown = new URL(event.detail.pathInfo.finalRequestPath, location.href).searchParams.get("step");
    context.step = Number(shown); // one that is late again does not begin the wait anew
    showContextWaits();
  });

  function showPlaying() {
    root.toggleAttribute("data-playing", Boolean(run));
    const button = part("play");
    button.setAttribute("aria-pressed", String(Boolean(run)));
    button.title = run ? "Pause (space)" : "Play (space)";
  }

  function stop(reason = "") {
    if (!run) return;
    run = null;
    stopped = { step: at(), elapsed };
    text?.end();
    text = null;
    showPlaying();
    showContextWaits();
    write(part("replay-note"), reason);
    showStepTime();
    send("settle");
  }

  /** Chooses the speed beside the chosen one. */
  function changeSpeed(by) {
    const { options, selectedIndex } = part("speed");
    part("speed").selectedIndex = Math.min(options.length - 1, Math.max(0, selectedIndex + by));
    kept("replay-speed", part("speed").value);
    explain("");
  }

  const actions = {
    play: () => (run ? stop() : play()),
    stop: () => stop(),
    slower: () => changeSpeed(-1),
    faster: () => changeSpeed(1),
  };
  document.addEventListener("playhead:do", (event) => actions[event.detail.action]?.());
  part("play").addEventListener("click", actions.play);

  panel.addEventListener("htmx:afterSwap", (event) => {
    if (event.target !== panel) return;
    text?.end();
    text = null;
    elapsed = 0;
    if (run) appear(pace());
    if (!run || part("pace-choice").value === "step") showStepTime();
  });

  // The replay stops when the reader interacts with the step, and while the page is hidden.
  for (const pane of root.querySelectorAll("#step, .context-pane")) {
    for (const name of ["pointerdown", "wheel"]) pane.addEventListener(name, () => stop(), { passive: true });
  }
  document.addEventListener("visibilitychange", () => document.hidden && stop());

  // The browser remembers the choices. After a menu is used by mouse, keys control the playhead again.
  for (const [name, field] of [["replay-speed", part("speed")], ["replay-pace", part("pace-choice")]]) {
    const chosen = [...field.options].find((option) => option.value === kept(name) && !option.disabled);
    if (chosen) field.value = chosen.value;
    field.addEventListener("change", () => kept(name, field.value));
    let isPointed = false;
    field.addEventListener("pointerdown", () => (isPointed = true));
    field.addEventListener("keydown", () => (isPointed = false));
    field.addEventListener("change", () => isPointed && field.blur());
  }
  part("speed").addEventListener("change", () => explain(""));
  part("pace-choice").addEventListener("change", suggestSpeed);
}
