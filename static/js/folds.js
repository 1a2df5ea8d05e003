// Folds turns of the step list. The tab remembers which turns are folded, also for rows that are loaded later.

const root = document.querySelector("[data-playhead]");
const list = document.getElementById("rows");

if (root && list) {
  const KEY = `folds-of-${root.dataset.page}`;
  const foldAll = document.querySelector("[data-fold-all]");

  // Either all turns are folded except some, or no turns are folded except some.
  let { all = false, others = [] } = JSON.parse(kept(KEY, undefined, "sessionStorage")) ?? {};

  const skipped = new Set(); // turns whose rows were left out while they were folded

  const isFolded = (turn) => all !== others.includes(turn);
  const rowsOf = (turn) => [...list.querySelectorAll(`:scope > [data-turn="${turn}"]:not(.turn)`)];

  const keep = () => kept(KEY, JSON.stringify({ all, others }), "sessionStorage");

  const current = () => list.querySelector("[aria-current=step]")?.closest("li");

  /** Hides the rows of folded turns, and shows the others. The head of a folded turn is marked instead of its step. */
  function show() {
    const holder = current()?.dataset.turn;
    for (const row of list.querySelectorAll(":scope > [data-turn]")) {
      const folded = isFolded(row.dataset.turn);
      if (row.matches(".turn")) {
        row.querySelector("[data-fold]").setAttribute("aria-expanded", String(!folded));
        row.toggleAttribute("data-holds-step", folded && row.dataset.turn === holder);
      } else row.hidden = folded;
    }
    if (!foldAll) return;
    foldAll.ariaLabel = all ? "Unfold all" : "Fold all";
    foldAll.title = `${foldAll.ariaLabel} turns`;
  }

  function setFolded(turn, folded, byReader = false) {
    others = others.filter((other) => other !== turn);
    if (folded !== all) others.push(turn);
    keep();
    show();
    if (!folded) complete(turn, byReader);
  }

  /** Loads the rows of an unfolded turn if they were left out while it was folded: from its beginning, or around the
   * playhead if that has unfolded it. */
  function complete(turn, byReader) {
    const head = list.querySelector(`:scope > .turn[data-turn="${turn}"]`);
    const last = rowsOf(turn).at(-1);
    if (!head || !last) return;
    const marked = list.querySelector("[aria-current=step]")?.dataset.step;
    const step = byReader || !marked ? head.dataset.first : marked;
    if (skipped.has(turn)) return load(step);
    if (last.nextElementSibling?.matches(".more")) return;
    if (last.querySelector(`[data-step="${head.dataset.last}"]`) || last.matches(".take")) return;
    load(step);
  }

  /** Scrolls to the row of the playhead, or to the head of its turn. */
  function reveal() {
    const row = current();
    const head = row?.hidden && list.querySelector(`:scope > .turn[data-turn="${row.dataset.turn}"]`);
    (head || row)?.scrollIntoView({ block: "nearest" });
  }

  function load(step) {
    skipped.clear();
    return loadInto(list, `${root.dataset.page}/steps?around=${step}${root.dataset.asOf}${root.dataset.filter}`);
  }

  list.addEventListener("click", (event) => {
    const turn = event.target.closest("[data-fold]")?.closest(".turn").dataset.turn;
    if (turn) setFolded(turn, !isFolded(turn), true);
  });

  foldAll?.addEventListener("click", async () => {
    [all, others] = [!all, []];
    keep();
    show();
    // Only one request: with several at once, the last response would replace the others.
    const step = list.querySelector("[aria-current=step]") ?? list.querySelector("[data-step]");
    if (!all && step) await load(step.dataset.step);
    reveal();
  });

  // When the playhead reaches a step, its turn unfolds.
  list.addEventListener("playhead:marked", (event) => {
    const turn = event.target.closest("li").dataset.turn;
    if (turn && isFolded(turn)) setFolded(turn, false);
  });

  // No further rows of a folded turn are loaded.
  list.addEventListener("htmx:configRequest", (event) => {
    const more = event.target.closest(".more");
    if (!more) return;
    const isEarlier = event.target.matches("[data-earlier]");
    const next = isEarlier ? more.nextElementSibling : more.previousElementSibling;
    const turn = next?.dataset.turn;
    if (!turn || !isFolded(turn)) return;
    event.detail.parameters.folded = turn;
    skipped.add(turn);
  });

  // Live sessions replace the head of a turn that grows.
  new MutationObserver(show).observe(list, { childList: true });
  show();
}
