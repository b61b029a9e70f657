// Costs over a range of days: sums of the month, and a table by what the reader chooses.
const PURPOSES = ["used", "idle", "overhead"];
const PARTS = ["Used", "Idle", "Overhead"]; // as columns
const COSTS_MS = 60000;

const costs = { path: element("costs").dataset.path, today: null, month: { usd: 0, unknown: 0 }, monthEnds: null, readAt: -Infinity };
const lastRequest = { days: 0, by: 0, savings: 0 };

/** The answer for a part of the page; null where that part has been asked for again since. */
async function latest(part, path) {
  const number = (lastRequest[part] += 1);
  try {
    const found = await call(path);
    return number === lastRequest[part] ? found : null;
  } catch (error) {
    if (number === lastRequest[part]) throw error;
    return null;
  }
}

function addDays(day, days) {
  const at = new Date(day + "T12:00:00Z");
  at.setUTCDate(at.getUTCDate() + days);
  return at.toISOString().slice(0, 10);
}

/** First and last day of what is chosen, by the hub's calendar. */
function range() {
  const { today } = costs;
  if (!today) throw new Error("The costs have not been read yet");
  const month = today.slice(0, 8) + "01";
  const before = addDays(month, -1);
  switch (element("range").value) {
    case "last-month":
      return [before.slice(0, 8) + "01", before];
    case "30":
    case "90":
    case "365":
      return [addDays(today, 1 - Number(element("range").value)), today];
    case "days":
      return [element("from").value || month, element("to").value || today];
    default:
      return [month, today];
  }
}

const query = (days, by) => costs.path + "?from=" + days[0] + "&to=" + days[1] + "&by=" + by;

/** Sums by the first dimension, with USD and the number of unknown prices by purpose. */
function byFirst(found) {
  const rows = new Map();
  for (const sum of found.sums) {
    const [key, purpose] = sum.key;
    const row = rows.get(key) || { key, parts: [0, 0, 0], unknowns: [0, 0, 0], usd: 0, unknown: 0, saved: 0, hours: 0, gpuHours: 0, idleGpuHours: 0, measured: 0, busy: 0 };
    row.parts[PURPOSES.indexOf(purpose)] += sum.usd;
    row.unknowns[PURPOSES.indexOf(purpose)] += sum.unknown;
    row.usd += sum.usd;
    row.unknown += sum.unknown;
    row.saved += sum.saved_usd;
    row.hours += sum.hours;
    row.gpuHours += sum.gpu_hours;
    row.measured += sum.gpu_measured_hours;
    row.busy += sum.gpu_busy_hours;
    if (purpose === "idle") row.idleGpuHours += sum.gpu_hours;
    rows.set(key, row);
  }
  return rows;
}

const knownParts = ({ parts, unknowns }) => parts.map((usd, part) => knownUsd(usd, unknowns[part]));
const percent = (part, whole) => (whole > 0 ? Math.round((100 * part) / whole) + "\u00a0%" : "–");

function filled(rows, heads, cells) {
  const head = make("tr", {}, ...heads.map((text, place) =>
    make("th", { scope: "col", className: place ? "ec2-number" : "" }, text)));
  const body = rows.map((row) => {
    const [first, ...rest] = cells(row);
    return make(
      "tr",
      {},
      make("th", { scope: "row", className: "fw-normal" }, first),
      ...rest.map((text) => make("td", { className: "ec2-number" }, text))
    );
  });
  return [make("thead", {}, head), make("tbody", {}, ...body)];
}

async function drawBy(days) {
  const select = element("by");
  const label = select.selectedOptions[0].textContent;
  const found = await latest("by", query(days, select.value + ",purpose"));
  if (!found) return;
  const rows = [...byFirst(found).values()].sort((a, b) => b.usd - a.usd);
  const shown = rows.slice(0, 200);
  const cells = (row) => [
    valueName(select.value, row.key),
    knownUsd(row.usd, row.unknown),
    ...knownParts(row),
    row.hours.toFixed(1),
    row.gpuHours.toFixed(1),
    percent(row.busy, row.measured),
    percent(row.idleGpuHours, row.gpuHours),
    money(row.saved),
  ];
  const heads = [label, "Cost", ...PARTS, "Hours", "GPU-hours", "GPU use", "GPU idle", "Saved"];
  element("sums").replaceChildren(...filled(shown, heads, cells));
  const rest = rows.length - shown.length;
  setText(element("sums-rest"), !rows.length ? "Nothing was spent in these days." : rest ? "and " + rest + " more, which cost less" : "");
}

