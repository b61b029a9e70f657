// The chart of the cost by day, stacked by use or by what the reader chooses, and the same as a table.
const MAX_SERIES = 6;

const USE = [
  { name: "used", className: "ec2-used", legend: "used, and homes" },
  { name: "idle", className: "ec2-idle", legend: "idle: the idle rule saw no work" },
  { name: "overhead", className: "ec2-overhead", legend: "overhead: starts, stops and what nobody used" },
];

const byDay = { bars: [], series: USE };

/** The dimension that bars are stacked by; empty for used, idle and overhead. */
const stackedBy = () => element("stack").value;

/** The values that cost the most, in that order, and one for the rest. */
function dearestSeries(sums, dimension) {
  const totals = new Map();
  for (const { key, usd } of sums) totals.set(key[1], (totals.get(key[1]) || 0) + usd);
  const values = [...totals.keys()].sort((a, b) => totals.get(b) - totals.get(a));
  const series = values.slice(0, MAX_SERIES).map((value, place) => ({
    value,
    name: valueName(dimension, value),
    className: "ec2-series-" + (place + 1),
    legend: valueName(dimension, value),
  }));
  const rest = values.length - MAX_SERIES;
  if (rest > 0) series.push({ name: "others", className: "ec2-overhead", legend: counted(rest, "other") });
  return series;
}

/** One bar for each day from the first to the last, also where nothing was spent. */
function barsOf(sums, days, series, partOf) {
  const bars = new Map();
  for (let day = days[0]; day <= days[1]; day = addDays(day, 1)) {
    bars.set(day, { day, parts: series.map(() => 0), unknowns: series.map(() => 0), isSpent: false });
  }
  for (const { key, usd, unknown } of sums) {
    const bar = bars.get(key[0]);
    if (!bar) continue;
    const part = partOf(key[1]);
    bar.parts[part] += usd;
    bar.unknowns[part] += unknown;
    bar.isSpent = true;
  }
  return [...bars.values()];
}

const total = (numbers) => numbers.reduce((sum, number) => sum + number, 0);

function sayDay(bar) {
  const said = (usd, part) => byDay.series[part].name + " " + usd;
  const isThere = (_, part) => byDay.series === USE || bar.parts[part] || bar.unknowns[part];
  const parts = bar ? knownParts(bar).map(said).filter(isThere) : [];
  setText(element("chart-day"), parts.length ? dayLabel(bar.day) + ": " + parts.join(", ") : "\u00a0");
}

function drawChart() {
  drawBars(element("chart"), byDay.bars, byDay.series, sayDay);
}

function drawLegend() {
  const entries = byDay.series.map(({ className, legend }) =>
    make("span", {}, make("i", { className }), " " + legend)
  );
  element("legend").replaceChildren(...entries);
}

async function drawDays(days) {
  const dimension = stackedBy();
  const found = await latest("days", query(days, "day," + (dimension || "purpose")));
  if (!found) return;
  byDay.series = dimension ? dearestSeries(found.sums, dimension) : USE;
  const names = byDay.series.map(({ name, value }) => (dimension ? value : name));
  const others = names.length - 1;
  byDay.bars = barsOf(found.sums, days, byDay.series, (value) => (names.includes(value) ? names.indexOf(value) : others));
  drawChart();
  drawLegend();
  sayDay(null);
  const spent = byDay.bars.filter((bar) => bar.isSpent).reverse();
  const heads = dimension ? byDay.series.map(({ name }) => name) : PARTS;
  const cells = (bar) => [dayLabel(bar.day), ...knownParts(bar), knownUsd(total(bar.parts), total(bar.unknowns))];
  element("days").replaceChildren(...filled(spent, ["Day", ...heads, "Cost"], cells));
  const usd = total(spent.flatMap((bar) => bar.parts));
  const unknown = total(spent.flatMap((bar) => bar.unknowns));
  setText(element("costs-of"), knownUsd(usd, unknown) + " from " + dayLabel(days[0]) + " to " + dayLabel(days[1]) + ", days of " + found.time_zone);
}

new ResizeObserver(() => byDay.bars.length && drawChart()).observe(element("chart"));
