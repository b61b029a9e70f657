// A user's own sessions: what runs is read again every ten seconds, what has ended once.
const ended = { sessions: new Map(), before: undefined };

const REASONS = { user: "you stopped it", admin: "an admin stopped it" };

const STATES = { waiting: "waiting for an instance", starting: "starting", ending: "stopping" };

function sessionRow({ server, what, place, payer, since, seconds, idle, ended, usd, isRunning }, now) {
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
    cell("", make("div", {}, what), make("div", { className: "ec2-minor" }, place, payerNote(payer))),
    cell("ec2-number", clock(since, now)),
    cell("ec2-number", lasting(seconds)),
    cell("", ended),
    cell(
      "ec2-number ec2-cost",
      make("strong", {}, money(usd)),
      make("div", { className: "ec2-minor" }, idle ? percent(idle, seconds) + " idle" : "")
    )
  );
  row.setAttribute("role", "row");
  return row;
}

/** Who pays, unless it is the user. */
const payerNote = (payer) => (payer.startsWith("user:") ? "" : " · paid by " + payer.replace(":", " "));

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
      usd: row.usd,
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
      seconds: (Date.parse(row.ended_at) - Date.parse(row.since)) / 1000,
      idle: row.idle_seconds,
      ended: row.message || REASONS[row.reason] || row.reason,
      usd: row.usd,
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
  const usd = found.servers.reduce((sum, row) => sum + (row.usd_per_hour ?? 0), 0);
  const unknown = found.servers.filter((row) => row.instance_id && row.usd_per_hour === null).length;
  setText(element("rate"), unknown && !usd ? "unknown" : money(usd) + "/h");
  setText(
    element("rate-of"),
    counted(found.servers.length, "server") + ", " +
      (unknown ? "at least; " + counted(unknown, "price") + " unknown" : "an estimate")
  );
  element("running").replaceChildren(...found.servers.map((row) => runningRow(found.user, row, now)));
}

async function readUsage() {
  const found = await call("ec2/usage");
  const now = new Date(found.now);
  if (ended.before === undefined) ended.before = found.more_before;
  drawNow(found, now);
  drawEnded(found, now);
  drawLimits(found.limits);
  drawMonthLimit(found.limits, "user:" + found.user);
  await readCosts();
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
