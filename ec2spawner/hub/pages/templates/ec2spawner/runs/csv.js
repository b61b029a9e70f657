// CSV that a spreadsheet shows and never runs, as `ec2spawner.core.text.delimited` writes it.
const FORMULA = /^ *[=+\-@\t\r\n＝＋－＠]/u;
const ACTIVE = /[\p{C}\p{Zl}\p{Zp}]/gu; // characters that are obeyed instead of shown
const ESCAPES = { "\t": "\\t", "\n": "\\n", "\r": "\\r" };

function escaped(character) {
  if (ESCAPES[character]) return ESCAPES[character];
  const code = character.codePointAt(0);
  const [prefix, digits] = code < 0x100 ? ["\\x", 2] : code < 0x10000 ? ["\\u", 4] : ["\\U", 8];
  return prefix + code.toString(16).padStart(digits, "0");
}

/** Text that cannot be taken for a formula; numbers stay numbers, null is an empty cell. */
function safeCell(cell) {
  if (cell === null || cell === undefined) return "";
  if (typeof cell === "number") return String(cell);
  const text = typeof cell === "string" ? cell : JSON.stringify(cell);
  const shown = text.replace(ACTIVE, escaped);
  return FORMULA.test(text) ? "'" + shown : shown;
}

const quoted = (text) => (/[",\r\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text);

const delimited = (rows) => rows.map((row) => row.map((cell) => quoted(safeCell(cell))).join(",") + "\n").join("");

/** Lets the browser save it. */
function saveAs(name, blob) {
  const link = make("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), TIMEOUT_MS);
}

/** The runs of an array as a table, each with the values of `names`. */
function arrayCsv(runs, names) {
  const head = ["run", ...names, "state", "message", "cells_done", "cells_total", "profile", "instance_type", "market", "zone", "instances", "usd", "submitted_at", "started_at", "ended_at", "file"];
  const rows = runs.map((run) => [
    run.number,
    ...names.map((name) => run.parameters[name]),
    stateOf(run),
    run.message,
    run.cells_done,
    run.cells_total,
    run.profile,
    run.instance_type,
    run.market,
    run.zone,
    run.attempts,
    run.usd,
    run.submitted_at,
    run.started_at,
    run.ended_at,
    run.path,
  ]);
  return delimited([head, ...rows]);
}
