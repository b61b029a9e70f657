// The runs of an array with their parameters: sorted by any column, 25 rows at a time, and as CSV.
const ARRAY_ROWS = 25;
const MAX_PARAMETER_COLUMNS = 8;

/** Null where there is nothing to sort by, which comes last. */
function compareValues(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return valueText(a).localeCompare(valueText(b), undefined, { numeric: true });
}

const isNothing = (value) => value === null || value === undefined || value === "";

function sortedBy(runs, value, isDescending) {
  const known = runs.filter((run) => !isNothing(value(run)));
  const unknown = runs.filter((run) => isNothing(value(run)));
  const sign = isDescending ? -1 : 1;
  known.sort((a, b) => sign * compareValues(value(a), value(b)) || a.number - b.number);
  return [...known, ...unknown];
}

const plain = (text, title) => ({
  make: () => make("span", {}),
  write(node, run, now) {
    setText(node, text(run, now));
    if (title) node.title = title(run, now);
  },
});

/** Each with `id`, `label`, `value` to sort by, `make` and `write`. */
function arrayColumns(names) {
  const parameters = names.map((name) => ({
    id: "parameter " + name,
    label: name,
    value: (run) => run.parameters[name],
    className: "ec2-parameter",
    ...plain((run) => valueText(run.parameters[name]), (run) => valueText(run.parameters[name])),
  }));
  return [
    { id: "number", label: "Run", value: (run) => run.number, make: newName, write: writeName },
    ...parameters,
    {
      id: "state",
      label: "State",
      value: (run) => STATE_ORDER.indexOf(stateOf(run)),
      make: badge,
      write(node, run) {
        writeBadge(node, stateOf(run));
        node.title = run.message;
      },
    },
    {
      id: "progress",
      label: "Progress",
      value: (run) => (run.cells_total ? shareDone(run) : null),
      make: () => make("div", {}, make("span", { className: "ec2-minor" }), progressBar("Progress")),
      write: writeCells,
    },
    {
      id: "instance",
      label: "Instance",
      value: (run) => [run.instance_type, marketAndZone(run)].join(" "),
      make: () => make("div", {}, make("div", {}), make("div", { className: "ec2-minor" })),
      write(node, run) {
        setText(node.firstChild, run.instance_type);
        setText(node.lastChild, marketAndZone(run));
      },
    },
    { id: "started", label: "Started", value: (run) => run.started_at, ...plain((run, now) => (run.started_at ? clock(run.started_at, now) : "")) },
    { id: "duration", label: "Duration", value: (run) => (run.started_at ? (Date.parse(run.ended_at) || runs.now.getTime()) - Date.parse(run.started_at) : null), ...plain(ranFor) },
    { id: "usd", label: "Cost", value: (run) => (hasCost(run) ? run.usd : null), className: "ec2-number", ...plain(usdText) },
    { id: "actions", label: "", make: () => newActions().box, write: writeRunActions },
  ];
}

function newName() {
  const button = make("button", { type: "button", className: "ec2-link" });
  button.addEventListener("click", () => showDetails(button.run));
  return button;
}

function writeName(button, run) {
  button.run = run;
  setText(button, String(run.number));
  button.setAttribute("aria-label", "Details of run " + run.number);
}

function writeCells(node, run) {
  const [text, bar] = node.children;
  setText(text, cellsText(run));
  bar.hidden = !run.cells_total || stateOf(run) === "succeeded";
  if (!bar.hidden) writeProgress(bar, shareDone(run), cellsText(run));
}

function arrayHead(table, column) {
  const head = make("th", { scope: "col", className: column.className || "" });
  if (!column.value) {
    head.append(make("span", { className: "visually-hidden" }, "Actions"));
    return head;
  }
  const button = make("button", { type: "button", className: "ec2-sort" }, column.label);
  button.addEventListener("click", () => {
    table.isDescending = table.sort === column.id && !table.isDescending;
    table.sort = column.id;
    table.page = 0;
    drawArray(table, table.item);
  });
  head.append(button);
  return head;
}

