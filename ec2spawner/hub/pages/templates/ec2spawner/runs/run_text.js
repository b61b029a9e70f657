// A run in words and numbers.
const FINISHED = "ended";

/** What is shown as its state: one of the queue, or how it ended. */
const stateOf = (run) => (run.state === FINISHED ? run.outcome || "failed" : run.state);

const isOpen = (run) => run.state !== FINISHED;

const STATE_NAMES = {
  queued: "Queued",
  starting: "Starting",
  running: "Running",
  succeeded: "Succeeded",
  failed: "Failed",
  cancelled: "Cancelled",
  "cost-cap": "Cost cap reached",
  deadline: "Deadline passed",
  limit: "Limit reached",
};

const STATE_ORDER = Object.keys(STATE_NAMES);

const nameOf = (state) => STATE_NAMES[state] || state;

const fileName = (run) => run.path.split("/").pop();

const DELETED = "/deleted/";

/** The server that sent it, and whose home has its result. */
function serverOf(run) {
  const isDeleted = run.server.startsWith(DELETED);
  if (isDeleted) return (run.server.slice(DELETED.length) || "default server") + " (deleted)";
  return serverLabel(element("page").dataset.user, run.server) || "default server";
}

/** Where its result will be in the home. */
function resultPath(run) {
  const name = fileName(run);
  const stem = name.slice(0, name.lastIndexOf("."));
  return "runs/" + stem + "-" + run.number + (name.endsWith(".ipynb") ? ".ipynb" : ".log");
}

const valueText = (value) =>
  value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value);

const parametersText = (run) =>
  Object.entries(run.parameters)
    .map(([name, value]) => name + " = " + valueText(value))
    .join(", ");

const cellsText = (run) => (run.cells_total ? run.cells_done + " of " + counted(run.cells_total, "cell") : "");

const shareDone = (run) => (run.cells_total ? (100 * run.cells_done) / run.cells_total : 0);

const marketAndZone = (run) => [run.market, run.zone].filter(Boolean).join(" · ");

const hasCost = (run) => run.attempts > 0 || Boolean(run.usd);

const usdText = (run) => (hasCost(run) ? money(run.usd) : "–");

const hourText = (run) => (run.usd_per_hour === null || run.usd_per_hour === undefined ? "" : rate(run.usd_per_hour));

/** Cost of several: a lower bound where that of one is unknown. */
function usdOfAll(runs) {
  const begun = runs.filter(hasCost);
  if (!begun.length) return "–";
  const usd = begun.reduce((sum, run) => sum + (run.usd ?? 0), 0);
  return knownUsd(usd, begun.some((run) => run.usd === null));
}

function hourOfAll(runs) {
  const paid = runs.filter((run) => (run.usd_per_hour ?? null) !== null);
  return paid.length ? rate(paid.reduce((sum, run) => sum + run.usd_per_hour, 0)) : "";
}

/** `submitted 13:58`, `started 14:02`, `ended 16:00`: those that there are, the last one first. */
function moments(run, now) {
  const known = [
    ["ended", run.ended_at],
    ["started", run.started_at],
    ["submitted", run.submitted_at],
  ];
  return known.filter(([, at]) => at).map(([what, at]) => what + " " + clock(at, now));
}

/** How long it has run, all its instances together with what was between them; empty before. */
function ranFor(run, now) {
  if (!run.started_at) return "";
  return lasting(((run.ended_at ? Date.parse(run.ended_at) : now.getTime()) - Date.parse(run.started_at)) / 1000);
}

const countOf = (runs, state) => runs.filter((run) => stateOf(run) === state).length;

/** `3 running, 1 queued, 2 cancelled`: of several, all but those that succeeded or failed. */
function otherStates(runs) {
  return ["running", "starting", "queued", "cancelled", "cost-cap", "deadline", "limit"]
    .map((state) => [countOf(runs, state), nameOf(state).toLowerCase()])
    .filter(([count]) => count)
    .map(([count, name]) => count.toLocaleString("en-US") + " " + name)
    .join(", ");
}

/** What its runs have in common, and what differs: `{ same: {name: value}, differing: [name, …] }`. */
function comparedParameters(runs) {
  const names = [...new Set(runs.flatMap((run) => Object.keys(run.parameters)))];
  const values = new Map(names.map((name) => [name, new Set(runs.map((run) => JSON.stringify(run.parameters[name])))]));
  const differing = names.filter((name) => values.get(name).size > 1);
  const same = Object.fromEntries(
    names.filter((name) => values.get(name).size === 1).map((name) => [name, runs[0].parameters[name]])
  );
  return { same, differing };
}
