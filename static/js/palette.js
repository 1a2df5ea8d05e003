// The palette: a search for sessions, steps, pages and actions. Without this file its button opens a page.

const PAUSE = 80; // milliseconds without a key before the server is asked

const button = document.querySelector("[data-palette]");
const dialog = document.getElementById("palette");

if (button && dialog) {
  const field = dialog.querySelector("[role=combobox]");
  const list = dialog.querySelector("[role=listbox]");
  const status = dialog.querySelector("[role=status]");
  const options = () => [...list.querySelectorAll("[role=option]")];
  const active = () => list.querySelector("[aria-selected=true]");

  if (/Mac|iPhone|iPad/.test(navigator.platform)) button.querySelector("kbd").textContent = "⌘ K";

  /** The address of the search, at the step in view. */
  function address() {
    const url = new URL(button.href);
    const step = document.querySelector("#step [data-at]")?.dataset.at;
    if (step) url.searchParams.set("step", step);
    url.searchParams.set("q", field.value.trim());
    return url;
  }

  function open() {
    if (dialog.open) return void dialog.close();
    field.value = "";
    [isOld, enters] = [false, false];
    list.replaceChildren();
    dialog.showModal();
    load();
  }

  let timer = null;
  let request = null; // under way; an older one is dropped
  let isOld = false; // whether the results belong to another text than the field's
  let enters = false; // whether Enter was pressed meanwhile

  async function load() {
    clearTimeout(timer);
    request?.abort();
    const mine = (request = new AbortController());
    try {
      const answer = await fetch(address(), { headers: { "HX-Request": "true" }, signal: mine.signal });
      const text = await answer.text();
      const away = answer.headers.get("HX-Redirect"); // signed out
      if (away) return void location.assign(away);
      if (answer.ok) list.innerHTML = text; // escaped by the server
      show(answer.ok ? "" : text);
    } catch (error) {
      if (error.name !== "AbortError") show("The server cannot be reached. Check the connection, then try again.");
    }
  }

  function show(problem) {
    const count = problem ? 0 : options().length;
    if (problem) list.replaceChildren();
    list.hidden = !count;
    field.setAttribute("aria-expanded", String(count > 0));
    isOld = false;
    status.textContent = problem || (count ? `${count} result${count === 1 ? "" : "s"}` : "Nothing found");
    select(options()[0]);
    if (enters) active()?.click();
    enters = false;
  }

  function select(option) {
    active()?.setAttribute("aria-selected", "false");
    option?.setAttribute("aria-selected", "true");
    option?.scrollIntoView({ block: "nearest" });
    if (option) field.setAttribute("aria-activedescendant", option.id);
    else field.removeAttribute("aria-activedescendant");
  }

  function move(by) {
    const all = options();
    if (all.length) select(all[(all.indexOf(active()) + by + all.length) % all.length]);
  }

  /** What the session page does without loading a page. Returns whether it does. */
  function doHere(option) {
    if (!document.querySelector("#step [data-at]")) return false;
    const path = option.href && new URL(option.href).pathname;
    const opener = path && [...document.querySelectorAll("main a[data-dialog]")].find((link) => link.pathname === path);
    if (!option.dataset.go && !option.dataset.do && !opener) return false;
    dialog.close();
    if (option.dataset.go) send("go", { step: Number(option.dataset.go) });
    else if (option.dataset.do) send(option.dataset.do);
    else opener.click();
    return true;
  }

  button.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    open();
  });
  document.addEventListener("keydown", (event) => {
    const isK = event.key.toLowerCase() === "k" || (event.code === "KeyK" && event.key > "\x7f"); // other alphabets
    if (!isK || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
    event.preventDefault();
    open();
  });
  field.addEventListener("input", () => {
    clearTimeout(timer);
    request?.abort(); // its results would belong to another text
    [isOld, enters] = [true, false];
    timer = setTimeout(load, PAUSE);
  });
  field.addEventListener("keydown", (event) => {
    if (event.isComposing) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      move(event.key === "ArrowDown" ? 1 : -1);
    } else if (event.key === "Enter") {
      event.preventDefault();
      if (isOld) enters = true;
      else active()?.click();
    }
  });
  list.addEventListener("pointermove", (event) => {
    const option = event.target.closest("[role=option]");
    if (option && option !== active()) select(option);
  });
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) return void dialog.close(); // beside it
    const option = event.target.closest("[role=option]");
    if (!option || event.ctrlKey || event.metaKey || event.shiftKey) return;
    if (doHere(option)) event.preventDefault();
    else if (option.matches("[href*='/exports/']")) dialog.close(); // a download leaves the page as it is
  });
}