/** The parts of a table that stay while it is shown. */
function newArrayTable() {
  const table = {
    sort: "number",
    isDescending: false,
    page: 0,
    columns: [],
    shown: new Map(),
    head: make("tr", {}),
    body: make("tbody", {}),
    note: make("span", { className: "ec2-minor ec2-note" }),
    counted: make("span", { className: "ec2-minor" }),
  };
  const button = (text, act) => {
    const node = make("button", { type: "button", className: "btn btn-sm btn-outline-contrast" }, text);
    node.addEventListener("click", act);
    return node;
  };
  const turnTo = (by) => () => {
    table.page += by;
    drawArray(table, table.item);
  };
  table.previous = button("Previous", turnTo(-1));
  table.next = button("Next", turnTo(1));
  const csv = button("Download as CSV", () => {
    const { runs: all, number } = table.item;
    const csvText = arrayCsv(ordered(table, all), Object.keys(Object.assign({}, ...all.map((run) => run.parameters))));
    saveAs("runs-" + number + ".csv", new Blob([csvText], { type: "text/csv;charset=utf-8" }));
  });
  const lines = make("table", { className: "ec2-table ec2-plain ec2-results" }, make("thead", {}, table.head), table.body);
  const box = make("div", { className: "table-responsive position-relative" }, lines);
  box.tabIndex = 0;
  box.setAttribute("role", "region");
  table.region = box;
  table.lines = lines;
  table.node = make(
    "div",
    { className: "ec2-array" },
    make("div", { className: "ec2-array-tools" }, table.note, csv),
    box,
    make("div", { className: "ec2-pages" }, table.counted, table.previous, table.next)
  );
  return table;
}

function ordered(table, all) {
  const column = table.columns.find(({ id }) => id === table.sort) || table.columns[0];
  return sortedBy(all, column.value, table.isDescending);
}

function writeColumns(table, names) {
  const ids = JSON.stringify(names);
  if (table.names === ids) return;
  table.names = ids;
  table.columns = arrayColumns(names);
  table.head.replaceChildren(...table.columns.map((column) => arrayHead(table, column)));
  table.body.replaceChildren();
  table.shown = new Map();
}

/** What is the same for all is said once. */
function noteOf({ runs: all, matching }, { same, differing }) {
  const shared = parametersText({ parameters: same });
  const hidden = differing.length - MAX_PARAMETER_COLUMNS;
  return [
    matching.length < all.length ? counted(matching.length, "run") + " of " + all.length + " match." : "",
    shared ? "In all of them " + shared + "." : "",
    hidden > 0 ? counted(hidden, "more parameter") + " in details and CSV." : "",
  ]
    .filter(Boolean)
    .join(" ");
}

function newArrayRow(columns) {
  const nodes = columns.map((column) => column.make());
  const row = make("tr", {}, ...nodes.map((node, place) => make(place ? "td" : "th", { className: columns[place].className || "" }, node)));
  row.firstChild.scope = "row";
  return { row, nodes };
}

/** `item` has all `runs` of the array and those `matching` the filter. */
function drawArray(table, item) {
  table.item = item;
  const compared = comparedParameters(item.runs);
  writeColumns(table, compared.differing.slice(0, MAX_PARAMETER_COLUMNS));
  table.columns.forEach((column, place) => {
    const direction = table.isDescending ? "descending" : "ascending";
    const head = table.head.children[place];
    if (column.id === table.sort) head.setAttribute("aria-sort", direction);
    else head.removeAttribute("aria-sort");
  });
  setText(table.note, noteOf(item, compared));
  table.note.title = table.note.textContent;
  const label = "Runs of array " + item.number;
  table.region.setAttribute("aria-label", label);
  table.lines.setAttribute("aria-label", label);
  const found = ordered(table, item.matching);
  const pages = Math.max(Math.ceil(found.length / ARRAY_ROWS), 1);
  table.page = Math.min(table.page, pages - 1);
  const first = table.page * ARRAY_ROWS;
  const rows = found.slice(first, first + ARRAY_ROWS);
  const kept = new Map();
  rows.forEach((run, index) => {
    const entry = table.shown.get(run.number) || newArrayRow(table.columns);
    kept.set(run.number, entry);
    table.columns.forEach((column, place) => column.write(entry.nodes[place], run, runs.now));
    if (table.body.children[index] !== entry.row) table.body.insertBefore(entry.row, table.body.children[index] || null);
  });
  for (const [number, entry] of table.shown) if (!kept.has(number)) entry.row.remove();
  table.shown = kept;
  setText(table.counted, first + 1 + "–" + (first + rows.length) + " of " + found.length);
  table.previous.disabled = table.page === 0;
  table.next.disabled = table.page >= pages - 1;
  table.previous.hidden = table.next.hidden = table.counted.hidden = pages === 1;
}
