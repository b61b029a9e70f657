// Reads the runs: every five seconds while one has not ended, else every thirty.
const OPEN_MS = 5000;
const ENDED_MS = 30000;

const runs = {
  byNumber: new Map(),
  now: new Date(),
  isRead: false,
  /** Grows with each change by a click: what was read before it is old. */
  changes: 0,

  all: () => [...runs.byNumber.values()],
  ofArray: (number) => runs.all().filter((run) => run.array === number).sort((a, b) => a.number - b.number),

  add(found) {
    runs.now = new Date(found.now);
    for (const run of found.runs) runs.byNumber.set(run.number, run);
  },

  /** What a call has changed. */
  changed(found) {
    runs.changes += 1;
    runs.add(found);
    draw();
    refresh();
  },

  /** The list is of the newest runs: an array may begin before it. */
  async readArray(number) {
    runs.add(await call("ec2/runs/" + number + "?array"));
    draw();
  },
};

function drawTiles(all) {
  const busy = all.filter((run) => isOpen(run) && run.state !== "queued");
  const ended = all.filter((run) => !isOpen(run));
  setText(element("running"), busy.length.toLocaleString("en-US"));
  setText(element("rate"), busy.length ? (hourOfAll(busy) || "no instance yet") + ", an estimate" : "nothing costs money now");
  setText(element("queued"), countOf(all, "queued").toLocaleString("en-US"));
  setText(element("ended"), ended.length ? counted(ended.length, "run") + " ended, " + countOf(ended, "succeeded").toLocaleString("en-US") + " succeeded" : "none has ended yet");
  setText(element("usd"), usdOfAll(all));
  setText(element("usd-of"), counted(all.length, "run") + ", an estimate");
}

function draw() {
  const all = runs.all();
  element("content").hidden = !all.length;
  drawHow(!all.length);
  if (!all.length) return;
  drawTiles(all);
  drawTable();
  drawDetails();
  const most = Number(element("most").dataset.max);
  element("most").hidden = all.length < most;
  setText(element("most"), "These are the newest " + most.toLocaleString("en-US") + " runs.");
}

/** How to run something: open where there is nothing else. */
function drawHow(isEmpty) {
  element("none").hidden = !isEmpty;
  if (element("how-part").hidden) {
    element("how").open = isEmpty;
    if (isEmpty) fillHow();
    else element("how").addEventListener("toggle", fillHow, { once: true });
  }
  element("how-part").hidden = false;
}

/** Writes the hub's address and the reader's default profile into the examples. */
async function fillHow() {
  const fill = (name, text) => {
    for (const node of document.querySelectorAll('[data-fill="' + name + '"]')) setText(node, text);
  };
  fill("hub", location.origin + BASE);
  try {
    const { profiles } = await call("ec2/profiles");
    if (!profiles.length) return;
    fill("profile", (profiles.find((each) => each.default) || profiles[0]).slug);
    setText(element("profiles"), "Your profiles: " + profiles.map((each) => each.slug + " (" + each.display_name + ")").join(", ") + ".");
  } catch {
    setText(element("profiles"), "For PROFILE write the name of one of your profiles.");
  }
}

async function readRuns() {
  const before = runs.changes;
  const found = await call("ec2/runs");
  if (before !== runs.changes) return;
  runs.isRead = true;
  const earlier = runs.all().filter((run) => table.opened.has(run.array));
  runs.byNumber = new Map(earlier.map((run) => [run.number, run]));
  runs.add(found);
  draw();
  const listed = new Set(found.runs.map((run) => run.number));
  for (const number of table.opened.keys()) if (!listed.has(number)) await runs.readArray(number);
}

const refresh = keepFresh(readRuns, () => (!runs.isRead || runs.all().some(isOpen) ? OPEN_MS : ENDED_MS));
