// The keys of the overview: j and k move between the lines of its lists; the others open the run.

const overview = document.getElementById("overview");

/** The first link of each line that leads to steps. */
function links() {
  const lines = [...overview.querySelectorAll(".findings > li")];
  return lines.map((line) => line.querySelector("a[href]")).filter((link) => link?.checkVisibility());
}

function move(by) {
  const all = links();
  const here = all.findIndex((link) => link.closest("li").contains(document.activeElement));
  const next = here < 0 ? 0 : Math.min(Math.max(here + by, 0), all.length - 1);
  all[next]?.focus({ focusVisible: true });
}

onKey((found) => {
  if (found.href) location.assign(found.href);
  else move(found.action === "next-line" ? 1 : -1);
});
