// Replays the exported file. What agents wrote becomes text nodes only, and images from data URLs.
"use strict";

const ROW = 52; // pixels, as in replay.css
const BARS = 400; // the most bars of the timeline
const MAX_MADE = 10_000; // about the most elements of a step
const BAD = { error: "failed", likely: "likely failed", interrupted_by_human: "interrupted by a person", abandoned: "no result was recorded" };
const STATUS = { success: "success", error: "error", skipped: "skipped", interrupted_by_human: "interrupted by a person" };
const [MAX_PAUSE, SHORTENED, MIN] = [30_000, 2_000, 300]; // milliseconds at ×1, by the recorded times
const CHANGED = [["old_string", "new_string"], ["old_str", "new_str"]];

const one = (selector) => document.querySelector(selector);
const blocks = [...document.querySelectorAll("script[data-row]")];
const rows = blocks.map((block) => {
  // In milliseconds: shown until the next step, and took until the last result.
  const [kind, title, came, status, shown, isTurn, took] = JSON.parse(block.dataset.row);
  const [symbol, colour] = kind === "answer" ? ["speech", "other"] : [`kind-${kind}`, kind];
  return { kind: colour, symbol, title, came, status, shown, isTurn, took, isBad: status === "error" || status === "likely" };
});
const steps = rows.length;
const [list, listed, panel, panes] = [one("[data-list]"), one("[data-rows]"), one("[data-step]"), one("[data-panes]")];
const [slider, number, play, chart] = [one("[data-slider]"), one("[data-number]"), one("[data-play]"), one("[data-chart]")];
const items = new Map(); // the rows that are in the list, by step
let at = 0;
let written = 0; // the step that this script wrote into the address
let timer = 0;
let made = 0; // elements since the shown step was chosen

/** Appends children, of which a step can have more than a function can have arguments. Where the step has too many
 * elements, it leaves out the others before they are made. Only the panel says so: calls are inside of it. */
function add(element, children, most = MAX_MADE) {
  for (const child of children) {
    element.append(child);
    if (made <= most) continue;
    if (element === panel) element.append(make("p", "left-out", "The step has too many parts for this page. The export as Playhead JSONL contains all of them."));
    return;
  }
}

/** An element with a class and children; texts become text nodes. */
function make(name, className, ...children) {
  const element = document.createElement(name);
  made += 1;
  if (className) element.className = className;
  const given = children.filter((child) => child !== null && child !== undefined && child !== "");
  element.append(...given.flatMap((child) => (typeof child === "string" ? laidOut(child) : [child])));
  return element;
}

const preformatted = (className, ...children) => {
  const pre = make("pre", className, ...children);
  return estimated(pre, pre.textContent);
};

function drawing(name, attributes) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}

function icon(name) {
  const svg = drawing("svg", { class: "icon", "aria-hidden": "true" });
  svg.append(drawing("use", { href: `#${name}` }));
  return svg;
}

const figure = (value) => value.toLocaleString("en");

