// The table of servers, and of instances that have none: filtered, ordered, 25 rows at a time. The
// workers of a cluster follow their server.
// Rows stay in place when refreshed, so that neither focus nor position is lost.
const PAGE_ROWS = 25;

const isServer = (row) => row.state !== "kept" && row.state !== "unassigned";

/** Other stores pay for their instances. */
const isPaidHere = (row) => row.status !== "foreign";

const FILTERS = [
  ["all", "All", isServer],
  ["running", "Running", (row) => row.state === "ready" && !row.idle_since],
  ["idle", "Idle", (row) => row.state === "ready" && Boolean(row.idle_since)],
  ["starting", "Starting", (row) => row.state === "waiting" || row.state === "starting"],
  ["ending", "Stopping", (row) => row.state === "ending"],
  ["kept", "Kept", (row) => row.state === "kept"],
  ["unassigned", "Unassigned", (row) => row.state === "unassigned"],
];

const KEYS = {
  usd: (row) => -(row.known_usd ?? 0),
  usd_per_hour: (row) => -(row.known_usd_per_hour ?? 0),
  idle_since: (row) => (row.idle_since ? Date.parse(row.idle_since) : Infinity),
  since: (row) => Date.parse(row.since),
};

const table = { rows: [], groups: [], now: new Date(), filter: "all", page: 0, shown: new Map() };

const stateOf = (row) =>
  row.state === "waiting" ? "starting" : row.state === "ready" && row.idle_since ? "idle" : row.state;

const place = (row) =>
  ([row.instance_type, row.market, row.zone].filter(Boolean).join(" · ") || "no instance yet") +
  payerNote(row);

function keptNote(row, now) {
  if (row.is_ahead) return "waits for this user, expected until " + clock(row.until, now);
  const what = row.then === "linger" ? "runs" : "is stopped, with " + row.disk_gib + " GiB of disk";
  return what + ", kept until " + clock(row.until, now);
}

const UNASSIGNED = {
  starting: "boots, or waits for a server",
  pool: "in the warm pool",
  ending: "is about to be terminated",
  foreign: "of another store: this hub does not end it",
};

const EVENTS = {
  "instance-reboot": "AWS reboots it on ",
  "system-reboot": "AWS reboots it on ",
  "instance-retirement": "AWS stops it on ",
  "instance-stop": "AWS stops it on ",
  "system-maintenance": "AWS maintains its host on ",
};

/** What AWS has announced of the instance of a row, days in advance; or empty. */
function announced(row, now) {
  const event = row.scheduled_event;
  return event ? EVENTS[event.code] + clock(event.not_before, now) : "";
}

/** Until when it is kept on, and by whom. */
function extension(row, now) {
  if (row.state !== "ready" || !row.extended_until || Date.parse(row.extended_until) <= now) return "";
  return "kept on until " + clock(row.extended_until, now) + " by " + (row.extended_by || "its user");
}

function doing(row, now) {
  if (row.state === "kept") return keptNote(row, now);
  if (row.state === "unassigned") return UNASSIGNED[row.status];
  if (row.interruption_at) return "AWS reclaims it at " + clock(row.interruption_at, now);
  if (row.state === "waiting") return "waiting for an instance";
  if (row.state === "starting") return isWorker(row) ? "joining the cluster" : "starting";
  if (isRun(row) && row.state === "ready") return "runs to completion";
  if (row.state === "ending") return row.doing ? "stopping: " + row.doing : "stopping";
  if (!row.idle_since) return row.doing || (isWorker(row) ? "busy" : "in use");
  const idle = "idle " + lasting((now - Date.parse(row.idle_since)) / 1000);
  return row.stop_at ? idle + ", stops at " + clock(row.stop_at, now) : idle;
}

function searched(row, words) {
  const text = [row.user, row.server, row.profile, row.instance_type, row.zone, row.market, row.doing, row.payer]
    .join(" ")
    .toLowerCase();
  return words.every((word) => text.includes(word));
}

/** Each server with its workers behind it, and each other row alone: `[[server, worker, …], …]`. */
function groups() {
  const heads = new Map();
  const found = [];
  const nameOf = (user, server) => JSON.stringify([user, server]);
  for (const row of table.rows.filter((row) => !isWorker(row))) {
    const group = [row];
    found.push(group);
    if (isServer(row)) heads.set(nameOf(row.user, row.server), group);
  }
  for (const row of table.rows.filter(isWorker).sort((a, b) => a.worker - b.worker)) {
    const group = heads.get(nameOf(row.user, row.head));
    if (group) group.push(row);
    else found.push([row]); // its server has ended, and so does it
  }
  return found;
}

const matching = (filter) => table.groups.filter(([first]) => filter(first));

/** What the rows of a group are worth together in this order. */
function keyOf(group, key) {
  const values = group.map(key);
  const isSum = key === KEYS.usd || key === KEYS.usd_per_hour;
  return isSum ? values.reduce((sum, value) => sum + value, 0) : values[0];
}

