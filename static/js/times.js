// Times in the reader's zone. The server writes UTC, which is shown if scripts do not run.
// <time data-shown="full"> shows a time to the second, "day" a date, "clock" the time of day, "minute" the same without seconds,
// "stamp" day and time; others keep their text. All show the exact time on hover, in both zones, except texts of pictures, which
// have data-datetime.

const day = { day: "numeric", month: "short", year: "numeric" };
const clock = { hour: "2-digit", minute: "2-digit", second: "2-digit" };
const formats = {
  full: new Intl.DateTimeFormat("en-GB", { ...day, ...clock }),
  clock: new Intl.DateTimeFormat("en-GB", clock),
  day: new Intl.DateTimeFormat("en-GB", day),
  minute: new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" }),
  stamp: new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" }),
};
const exact = new Intl.DateTimeFormat("en-GB", { ...day, ...clock, timeZoneName: "short" });

const TIMES = "time[datetime], [data-datetime]";

function localise(time) {
  const moment = new Date(time.dateTime ?? time.dataset.datetime);
  if (Number.isNaN(moment.getTime())) return;
  const utc = moment.toISOString().slice(0, 19).replace("T", " ");
  if (time.dateTime) time.title = `${exact.format(moment)} (${utc} UTC)`;
  const format = formats[time.dataset.shown];
  if (format) time.textContent = format.format(moment);
}

function localiseIn(node) {
  if (node.nodeType !== Node.ELEMENT_NODE) return;
  if (node.matches(TIMES)) localise(node);
  node.querySelectorAll(TIMES).forEach(localise);
}

localiseIn(document.body);
new MutationObserver((changes) => {
  for (const change of changes) change.addedNodes.forEach(localiseIn);
}).observe(document.body, { childList: true, subtree: true });

// Fields for a date and time: addresses and forms contain UTC; the reader sees and types times in their own zone.
const FIELD = 'input[type="datetime-local"]';
const twoDigits = (number) => String(number).padStart(2, "0");

function localTime(utc) {
  const moment = new Date(/Z|[+-]\d\d:?\d\d$/.test(utc) ? utc : `${utc}Z`);
  if (Number.isNaN(moment.getTime())) return "";
  const date = [moment.getFullYear(), moment.getMonth() + 1, moment.getDate()].map(twoDigits).join("-");
  return `${date}T${[moment.getHours(), moment.getMinutes(), moment.getSeconds()].map(twoDigits).join(":")}`;
}

for (const field of document.querySelectorAll(FIELD)) {
  const words = field.closest("label")?.firstChild;
  if (words?.nodeType === Node.TEXT_NODE) words.data = words.data.replace(" (UTC)", "");
  field.title = `In your time zone (${Intl.DateTimeFormat().resolvedOptions().timeZone})`;
  const given = field.getAttribute("value");
  if (given) field.value = localTime(given);
}
document.addEventListener("formdata", (event) => {
  for (const { name, value } of event.target.querySelectorAll(FIELD)) {
    if (value) event.formData.set(name, new Date(value).toISOString().slice(0, 19));
  }
});

/** A duration as the server writes it (core/dates.py): 340 ms, 2.1 s, 3 min 20 s, 2 h 5 min, 5 days 20 h. */
window.durationText = (milliseconds) => {
  if (milliseconds < 999.5) return `${Math.round(milliseconds)} ms`;
  if (milliseconds < 59_950) return `${(milliseconds / 1000).toFixed(1)} s`;
  const seconds = Math.round(milliseconds / 1000);
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${seconds % 60} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return `${hours} h ${minutes % 60} min`;
  const days = Math.floor(hours / 24);
  return `${days} day${days > 1 ? "s" : ""} ${hours % 24} h`;
};

// How long something has been running: <span data-running="…"> contains the milliseconds at the time of the response, so
// the reader's clock does not matter.
const begun = new WeakMap();

function tick() {
  for (const span of document.querySelectorAll("[data-running]")) {
    if (!begun.has(span)) begun.set(span, performance.now() - Number(span.dataset.running));
    const seconds = Math.floor((performance.now() - begun.get(span)) / 1000);
    span.textContent = seconds < 60 ? `${seconds} s` : durationText(seconds * 1000);
  }
}
setInterval(tick, 1000);
