// One row of the table of runs: of a run of its own, or of an array with what its runs are together.
/** Buttons that are shown where they apply; `box.run` is the run as it is now. */
function newActions() {
  const box = make("div", { className: "ec2-row-actions" });
  const button = (className, text, act) => {
    const node = make("button", { type: "button", className: "btn btn-sm btn-outline-contrast " + className }, text);
    node.addEventListener("click", act);
    return node;
  };
  box.append(
    button("ec2-download", "Download", () => downloadResult(box.run)),
    button("ec2-cancel", "Cancel…", () => (box.item ? askToCancelArray(box.item.number, box.item.runs) : askToCancel(box.run)))
  );
  return { box };
}

function writeActions(box, name, hasResult, isCancellable) {
  const [download, cancel] = box.children;
  download.hidden = !hasResult;
  cancel.hidden = !isCancellable;
  download.setAttribute("aria-label", "Download the result of " + name);
  cancel.setAttribute("aria-label", "Cancel " + name);
}

function writeRunActions(box, run) {
  box.run = run;
  writeActions(box, "run " + run.number, run.has_result, isOpen(run));
}

function newRow() {
  const cell = (className, ...children) => {
    const node = make("td", { className }, ...children);
    node.setAttribute("role", "cell");
    return node;
  };
  const part = (tag, className) => make(tag, { className: className || "" });
  const made = {
    number: part("span", "ec2-run-number"),
    name: make("button", { type: "button", className: "ec2-link" }),
    parameters: part("div", "ec2-minor ec2-line"),
    badge: badge(),
    progress: part("div", "ec2-minor"),
    bar: progressBar("Progress"),
    parts: part("div", "ec2-parts"),
    message: part("div", "ec2-minor ec2-message"),
    type: part("div"),
    zone: part("div", "ec2-minor"),
    times: part("div", "ec2-when"),
    usd: part("strong"),
    hour: part("div", "ec2-minor"),
    actions: newActions().box,
  };
  made.parts.setAttribute("aria-hidden", "true"); // its text says the same
  made.parts.append(...["succeeded", "other", "running"].map((name) => part("span", "ec2-part-" + name)));
  made.name.prepend(icon("ec2-icon ec2-chevron"), make("span", { className: "ec2-file" }));
  made.name.querySelector("path").setAttribute("d", "M6 3.5 10.5 8 6 12.5");
  const name = make("th", { scope: "row", className: "fw-normal" }, make("div", { className: "ec2-name" }, made.number, made.name), made.parameters);
  name.setAttribute("role", "rowheader");
  const row = make(
    "tr",
    {},
    name,
    cell("", made.badge, made.progress, made.bar, made.parts, made.message),
    cell("", made.type, made.zone),
    cell("", made.times),
    cell("ec2-number ec2-cost", made.usd, made.hour),
    cell("", made.actions)
  );
  row.setAttribute("role", "row");
  const entry = { row, made };
  made.name.addEventListener("click", () => (entry.item.isArray ? toggle(entry.item) : showDetails(entry.item.runs[0])));
  return entry;
}

function writeTimes(box, lines) {
  const text = lines.join("\n");
  if (box.dataset.text === text) return;
  box.dataset.text = text;
  box.replaceChildren(...lines.map((line, place) => make("div", { className: place ? "ec2-minor" : "" }, line)));
}

function writeRun({ made }, [run], now) {
  setText(made.number, String(run.number));
  setText(made.name.lastChild, fileName(run));
  made.name.title = "~/" + run.path;
  made.name.setAttribute("aria-label", "Details of run " + run.number + ", " + fileName(run));
  setText(made.parameters, parametersText(run));
  made.parameters.title = parametersText(run);
  writeBadge(made.badge, stateOf(run));
  setText(made.progress, cellsText(run));
  made.bar.hidden = !run.cells_total || stateOf(run) === "succeeded";
  if (!made.bar.hidden) writeProgress(made.bar, shareDone(run), cellsText(run));
  setText(made.message, localTimes(run.message));
  made.message.title = run.message;
  setText(made.type, run.instance_type || (isOpen(run) ? run.profile_name : "none"));
  setText(made.zone, marketAndZone(run));
  writeTimes(made.times, moments(run, now));
  setText(made.usd, usdText(run));
  setText(made.hour, hourText(run));
  writeRunActions(made.actions, run);
}

/** Whether its first runs are missing: the list is of the newest ones. */
const isCut = ({ number, runs: all }) => all[0].number !== number;

/** What it ran on: the most frequent types. */
function typesText(all) {
  const counts = new Map();
  for (const { instance_type: type } of all) if (type) counts.set(type, (counts.get(type) || 0) + 1);
  const types = [...counts.keys()].sort((a, b) => counts.get(b) - counts.get(a));
  return types.slice(0, 2).join(", ") + (types.length > 2 ? " and " + (types.length - 2) + " more" : "");
}

function arrayTimes(all, now) {
  const latest = (instants) => instants.filter(Boolean).sort((a, b) => Date.parse(a) - Date.parse(b));
  const started = latest(all.map((run) => run.started_at))[0];
  const ended = all.some(isOpen) ? null : latest(all.map((run) => run.ended_at)).pop();
  return moments({ submitted_at: all[0].submitted_at, started_at: started, ended_at: ended }, now);
}

function arrayState(all) {
  if (all.some((run) => run.state === "running")) return "running";
  if (all.some((run) => run.state === "starting")) return "starting";
  if (all.some(isOpen)) return "queued";
  const ends = new Set(all.map(stateOf));
  return ["failed", "cost-cap", "deadline", "limit", "cancelled"].find((state) => ends.has(state)) || "succeeded";
}

function writeArray({ made }, item, now) {
  const { runs: all, number } = item;
  const isOpened = table.opened.has(number);
  const last = all[all.length - 1].number;
  setText(made.number, String(number));
  setText(made.name.lastChild, fileName(all[0]));
  made.name.title = "~/" + all[0].path;
  made.name.setAttribute("aria-label", "Array of " + counted(all.length, "run") + ", " + number + " to " + last + ", " + fileName(all[0]));
  made.name.setAttribute("aria-expanded", String(isOpened));
  const { differing } = comparedParameters(all);
  const size = (isCut(item) ? "Array, its last " : "Array of ") + counted(all.length, "run");
  setText(made.parameters, size + (differing.length ? " by " + differing.join(", ") : ""));
  made.parameters.title = made.parameters.textContent;
  writeBadge(made.badge, arrayState(all));
  const done = all.filter((run) => !isOpen(run)).length;
  const succeeded = countOf(all, "succeeded");
  const share = (count) => (100 * count) / all.length + "%";
  const failed = countOf(all, "failed");
  setText(made.progress, done + " of " + all.length + " done" + (failed ? ", " + failed + " failed" : ""));
  const [good, other, busy] = made.parts.children;
  good.style.width = share(succeeded);
  other.style.width = share(done - succeeded);
  busy.style.width = share(all.filter((run) => isOpen(run) && run.state !== "queued").length);
  setText(made.message, otherStates(all));
  setText(made.type, typesText(all) || all[0].profile_name);
  const spot = all.filter((run) => run.market === "spot").length;
  setText(made.zone, spot ? spot + " on spot" : "");
  writeTimes(made.times, arrayTimes(all, now));
  setText(made.usd, usdOfAll(all));
  setText(made.hour, hourOfAll(all));
  made.actions.item = item;
  writeActions(made.actions, "array " + number, false, done < all.length);
}
