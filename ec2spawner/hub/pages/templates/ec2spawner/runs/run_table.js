// The table of runs: filtered, ordered, 25 rows at a time. An array is one row until it is opened.
// Rows stay in place when refreshed, so that neither focus nor position is lost.
const PAGE_ROWS = 25;

const isStopped = (run) => !isOpen(run) && !["succeeded", "failed", "cancelled"].includes(stateOf(run));

const FILTERS = [
  ["all", "All", () => true],
  ["queued", "Queued", (run) => run.state === "queued"],
  ["running", "Running", (run) => run.state === "starting" || run.state === "running"],
  ["succeeded", "Succeeded", (run) => stateOf(run) === "succeeded"],
  ["failed", "Failed", (run) => stateOf(run) === "failed"],
  ["stopped", "Ended by a cap", isStopped],
  ["cancelled", "Cancelled", (run) => stateOf(run) === "cancelled"],
];

const usdOf = (item) => item.runs.reduce((sum, run) => sum + (run.usd ?? 0), 0);

const ORDERS = {
  newest: (a, b) => b.number - a.number,
  oldest: (a, b) => a.number - b.number,
  usd: (a, b) => usdOf(b) - usdOf(a) || b.number - a.number,
  file: (a, b) => a.runs[0].path.localeCompare(b.runs[0].path) || b.number - a.number,
};

const table = { filter: "all", page: 0, shown: new Map(), opened: new Map() };

/** Runs of their own, and arrays with all of their runs: `{ number, isArray, runs }`. */
function itemsOf(found) {
  const arrays = new Map();
  const items = [];
  for (const run of found) {
    if (!run.array) {
      items.push({ number: run.number, isArray: false, runs: [run] });
      continue;
    }
    if (!arrays.has(run.array)) {
      arrays.set(run.array, { number: run.array, isArray: true, runs: [] });
      items.push(arrays.get(run.array));
    }
    arrays.get(run.array).runs.push(run);
  }
  for (const { runs: all } of arrays.values()) all.sort((a, b) => a.number - b.number);
  return items;
}

function searched(run, words) {
  const text = [run.number, serverOf(run), run.path, parametersText(run), run.profile_name, run.instance_type, run.zone, run.market, nameOf(stateOf(run)), run.message, run.payer]
    .join(" ")
    .toLowerCase();
  return words.every((word) => text.includes(word));
}

function selection() {
  const [, , matches] = FILTERS.find(([name]) => name === table.filter);
  const words = element("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  return itemsOf(runs.all())
    .map((item) => ({ ...item, matching: item.runs.filter((run) => matches(run) && searched(run, words)) }))
    .filter((item) => item.matching.length)
    .sort(ORDERS[element("sort").value]);
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
    const count = runs.all().filter(matches).length;
    setText(button, label + " " + count.toLocaleString("en-US"));
    button.hidden = !count && name === "stopped" && table.filter !== name;
    button.setAttribute("aria-pressed", String(table.filter === name));
    button.classList.toggle("active", table.filter === name);
  }
}

/** The row below an array with its runs; null while it is closed. */
function openedRow(item) {
  const opened = table.opened.get(item.number);
  if (!opened) return null;
  drawArray(opened.table, item);
  return opened.row;
}

function toggle(item) {
  const opened = table.opened.get(item.number);
  if (opened) {
    opened.row.remove();
    table.opened.delete(item.number);
  } else {
    const inner = newArrayTable();
    const cell = make("td", { colSpan: 6 }, inner.node);
    cell.setAttribute("role", "cell");
    const row = make("tr", { className: "ec2-inner" }, cell);
    row.setAttribute("role", "row");
    table.opened.set(item.number, { table: inner, row });
    if (isCut(item)) {
      runs.readArray(item.number).catch((error) => {
        sayProblem("The first runs of array " + item.number + " cannot be shown. " + sentence(error.message));
      });
    }
  }
  drawTable();
}

function drawTable() {
  drawFilters();
  const found = selection();
  const pages = Math.max(Math.ceil(found.length / PAGE_ROWS), 1);
  table.page = Math.min(table.page, pages - 1);
  const first = table.page * PAGE_ROWS;
  const items = found.slice(first, first + PAGE_ROWS);
  const kept = new Map();
  const rows = [];
  for (const item of items) {
    const entry = table.shown.get(item.number) || newRow();
    kept.set(item.number, entry);
    entry.item = item;
    entry.row.classList.toggle("ec2-is-array", item.isArray);
    entry.made.parts.hidden = !item.isArray;
    if (item.isArray) {
      entry.made.bar.hidden = true;
      writeArray(entry, item, runs.now);
    } else writeRun(entry, item.runs, runs.now);
    rows.push(entry.row);
    const below = item.isArray && openedRow(item);
    if (below) rows.push(below);
  }
  const body = element("rows");
  rows.forEach((row, index) => {
    if (body.children[index] !== row) body.insertBefore(row, body.children[index] || null);
  });
  while (body.children.length > rows.length) body.lastChild.remove();
  table.shown = kept;
  element("empty").hidden = found.length > 0;
  const last = first + items.length;
  setText(element("shown"), pages > 1 ? first + 1 + "–" + last + " of " + found.length : "");
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