/** Below the cost of the month: how far to trust it, and more of it. */
function sayMonth(more) {
  const { unknown } = costs.month;
  setText(element("month-of"), (unknown ? "at least; some prices are unknown" : "estimate") + "; " + more);
}

/** Sums of this month by purpose, for the tiles. */
async function readMonth() {
  const found = await call(costs.path + "?by=purpose");
  costs.today = found.today;
  costs.monthEnds = Date.parse(found.month_ends);
  const month = { usd: 0, saved: 0, unknown: 0, parts: [0, 0, 0], unknowns: [0, 0, 0] };
  for (const sum of found.sums) {
    month.parts[PURPOSES.indexOf(sum.key[0])] += sum.usd;
    month.unknowns[PURPOSES.indexOf(sum.key[0])] += sum.unknown;
    month.usd += sum.usd;
    month.saved += sum.saved_usd;
    month.unknown += sum.unknown;
  }
  costs.month = month;
  const name = new Date(found.today + "T12:00:00Z").toLocaleDateString([], { month: "long", timeZone: "UTC" });
  setText(element("month-name"), name);
  setText(element("month"), month.unknown && !month.usd ? "unknown" : money(month.usd));
  const days = Number(found.today.slice(8));
  sayMonth(knownUsd(month.usd / days, month.unknown) + " a day");
  PURPOSES.forEach((purpose, part) => {
    element("part-" + purpose).style.width = (month.usd ? (100 * month.parts[part]) / month.usd : 0) + "%";
  });
  const isNothing = !month.usd && !month.unknown;
  const shares = PURPOSES.map((purpose, part) => purpose + " " + percent(month.parts[part], month.usd));
  setText(element("parts"), isNothing ? "Nothing was spent yet" : shares.join(" · "));
  const [, idle, overhead] = knownParts(month);
  setText(element("idle-usd"), isNothing ? "" : idle + " idle, " + overhead + " overhead");
  setText(element("saved"), money(month.saved));
}

/** The limit of the month below its cost, where there is one; returns it. */
function drawMonthLimit(limits, scope) {
  const limit = limits.find((each) => each.kind === "usd_per_month" && each.scope === scope);
  element("month-bar").hidden = element("month-limit").hidden = !limit;
  if (!limit) return undefined;
  element("month-bar").firstElementChild.style.width = Math.min(limit.percent, 100) + "%";
  setText(element("month-limit"), "of " + money(limit.limit) + ", " + upperBound(limit, money(limit.left)) + " left");
  return limit;
}

async function drawCosts() {
  element("days-part").hidden = element("range").value !== "days";
  const days = range();
  if (days[0] > days[1]) throw new Error("The first day is after the last");
  await drawDays(days);
  await drawBy(days);
  return days;
}

/** At most once a minute, unless asked for. */
async function readCosts(isForced) {
  if (!isForced && Date.now() - costs.readAt < COSTS_MS) return null;
  await readMonth();
  const days = await drawCosts();
  costs.readAt = Date.now(); // a failure is repeated with the next refresh, and stays in sight
  return days;
}

/** Saves the sums of the chosen days as a file with the columns of `ec2spawner report --csv`. */
async function download(by) {
  const days = range();
  const reply = await request(query(days, by) + "&format=csv");
  const link = make("a", {
    href: URL.createObjectURL(await reply.blob()),
    download: ["costs-by", by.replace(",", "-"), days[0], days[1]].join("-") + ".csv",
  });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), TIMEOUT_MS);
}

/** What the reader chose is done; a failure is said like any other. */
function choose(act) {
  act().then(
    () => (element("offline").hidden = true),
    (error) => {
      setText(element("offline-why"), error.message + ".");
      element("offline").hidden = false;
    }
  );
}

for (const id of ["range", "from", "to"]) {
  element(id).addEventListener("change", () => choose(async () => rangeChosen(await drawCosts())));
}
element("by").addEventListener("change", () => choose(async () => drawBy(range())));
element("stack").addEventListener("change", () => choose(async () => drawDays(range())));
element("csv-days").addEventListener("click", () => choose(() => download(stackedBy() ? "day," + stackedBy() : "day")));
element("csv-by").addEventListener("click", () => choose(() => download(element("by").value)));