/** As duration_text() in historyapp/core/dates.py. */
function duration(milliseconds) {
  const seconds = milliseconds / 1000;
  if (seconds < 0.9995) return `${Math.round(milliseconds)} ms`;
  if (seconds < 59.95) return `${seconds.toFixed(1)} s`;
  const minutes = Math.floor(Math.round(seconds) / 60);
  if (minutes < 60) return `${minutes} min ${Math.round(seconds) % 60} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 24 ? `${hours} h ${minutes % 60} min` : `${figure(Math.floor(hours / 24))} d ${hours % 24} h`;
}

const clock = (milliseconds) => new Date(milliseconds).toLocaleString("sv");

/** A text as nodes, with a note where the file leaves out its middle. */
function textNodes(text) {
  if (typeof text === "string") return [text];
  return [text.head, make("span", "left-out", `${figure(text.cut)} characters are not in this file.`), text.tail];
}

function shown(part, className) {
  if (part.image) {
    const image = make("img");
    image.src = part.image.startsWith("data:image/") ? part.image : "";
    image.alt = "Image in the session";
    return image;
  }
  const pre = preformatted(className, ...textNodes(part));
  pre.dir = "auto";
  return pre;
}

/** Two versions of a text as the lines that went and those that came, with up to three equal lines around
 * them. An element for each line would make the page slow: a step can change millions of empty lines. */
function change(before, after) {
  const [old, now] = [before.split("\n"), after.split("\n")];
  let [first, last] = [0, 0];
  while (first < old.length && first < now.length && old[first] === now[first]) first += 1;
  while (last < old.length - first && last < now.length - first && old.at(-1 - last) === now.at(-1 - last)) last += 1;
  const lines = (sign, texts) => texts.map((line) => `${sign} ${line}\n`).join("");
  const [went, came] = [lines("-", old.slice(first, old.length - last)), lines("+", now.slice(first, now.length - last))];
  return preformatted("", lines(" ", old.slice(Math.max(0, first - 3), first)), went && make("del", "", went),
    came && make("ins", "", came), lines(" ", old.slice(old.length - last, old.length - last + 3)));
}

const isShort = (text) => typeof text === "string" && text.length <= 80 && !text.includes("\n");

/** The arguments of a call: two versions of a text as a change, short ones in a line, others in blocks. */
function* fieldsOf(call) {
  const fields = new Map(call.fields);
  for (const [before, after] of CHANGED) {
    if (typeof fields.get(before) !== "string" || typeof fields.get(after) !== "string") continue;
    yield change(fields.get(before), fields.get(after));
    fields.delete(before);
    fields.delete(after);
  }
  const short = make("p", "fields");
  for (const [name, text] of [...fields]) {
    if (text !== call.target && !(name && isShort(text))) continue;
    if (text !== call.target) short.append(make("span", "", make("span", "name", name), make("bdi", "", text)));
    fields.delete(name);
  }
  if (short.firstChild) yield short;
  for (const [name, text] of fields) {
    if (name) yield make("p", "label", name);
    yield shown(text);
  }
}

function* resultOf(result, className) {
  const isBad = result.status !== "success";
  if (isBad) yield make("p", result.status === "error" ? "outcome bad" : "outcome", STATUS[result.status] ?? result.status);
  if (!result.parts.length) yield make("p", "outcome", "no output");
  for (const part of result.parts) yield shown(part, className);
  for (const more of result.more) {
    yield make("p", "label", more.heading);
    for (const part of more.parts) yield shown(part);
  }
}

function callCard(call) {
  const target = call.command ? "" : call.target;
  const card = make("section", `call kind-${call.kind}`);
  card.append(make("h3", "", icon(`kind-${call.kind}`), make("bdi", "", call.name), make("bdi", "target", target)));
  if (call.command) card.append(preformatted("terminal", make("span", "prompt", "$ "), ...textNodes(call.command)));
  add(card, fieldsOf(call));
  if (!call.results.length) card.append(make("p", "outcome", "No result was recorded for this call."));
  for (const result of call.results) add(card, resultOf(result, call.kind === "shell" ? "terminal" : ""));
  return card;
}

function words(heading, parts, className) {
  return make("section", `part words ${className}`, make("h3", "", make("bdi", "", heading)), ...parts.map((part) => shown(part)));
}

function* inputParts(inputs) {
  for (const input of inputs ?? []) yield inputPart(input);
}

const inputPart = (input) => words(input.heading === "user" ? "Person" : input.heading, input.parts, input.heading === "user" ? "person" : "");

function* stepNodes(step, row) {
  const facts = [];
  if (step.time) facts.push(clock(step.time));
  if (row.took !== null) facts.push(duration(row.took));
  yield make("header", "step-head", make("h2", "", step.number ? `Step ${figure(step.number)}` : "Before the first step"),
    BAD[row.status] ? make("span", row.isBad ? "bad" : "", BAD[row.status]) : "", ...facts.map((fact) => make("span", "", fact)));
  if (step.thought) yield words("Thought", step.thought, "thought");
  if (step.answer) yield words(step.calls ? "Text" : "Answer", step.answer, "");
  for (const call of step.calls ?? []) yield callCard(call);
  if (step.more_calls) yield make("p", "left-out", `${figure(step.more_calls)} more calls of this step are not in this file.`);
  for (const result of step.late ?? []) yield make("section", "part loose", make("h3", "", "Late result"), ...resultOf(result));
  for (const remark of step.remarks ?? []) yield make("section", "part loose", make("h3", "", remark.heading), ...remark.parts.map((part) => shown(part)));
  yield* inputParts(step.after);
}

/** The rows of the list that can be seen, and a few around them. */
function showRows() {
  const first = Math.max(0, Math.floor(list.scrollTop / ROW) - 10);
  const last = Math.min(steps, Math.ceil((list.scrollTop + list.clientHeight) / ROW) + 10);
  const isFocused = listed.contains(document.activeElement);
  for (const [step, item] of items) {
    if (step > first && step <= last) continue;
    item.remove();
    items.delete(step);
  }
  for (let step = first + 1; step <= last; step += 1) {
    const item = items.get(step) ?? rowItem(rows[step - 1], step);
    if (step === at) item.firstChild.setAttribute("aria-current", "step");
    else item.firstChild.removeAttribute("aria-current");
    if (items.has(step)) continue;
    items.set(step, item);
    listed.insertBefore(item, items.get(step + 1) ?? null);
  }
  if (isFocused) items.get(at)?.firstChild.focus({ preventScroll: true });
}

function rowItem(row, step) {
  const button = make("button", `row kind-${row.kind}`, make("span", "n", figure(step)), icon(row.symbol), make("bdi", "what", row.title),
    make("span", "took", row.took === null ? "" : duration(row.took)), make("bdi", row.isBad ? "came bad" : "came", `${BAD[row.status] ? `${BAD[row.status]}: ` : ""}${row.came}`));
  button.type = "button";
  button.addEventListener("click", () => {
    stop();
    show(step);
    showPane("step");
  });
  const item = make("li", "", button);
  item.style.top = `${(step - 1) * ROW}px`;
  item.setAttribute("aria-setsize", steps);
  item.setAttribute("aria-posinset", step);
  return item;
}

/** Bars by the time of a step, coloured by the kind of its first tool, with failures below. */
function drawChart() {
  const count = Math.min(steps, BARS);
  chart.setAttribute("viewBox", `0 0 ${count} 60`);
  const heights = rows.map((row) => Math.log1p(row.shown ?? 1000));
  const tallest = Math.max(1, heights.reduce((most, height) => Math.max(most, height), 0));
  for (let bar = 0; bar < count; bar += 1) {
    const [first, last] = [Math.floor((bar * steps) / count), Math.floor(((bar + 1) * steps) / count)];
    let longest = first;
    for (let step = first; step < last; step += 1) if (heights[step] > heights[longest]) longest = step;
    const group = rows.slice(first, last);
    const height = 4 + (36 * heights[longest]) / tallest;
    chart.append(drawing("rect", { class: `made kind-${rows[longest].kind}`, x: bar + 0.1, width: 0.8, y: 46 - height, height }));
    if (group.some((row) => row.isTurn)) chart.append(drawing("rect", { class: "turn", x: bar + 0.1, width: 0.8, y: 0, height: 3 }));
    const worst = group.find((row) => row.status === "error") ?? group.find((row) => row.isBad);
    if (worst) chart.append(drawing("rect", { class: worst.status === "error" ? "failed" : "likely", x: bar + 0.1, width: 0.8, y: 50, height: 8 }));
  }
  chart.append(drawing("rect", { class: "veil", y: 0, height: 60 }), drawing("rect", { class: "at", y: 0, height: 60 }));
}

function movePlayhead() {
  const count = Math.min(steps, BARS);
  const place = (at * count) / steps;
  const width = (2 * count) / (chart.clientWidth || 800);
  const [veil, mark] = [chart.querySelector(".veil"), chart.querySelector(".at")];
  veil.setAttribute("x", place);
  veil.setAttribute("width", Math.max(0, count - place));
  mark.setAttribute("x", Math.min(place, count - width));
  mark.setAttribute("width", width);
}

function show(step) {
  const wanted = Math.min(steps, Math.max(1, Math.round(step) || 1));
  if (wanted === at) return;
  at = wanted;
  const row = rows[at - 1];
  panel.replaceChildren();
  made = 0;
  const content = JSON.parse(blocks[at - 1].textContent);
  add(panel, inputParts(content.before), MAX_MADE / 4); // so that they cannot hide the step
  add(panel, stepNodes(content, row));
  panel.scrollTop = 0;
  slider.value = number.value = at;
  slider.setAttribute("aria-valuetext", `Step ${at}: ${row.title}`);
  const top = (at - 1) * ROW;
  if (top < list.scrollTop + ROW || top > list.scrollTop + list.clientHeight - 2 * ROW) list.scrollTop = top - list.clientHeight / 2;
  showRows();
  movePlayhead();
  const [before, after] = [failure(-1), failure(1)];
  one('[data-go="failure-before"]').disabled = !before;
  one('[data-go="failure"]').disabled = !after;
  clearTimeout(show.address);
  show.address = setTimeout(() => {
    written = at;
    location.replace(`#step-${at}`);
  }, 300);
}