function selection() {
  const [, , filter] = FILTERS.find(([name]) => name === table.filter);
  const words = element("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const found = matching(filter).filter((group) => group.some((row) => searched(row, words)));
  const key = KEYS[element("sort").value];
  const byName = ([a], [b]) => a.user.localeCompare(b.user) || a.server.localeCompare(b.server);
  return found.sort((a, b) => (key ? keyOf(a, key) - keyOf(b, key) : 0) || byName(a, b)).flat();
}

function newRow() {
  const cell = (className, ...children) => {
    const node = make("td", { className }, ...children);
    node.setAttribute("role", "cell");
    return node;
  };
  const part = (tag, className) => make(tag, { className: className || "" });
  const dot = part("span", "ec2-dot");
  dot.setAttribute("aria-hidden", "true");
  const made = {
    dot,
    server: part("span", "visually-hidden"),
    name: part("span"),
    profile: part("div"),
    place: part("div", "ec2-minor"),
    since: part("span"),
    doing: part("div"),
    announced: part("div", "ec2-minor"),
    kept: part("div", "ec2-minor"),
    gpu: part("div", "ec2-minor"),
    gpuBar: part("div", "ec2-bar"),
    usd: part("strong"),
    rate: part("div", "ec2-minor"),
    unknown: part("div", "ec2-minor"),
    buttons: part("div", "ec2-row-actions"),
  };
  made.gpuBar.append(make("span", {}));
  made.gpuBar.setAttribute("aria-hidden", "true");
  const name = make("th", { scope: "row", className: "fw-semibold" }, dot, made.server, made.name);
  name.setAttribute("role", "rowheader");
  const row = make(
    "tr",
    {},
    name,
    cell("", made.profile, made.place),
    labelled("since", cell("ec2-number", made.since)),
    cell("", made.doing, made.announced, made.kept, made.gpu, made.gpuBar),
    cell("ec2-number ec2-cost", made.usd, made.rate, made.unknown),
    cell("", made.buttons)
  );
  row.setAttribute("role", "row");
  return { row, made };
}

function writeRow({ row, made }, server, now, isBelow) {
  row.classList.toggle("ec2-below", isBelow);
  made.dot.dataset.state = stateOf(server);
  // Its server is the row above, which a screen reader may not have read.
  setText(made.server, isBelow ? serverName(server).replace(/worker \d+$/, "") : "");
  setText(made.name, isBelow ? "worker " + server.worker : serverName(server));
  setText(made.profile, server.profile);
  setText(made.place, place(server));
  setText(made.since, clock(server.since, now));
  setText(made.doing, doing(server, now));
  setText(made.announced, announced(server, now));
  setText(made.kept, extension(server, now));
  const gpu = server.gpu_percent ?? null;
  setText(made.gpu, gpu === null ? "" : "GPU " + Math.round(gpu) + " %");
  made.gpuBar.hidden = gpu === null;
  made.gpuBar.firstChild.style.width = (gpu ?? 0) + "%";
  const isCounted = isServer(server) && (server.instance_id || server.usd);
  setText(made.usd, isCounted ? costOf(server) : "–");
  setText(made.rate, server.instance_type ? priceOf(server) : "");
  setText(made.unknown, server.known_usd_per_hour ? unknownPrices([server]) : "");
  explainUnknown(made.unknown, [server]);
}

/** What rows cost together, as far as it is known. */
function rateOf(rows) {
  const usd = rows.reduce((sum, row) => sum + (row.known_usd_per_hour ?? 0), 0);
  return knownRate(usd, unknownPrices(rows));
}

function drawFilters() {
  const box = element("filters");
  for (const [name, label, matches] of FILTERS) {
    let button = box.querySelector('[data-filter="' + name + '"]');
    if (!button) {
      button = make("button", { type: "button", className: "btn btn-sm btn-outline-contrast" });
      button.dataset.filter = name;
      button.addEventListener("click", () => {
        table.filter = name;
        table.page = 0;
        drawTable();
      });
      box.append(button);
    }
    const found = matching(matches).map(([first]) => first);
    const paid = found.filter((row) => !isServer(row) && isPaidHere(row));
    const cost = paid.length ? " · " + rateOf(paid) : "";
    setText(button, label + " " + found.length.toLocaleString("en-US") + cost);
    button.setAttribute("aria-pressed", String(table.filter === name));
    button.classList.toggle("active", table.filter === name);
  }
}

function emptyText() {
  const [, , matches] = FILTERS.find(([name]) => name === table.filter);
  const isThere = table.rows.some(matches);
  if (table.filter === "kept") return isThere ? "No kept instance matches." : "No instance is kept.";
  if (table.filter === "unassigned") return isThere ? "No unassigned instance matches." : "Each instance has a server.";
  return table.rows.some(isServer) ? "No server matches." : "No server runs now.";
}

function drawTable() {
  table.groups = groups();
  drawFilters();
  const found = selection();
  const pages = Math.max(Math.ceil(found.length / PAGE_ROWS), 1);
  table.page = Math.min(table.page, pages - 1);
  const first = table.page * PAGE_ROWS;
  const rows = found.slice(first, first + PAGE_ROWS);
  const body = element("rows");
  const kept = new Map();
  rows.forEach((server, index) => {
    const key = JSON.stringify([server.user, server.server, server.state === "kept" && server.instance_id]);
    const entry = table.shown.get(key) || newRow();
    kept.set(key, entry);
    const above = rows[index - 1];
    const isBelow = isWorker(server) && Boolean(above) && above.user === server.user;
    writeRow(entry, server, table.now, isBelow && (isWorker(above) ? above.head : above.server) === server.head);
    writeButtons(entry.made.buttons, server);
    if (body.children[index] !== entry.row) body.insertBefore(entry.row, body.children[index] || null);
  });
  for (const [key, entry] of table.shown) if (!kept.has(key)) entry.row.remove();
  table.shown = kept;
  element("empty").hidden = found.length > 0;
  setText(element("empty"), emptyText());
  const last = first + rows.length;
  setText(element("shown"), found.length ? first + 1 + "–" + last + " of " + found.length : "");
  element("previous").disabled = table.page === 0;
  element("next").disabled = table.page >= pages - 1;
  element("previous").hidden = element("next").hidden = pages === 1;
}

function turn(by) {
  table.page += by;
  drawTable();
}

element("previous").addEventListener("click", () => turn(-1));
element("next").addEventListener("click", () => turn(1));
element("sort").addEventListener("change", drawTable);
element("search").addEventListener("input", () => {
  table.page = 0;
  drawTable();
});
