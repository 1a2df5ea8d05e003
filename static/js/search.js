// Suggestions while a search of all sessions is typed. Without this file the field has no suggestions.

const PAUSE = 80; // milliseconds without a key before the server is asked

const field = document.querySelector("[data-suggestions]");
const list = document.getElementById("suggestions");

if (field && list) {
  const status = document.getElementById("suggestions-status");
  const options = () => [...list.querySelectorAll("[role=option]")];
  const active = () => list.querySelector("[aria-selected=true]");
  let timer = null;
  let request = null; // under way; an older one is dropped

  for (const [name, value] of Object.entries({
    type: "text", // a field for searches may not be a combobox
    role: "combobox",
    "aria-autocomplete": "list",
    "aria-controls": list.id,
    "aria-expanded": "false",
  }))
    field.setAttribute(name, value);

  /** What is typed up to the cursor. */
  const typed = () => field.value.slice(0, field.selectionStart ?? field.value.length);

  async function load() {
    request?.abort();
    const mine = (request = new AbortController());
    const url = new URL(field.dataset.suggestions, location.href);
    url.searchParams.set("q", typed());
    try {
      const answer = await fetch(url, { headers: { "HX-Request": "true" }, signal: mine.signal });
      if (!answer.ok || answer.headers.get("HX-Redirect")) return close();
      list.innerHTML = await answer.text(); // escaped by the server
      show();
    } catch (error) {
      if (error.name !== "AbortError") close(); // a search goes without suggestions
    }
  }

  function show() {
    const count = options().length;
    list.hidden = !count;
    field.setAttribute("aria-expanded", String(count > 0));
    field.removeAttribute("aria-activedescendant");
    status.textContent = count ? `${count} suggestion${count === 1 ? "" : "s"}` : "";
  }

  function close() {
    clearTimeout(timer);
    request?.abort();
    list.replaceChildren();
    show();
  }

  function select(option) {
    active()?.setAttribute("aria-selected", "false");
    option?.setAttribute("aria-selected", "true");
    option?.scrollIntoView({ block: "nearest" });
    if (option) field.setAttribute("aria-activedescendant", option.id);
    else field.removeAttribute("aria-activedescendant");
  }

  /** Below the last option, and above the first one, is the field itself. */
  function move(by) {
    const places = [null, ...options()];
    select(places[(places.indexOf(active()) + by + places.length) % places.length]);
  }

  function choose(option) {
    const { text, start } = option.dataset;
    const goesOn = /[:<>]$/.test(text); // a filter without its value
    const before = [...typed()].slice(0, Number(start)).join("") + text + (goesOn ? "" : " ");
    const after = field.value.slice(typed().length).trimStart();
    field.value = before + after;
    field.setSelectionRange(before.length, before.length);
    field.focus();
    if (goesOn) load();
    else close();
  }

  field.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(load, PAUSE);
  });
  field.addEventListener("keydown", (event) => {
    if (event.isComposing) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (list.hidden) load();
      else move(event.key === "ArrowDown" ? 1 : -1);
    } else if (event.key === "Enter" && active()) {
      event.preventDefault();
      choose(active());
    } else if (event.key === "Enter") close();
    else if (event.key === "Escape" && !list.hidden) {
      event.preventDefault(); // the text stays
      close();
    }
  });
  field.addEventListener("blur", close);
  list.addEventListener("pointerdown", (event) => event.preventDefault()); // the field keeps the focus
  list.addEventListener("click", (event) => {
    const option = event.target.closest("[role=option]");
    if (option) choose(option);
  });
}