/** The next step in a direction that failed or likely failed; 0 where there is none. */
function failure(direction) {
  for (let step = at + direction; step >= 1 && step <= steps; step += direction) if (rows[step - 1].isBad) return step;
  return 0;
}

const PLACES = {
  first: () => 1,
  back: () => at - 1,
  forward: () => at + 1,
  last: () => steps,
  "failure-before": () => failure(-1) || at,
  failure: () => failure(1) || at,
};

function go(place) {
  stop();
  show(PLACES[place]());
}

function stay() {
  const speed = Number(one("[data-speed]").value);
  const took = one("[data-pace]").value === "recorded" ? (rows[at - 1].shown ?? 1000) : 1000;
  return Math.max(MIN, took > MAX_PAUSE ? SHORTENED : took) / speed;
}

function setPlaying(isPlaying) {
  play.setAttribute("aria-pressed", isPlaying);
  play.setAttribute("aria-label", isPlaying ? "Pause" : "Play");
  play.replaceChildren(icon(isPlaying ? "pause" : "play"));
}

function next() {
  if (at >= steps) return stop();
  show(at + 1);
  timer = setTimeout(next, stay());
}

function start() {
  if (at >= steps) show(1);
  setPlaying(true);
  timer = setTimeout(next, stay());
}

function stop() {
  clearTimeout(timer);
  timer = 0;
  setPlaying(false);
}

