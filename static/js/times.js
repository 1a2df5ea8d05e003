// Times in the reader's zone. The server writes UTC, which stays where scripts do not run.
// <time data-shown="full"> shows a time to the second, "day" a date; others keep their words. All have the exact
// time on hover, in both zones.

const day = { day: "numeric", month: "short", year: "numeric" };
const clock = { hour: "2-digit", minute: "2-digit", second: "2-digit" };
const formats = {
  full: new Intl.DateTimeFormat("en-GB", { ...day, ...clock }),
  day: new Intl.DateTimeFormat("en-GB", day),
};
const exact = new Intl.DateTimeFormat("en-GB", { ...day, ...clock, timeZoneName: "short" });

function localise(time) {
  const moment = new Date(time.dateTime);
  if (Number.isNaN(moment.getTime())) return;
  const utc = moment.toISOString().slice(0, 19).replace("T", " ");
  time.title = `${exact.format(moment)} (${utc} UTC)`;
  const format = formats[time.dataset.shown];
  if (format) time.textContent = format.format(moment);
}

function localiseIn(node) {
  if (node.nodeType !== Node.ELEMENT_NODE) return;
  if (node.matches("time[datetime]")) localise(node);
  node.querySelectorAll("time[datetime]").forEach(localise);
}

localiseIn(document.body);
new MutationObserver((changes) => {
  for (const change of changes) change.addedNodes.forEach(localiseIn);
}).observe(document.body, { childList: true, subtree: true });
