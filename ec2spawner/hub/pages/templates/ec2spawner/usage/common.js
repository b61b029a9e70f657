// What the pages about money and runs share: elements, times, and words for numbers.
const REFRESH_MS = 10000;

const element = (id) => document.getElementById("ec2-" + id);

/** A new element: `make("td", { className: "x" }, "text", child)`. Texts are never HTML. */
function make(tag, properties, ...children) {
  const node = Object.assign(document.createElement(tag), properties);
  node.append(...children);
  return node;
}

/** A cell of a row that is a card on narrow screens, where its column has no head. */
function labelled(label, cell) {
  cell.dataset.label = label;
  return cell;
}

function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Reads now, so many milliseconds after each read while the page is seen, and when it is seen or
 * online again. Nothing else is shown before the first read has ended: each of its answers would move
 * what is below. */
function keepFresh(read, pause = () => REFRESH_MS) {
  let isReading = false;
  let timer;
  const page = element("page").classList;
  page.add("ec2-mod-loading");
  async function refresh() {
    clearTimeout(timer);
    if (isReading || document.hidden) return;
    isReading = true;
    try {
      await read();
      element("offline").hidden = true;
      element("offline-old").hidden = false; // from now on something is shown
    } catch (error) {
      setText(element("offline-why"), sentence(error.message));
      element("offline").hidden = false;
    } finally {
      isReading = false;
      element("loading").hidden = true;
      page.remove("ec2-mod-loading");
      timer = setTimeout(refresh, pause());
    }
  }
  document.addEventListener("visibilitychange", refresh);
  window.addEventListener("online", refresh);
  refresh();
  return refresh;
}

function money(usd) {
  if (usd === null || usd === undefined) return "unknown";
  const size = Math.abs(usd);
  if (size > 0 && size < 0.0005) return "under $0.001";
  const digits = size >= 1000 ? 0 : size > 0 && size < 0.1 ? 3 : 2;
  return usd.toLocaleString("en-US", {
    style: "currency",
    currency: "USD",
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  });
}

/** Where parts have no known price, `usd` is a lower bound, or says nothing. */
const knownUsd = (usd, unknown) => (!unknown ? money(usd) : usd ? "at least " + money(usd) : "unknown");

/** What is used and left of a limit, which may lack what has no known price. */
const lowerBound = (limit, words) => (limit.at_least ? "at least " + words : words);
const upperBound = (limit, words) => (limit.at_least ? "at most " + words : words);

const knownRate = (usd, unknown) => (unknown && !usd ? "unknown" : knownUsd(usd, unknown) + "/h");

const rate = (usd) => (usd === null ? "price unknown" : money(usd) + "/h");

/** Cost and price of a server, a session or a kept instance: a lower bound where a part has none. */
const costOf = (row) => knownUsd(row.usd ?? row.known_usd, row.usd === null);
const priceOf = (row) =>
  row.known_usd_per_hour ? knownRate(row.known_usd_per_hour, row.unknown_prices_of.length) : rate(row.usd_per_hour);

/** `the price of a disk is unknown`; empty where all are known. */
function unknownPrices(rows) {
  const parts = [...new Set(rows.flatMap((row) => row.unknown_prices_of))];
  const names = parts.map((part) => (part === "disk" ? "a " : "an ") + part).join(" and ");
  return names && "the price of " + names + " is unknown";
}

/** What an admin can do about it, as a tooltip. */
function explainUnknown(node, rows) {
  node.title = unknownPrices(rows) &&
    "Usually the hub may not read AWS's price list: an admin can allow it pricing:GetProducts.";
}

const counted = (number, noun) => number.toLocaleString("en-US") + " " + noun + (number === 1 ? "" : "s");

function lasting(seconds) {
  if (seconds < 59.5) return Math.max(Math.round(seconds), 0) + " s";
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) return minutes + " min";
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return hours + " h" + (minutes % 60 ? " " + (minutes % 60) + " min" : "");
  return Math.round(hours / 24) + " days";
}

/** A time of day, with the day unless that is today; in the reader's time zone. */
function clock(instant, now) {
  const at = new Date(instant);
  const time = at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  if (at.toDateString() === now.toDateString()) return time;
  const isFar = Math.abs(now - at) > 6 * 86400000;
  const day = isFar ? { month: "short", day: "numeric" } : { weekday: "short" };
  return at.toLocaleDateString([], day) + " " + time;
}

/** What the name of a server says: `lab/2` is a worker of a cluster and `/run/12` a run, for no server
 * has a slash in its name. */
function nameParts(name) {
  const [server, ...rest] = name.split("/");
  const [first, run] = rest;
  if (!server && first === "run" && run) return { server, extra: "run " + run };
  return { server, extra: first ? "worker " + first : "" };
}

const NAMES = JSON.parse(element("page").dataset.names);

const ownValue = (object, key) => (Object.hasOwn(object, key) ? object[key] : undefined);

/** What its user calls a server. */
const serverLabel = (user, server) => ownValue(ownValue(NAMES.servers, user) || {}, server) || server;

/** `ann`, `ann / lab`, `ann / lab, worker 2`, `ann, run 12`. */
function serverName(row) {
  const { server, extra } = nameParts(row.server);
  return (server ? row.user + " / " + serverLabel(row.user, server) : row.user) + (extra ? ", " + extra : "");
}

/** A value of a dimension of costs: of `server` the same without the user, who is the reader. */
function valueName(dimension, value) {
  if (dimension === "profile") return ownValue(NAMES.profiles, value) || value || "none";
  if (dimension !== "server" || !value) return value || "none";
  const { server, extra } = nameParts(value);
  return [server && serverLabel(element("page").dataset.user, server), extra].filter(Boolean).join(", ");
}

const isWorker = (row) => Boolean(row.worker);
const isRun = (row) => Boolean(row.run);

/** `5 servers · 4 workers · 1 run`, without what is not there. */
function countedKinds(rows, separator) {
  const workers = rows.filter(isWorker).length;
  const runs = rows.filter(isRun).length;
  const kinds = [counted(rows.length - workers - runs, "server")];
  if (workers) kinds.push(counted(workers, "worker"));
  if (runs) kinds.push(counted(runs, "run"));
  return kinds.join(separator);
}

/** Who pays, unless it is the user. */
const payerNote = ({ payer }) => (!payer || payer.startsWith("user:") ? "" : " · paid by " + payer.replace(":", " "));
