// Costs over a range of days: the chart by day, and a table by what the reader chooses.
const PURPOSES = ["used", "idle", "overhead"];
const SERIES = PURPOSES.map((name) => ({ name, className: "ec2-" + name }));
const COSTS_MS = 60000;

const costs = { path: element("costs").dataset.path, today: null, month: { usd: 0, unknown: 0 }, monthEnds: null, bars: [], readAt: -Infinity };
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
    const row = rows.get(key) || { key, parts: [0, 0, 0], unknowns: [0, 0, 0], usd: 0, unknown: 0, saved: 0, hours: 0, gpuHours: 0, idleGpuHours: 0 };
    row.parts[PURPOSES.indexOf(purpose)] += sum.usd;
    row.unknowns[PURPOSES.indexOf(purpose)] += sum.unknown;
    row.usd += sum.usd;
    row.unknown += sum.unknown;
    row.saved += sum.saved_usd;
    row.hours += sum.hours;
    row.gpuHours += sum.gpu_hours;
    if (purpose === "idle") row.idleGpuHours += sum.gpu_hours;
    rows.set(key, row);
  }
  return rows;
}

const knownParts = ({ parts, unknowns }) => parts.map((usd, part) => knownUsd(usd, unknowns[part]));
const percent = (part, whole) => (whole > 0 ? Math.round((100 * part) / whole) + " %" : "–");

function sayDay(bar) {
  const text = bar
    ? dayLabel(bar.day) + ": " + knownParts(bar).map((usd, part) => SERIES[part].name + " " + usd).join(", ")
    : "";
  setText(element("chart-day"), text || "\u00a0");
}

function drawChart() {
  drawBars(element("chart"), costs.bars, SERIES, sayDay);
}

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

async function drawDays(days) {
  const found = await latest("days", query(days, "day,purpose"));
  if (!found) return;
  const rows = byFirst(found);
  costs.bars = [];
  for (let day = days[0]; day <= days[1]; day = addDays(day, 1)) {
    const { parts, unknowns } = rows.get(day) || { parts: [0, 0, 0], unknowns: [0, 0, 0] };
    costs.bars.push({ day, parts, unknowns });
  }
  drawChart();
  sayDay(null);
  const spent = [...rows.values()].reverse();
  const cells = (row) => [dayLabel(row.key), ...knownParts(row), knownUsd(row.usd, row.unknown)];
  element("days").replaceChildren(...filled(spent, ["Day", ...PURPOSES, "Cost"], cells));
  const all = spent.reduce((sum, row) => sum + row.usd, 0);
  const unknown = spent.some((row) => row.unknown);
  setText(element("costs-of"), knownUsd(all, unknown) + " from " + dayLabel(days[0]) + " to " + dayLabel(days[1]) + ", days of " + found.time_zone);
}

async function drawBy(days) {
  const select = element("by");
  const label = select.selectedOptions[0].textContent;
  const found = await latest("by", query(days, select.value + ",purpose"));
  if (!found) return;
  const rows = [...byFirst(found).values()].sort((a, b) => b.usd - a.usd);
  const shown = rows.slice(0, 200);
  const cells = (row) => [
    row.key || "none",
    knownUsd(row.usd, row.unknown),
    ...knownParts(row),
    row.hours.toFixed(1),
    row.gpuHours.toFixed(1),
    percent(row.idleGpuHours, row.gpuHours),
    money(row.saved),
  ];
  const heads = [label, "Cost", ...PURPOSES, "Hours", "GPU-hours", "GPU idle", "Saved"];
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
  setText(element("parts"), PURPOSES.map((purpose, part) => purpose + " " + percent(month.parts[part], month.usd)).join(" · "));
  const [, idle, overhead] = knownParts(month);
  setText(element("idle-usd"), idle + " idle, " + overhead + " overhead");
  setText(element("saved"), money(month.saved));
}

/** The limit of the month below its cost, where there is one. */
function drawMonthLimit(limits, scope) {
  const limit = limits.find((each) => each.kind === "usd_per_month" && each.scope === scope);
  element("month-bar").hidden = element("month-limit").hidden = !limit;
  if (!limit) return;
  element("month-bar").firstElementChild.style.width = Math.min(limit.percent, 100) + "%";
  setText(element("month-limit"), "of " + money(limit.limit) + ", " + money(limit.left) + " left");
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

/** What the reader chose is drawn; a failure is said like any other. */
function choose(draw) {
  draw().then(
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
new ResizeObserver(() => costs.bars.length && drawChart()).observe(element("chart"));
