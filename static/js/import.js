// Import by drag and drop: files and whole folders. Each file is sent separately and shows its progress, and its
// report as soon as it is imported. Without scripts the form sends all files at once.

const form = document.querySelector("[data-import]");
const reports = document.getElementById("reports");
const list = document.getElementById("uploads");
const ignoredNote = document.getElementById("ignored");
const MAX_NAMED = 5; // of the files that are not imported
const waiting = [];
let busy = false;

/** Adds the files of a dropped entry; of a folder those in it, at any depth. */
async function findFiles(entry, found) {
  if (entry.isFile) {
    found.push(await new Promise((done, fail) => entry.file(done, fail)));
    return;
  }
  const reader = entry.createReader();
  for (;;) {
    const some = await new Promise((done, fail) => reader.readEntries(done, fail));
    if (!some.length) return;
    for (const one of some) await findFiles(one, found);
  }
}

async function dropped(transfer) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  if (!entries.length) return [...transfer.files];
  const found = [];
  for (const entry of entries) await findFiles(entry, found);
  return found;
}

/** Imports the files whose names have an accepted end, and names the others. */
function addDropped(files) {
  const ends = form.elements.files.accept.split(",");
  const isAccepted = (file) => ends.some((end) => file.name.toLowerCase().endsWith(end));
  const ignored = files.filter((file) => !isAccepted(file)).map((file) => file.name);
  showIgnored(ignored, ends);
  add(files.filter(isAccepted));
}

function showIgnored(names, ends) {
  ignoredNote.hidden = !names.length;
  const shown = names.slice(0, MAX_NAMED).join(", ");
  const others = names.length - MAX_NAMED;
  const more = others > 0 ? ` and ${others.toLocaleString("en")} more` : "";
  const accepted = `${ends.slice(0, -1).join(", ")} or ${ends.at(-1)}`;
  const count = `${names.length.toLocaleString("en")} file${names.length === 1 ? "" : "s"}`;
  ignoredNote.querySelector("span").textContent = `Not imported: ${count} whose names do not end in ${accepted}: ${shown}${more}.`;
}

function show(file) {
  const row = document.createElement("li");
  const name = document.createElement("bdi");
  const progress = document.createElement("progress");
  const state = document.createElement("span");
  name.textContent = file.name;
  progress.max = 100;
  progress.value = 0;
  progress.setAttribute("aria-label", `Upload of ${file.name}`);
  state.textContent = "waiting";
  row.append(name, progress, state);
  list.append(row);
  return { progress, state };
}

function add(files) {
  for (const file of files) waiting.push({ file, ...show(file) });
  list.hidden = !list.children.length;
  if (!busy) next();
}

async function next() {
  busy = true;
  for (let one = waiting.shift(); one; one = waiting.shift()) await send(one);
  busy = false;
}

function send({ file, progress, state }) {
  const data = new FormData(form);
  data.delete("files");
  data.append("files", file);
  const request = new XMLHttpRequest();
  request.open("POST", form.action);
  request.upload.addEventListener("progress", (event) => {
    progress.value = (100 * event.loaded) / (event.total || 1);
    state.textContent = `uploading, ${Math.floor(progress.value)} %`;
  });
  request.upload.addEventListener("load", () => {
    progress.removeAttribute("value");
    state.textContent = "importing";
  });
  return new Promise((done) => {
    request.addEventListener("loadend", () => {
      const answer = new DOMParser().parseFromString(request.responseText, "text/html");
      const found = [...answer.querySelectorAll("#reports > *")];
      progress.value = 100;
      state.textContent = request.status === 200 && found.length ? resultOf(found) : messageOf(request);
      progress.classList.toggle("progress-failed", state.textContent !== "done");
      reports.append(...found);
      done();
    });
    request.send(data);
  });
}

/** The result of a file, from its reports. */
function resultOf(found) {
  if (!found.some((report) => report.querySelector("[role=alert]"))) return "done";
  return found.some((report) => report.querySelector("table")) ? "imported in part" : "not imported";
}

function messageOf(request) {
  return request.status ? `not imported: the server answered with an error (${request.status})` : "not imported: the server cannot be reached";
}

if (form) {
  delete form.dataset.busy;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    add(form.elements.files.files);
    form.elements.files.value = "";
  });
  for (const name of ["dragover", "dragleave", "drop"]) {
    document.addEventListener(name, (event) => {
      event.preventDefault();
      form.toggleAttribute("data-over", name === "dragover");
      if (name === "drop") dropped(event.dataTransfer).then(addDropped);
    });
  }
}