function showPane(name) {
  panes.dataset.pane = name;
  for (const button of document.querySelectorAll("[data-pane-of]")) button.setAttribute("aria-pressed", button.dataset.paneOf === name);
  showRows();
}

const KEYS = { ArrowLeft: "back", ArrowRight: "forward", ArrowUp: "back", ArrowDown: "forward", Home: "first", End: "last", e: "failure", E: "failure-before" };

/** Keys that scroll the step where it has the focus. */
const isScroll = (key) => ["ArrowUp", "ArrowDown", "Home", "End"].includes(key);

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("select, input")) return;
  if (event.key === " " && !event.target.closest("button, a")) timer ? stop() : start();
  else if (KEYS[event.key] && !(isScroll(event.key) && panel.contains(event.target))) go(KEYS[event.key]);
  else return;
  event.preventDefault();
}

function stepInAddress() {
  return Number(/^#step-(\d{1,9})$/.exec(location.hash)?.[1]) || 1;
}

one("[data-theme-switch]").addEventListener("click", () => {
  const { dataset } = document.documentElement;
  const isDark = dataset.theme ? dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  dataset.theme = isDark ? "light" : "dark";
});

if (steps) {
  slider.max = number.max = steps;
  one("[data-steps]").textContent = figure(steps);
  one("[data-total]").textContent = steps === 1 ? "1 step" : `${figure(steps)} steps`;
  const failures = rows.filter((row) => row.isBad).length;
  one("[data-failures]").textContent = failures === 1 ? "1 failure" : `${figure(failures)} failures`;
  one("[data-timeline]").hidden = false;
  if (rows.every((row) => row.shown === null)) one('[data-pace] [value="recorded"]').disabled = true;
  listed.style.height = `${steps * ROW}px`;
  drawChart();
  show(stepInAddress());
  list.addEventListener("scroll", showRows, { passive: true });
  addEventListener("resize", () => {
    showRows();
    movePlayhead();
  });
  // The event of what this script wrote may come after a further move.
  addEventListener("hashchange", () => stepInAddress() === written || show(stepInAddress()));
  addEventListener("keydown", onKey);
  slider.addEventListener("input", () => {
    stop();
    show(Number(slider.value));
  });
  number.addEventListener("change", () => {
    stop();
    show(Number(number.value));
  });
  play.addEventListener("click", () => (timer ? stop() : start()));
  chart.addEventListener("click", (event) => {
    stop();
    const box = chart.getBoundingClientRect();
    show(Math.ceil(((event.clientX - box.left) / box.width) * steps));
  });
  for (const button of document.querySelectorAll("[data-go]")) button.addEventListener("click", () => go(button.dataset.go));
  for (const button of document.querySelectorAll("[data-pane-of]")) button.addEventListener("click", () => showPane(button.dataset.paneOf));
} else panel.append(make("p", "empty", "This session has no steps."));
