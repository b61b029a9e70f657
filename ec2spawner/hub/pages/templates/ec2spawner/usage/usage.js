// A user's own sessions: what runs is read again every ten seconds, what has ended once.
const ended = { sessions: new Map(), before: undefined };

const MAX_PAYERS = 3;
const MIN_SESSION_SECONDS = 600; // shorter ones say little about an hour

const lasted = (row) => (Date.parse(row.ended_at) - Date.parse(row.since)) / 1000;

const REASONS = { user: "you stopped it", admin: "an admin stopped it" };

const STATES = { waiting: "waiting for an instance", starting: "starting", ending: "stopping" };

function sessionRow({ server, what, place, payer, since, seconds, idle, ended, cost, isRunning }, now) {
  const cell = (className, ...children) => {
    const node = make("td", { className }, ...children);
    node.setAttribute("role", "cell");
    return node;
  };
  const name = make("th", { scope: "row", className: isRunning ? "fw-semibold" : "fw-normal" }, server);
  name.setAttribute("role", "rowheader");
  const row = make(
    "tr",
    {},
    name,
    cell("", make("div", {}, what), make("div", { className: "ec2-minor" }, place, payerNote({ payer }))),
    labelled("from", cell("ec2-number", clock(since, now))),
    labelled("for", cell("ec2-number", lasting(seconds))),
    cell("", ended),
    cell(
      "ec2-number ec2-cost",
      make("strong", {}, cost),
      make("div", { className: "ec2-minor" }, idle ? percent(idle, seconds) + " idle" : "")
    )
  );
  row.setAttribute("role", "row");
  return row;
}

function runningRow(user, row, now) {
  const idle = row.idle_since && "idle for " + lasting((now - Date.parse(row.idle_since)) / 1000);
  return sessionRow(
    {
      server: serverName({ user, server: row.server }),
      what: row.profile,
      place: [row.instance_type, row.market].filter(Boolean).join(" · "),
      payer: row.payer,
      since: row.since,
      seconds: (now - Date.parse(row.since)) / 1000,
      ended: STATES[row.state] || idle || "running",
      cost: costOf(row),
      isRunning: true,
    },
    now
  );
}

function endedRow(user, row, now) {
  return sessionRow(
    {
      server: serverName({ user, server: row.server }),
      what: row.profile,
      place: [row.instance_types.join(", then "), row.markets.join(", then ")].filter(Boolean).join(" · "),
      payer: row.payer,
      since: row.since,
      seconds: lasted(row),
      idle: row.idle_seconds,
      ended: localTimes(row.message) || REASONS[row.reason] || row.reason,
      cost: costOf(row),
    },
    now
  );
}

/** Adds what an answer has to what earlier ones had. */
function drawEnded(found, now) {
  for (const row of found.sessions) ended.sessions.set([row.server, row.since, row.ended_at].join(), row);
  const rows = [...ended.sessions.values()].sort((a, b) => Date.parse(b.ended_at) - Date.parse(a.ended_at));
  element("ended").replaceChildren(...rows.map((row) => endedRow(found.user, row, now)));
  element("more").hidden = !ended.before;
  element("empty").hidden = rows.length + found.servers.length > 0;
}

function drawNow(found, now) {
  const usd = found.servers.reduce((sum, row) => sum + (row.known_usd_per_hour ?? 0), 0);
  const unknown = unknownPrices(found.servers);
  setText(element("rate"), knownRate(usd, unknown));
  setText(
    element("rate-of"),
    countedKinds(found.servers, ", ") +
      ", an estimate" + (unknown && "; " + unknown)
  );
  explainUnknown(element("rate-of"), found.servers);
  element("running").replaceChildren(...found.servers.map((row) => runningRow(found.user, row, now)));
}

/** What files cost, with or without a server. */
function drawStorage(storage) {
  const gib = storage ? storage.home_gib + storage.snapshot_gib : 0;
  const cost = storage && storage.usd_per_month !== null ? "about " + money(storage.usd_per_month) : "unknown cost";
  const size = gib.toLocaleString("en-US", { maximumFractionDigits: 1 });
  element("storage").hidden = !gib;
  setText(element("storage"), "Home and snapshots: " + size + " GiB, " + cost + " a month, also while no server runs");
}

/** Who pays for this month, unless it is the user only. */
async function drawPayers(user) {
  const { sums } = await call(costs.path + "?by=payer");
  const paid = sums.filter((sum) => sum.usd || sum.unknown).sort((a, b) => b.usd - a.usd);
  const said = paid.slice(0, MAX_PAYERS).map(({ key: [payer], usd, unknown }) => {
    const name = payer === "user:" + user ? "yourself" : payer.replace(":", " ");
    return name + " " + knownUsd(usd, unknown);
  });
  const rest = paid.length - said.length;
  setText(element("month-payers"), "paid by " + said.join(", ") + (rest > 0 ? " and " + counted(rest, "other") : ""));
  element("month-payers").hidden = paid.every(({ key: [payer] }) => payer === "user:" + user);
}

/** How many hours like the last session the rest of the month's limit pays for, unless the month
 * ends before. */
function drawHoursLeft(found, limit) {
  const last = found.sessions.find((row) => row.usd && lasted(row) >= MIN_SESSION_SECONDS);
  const node = element("month-limit");
  if (!limit || !last || found.servers.length || !costs.monthEnds) return;
  const hours = (limit.left / last.usd) * (lasted(last) / 3600);
  if (hours >= (costs.monthEnds - Date.parse(found.now)) / 3600000) return;
  setText(node, node.textContent + ", " + upperBound(limit, "about " + Math.round(hours).toLocaleString("en-US") + " h of " + last.profile));
}

function drawOwnMonth(found) {
  drawHoursLeft(found, drawMonthLimit(found.limits, "user:" + found.user));
}

async function readUsage() {
  const found = await call("ec2/usage");
  const now = new Date(found.now);
  if (ended.before === undefined) ended.before = found.more_before;
  drawNow(found, now);
  drawEnded(found, now);
  drawStorage(found.storage);
  drawOwnLimits(found.limits, now);
  drawOwnMonth(found);
  if (!(await readCosts())) return;
  drawOwnMonth(found); // with the end of the month
  await drawPayers(found.user);
}

function rangeChosen() {}

element("more").addEventListener("click", async () => {
  element("more").disabled = true;
  try {
    const found = await call("ec2/usage?before=" + encodeURIComponent(ended.before));
    ended.before = found.more_before;
    drawEnded(found, new Date(found.now));
  } catch (error) {
    setText(element("offline-why"), error.message + ".");
    element("offline").hidden = false;
  } finally {
    element("more").disabled = false;
  }
});

keepFresh(readUsage);
