// What runs now: the tiles, what needs a decision, and the table.
const MAX_NOTES = 6;

function soldOutNote(mark, now) {
  const what =
    [mark.market, mark.instance_type, mark.quota_class && mark.quota_class + " quota", mark.subnet]
      .filter(Boolean)
      .join(" ") + (mark.zone ? " in " + mark.zone : "");
  const until = mark.until ? ", requested again at " + clock(mark.until, now) : "";
  const why = { quota: "is at the account's quota", subnet: "has no free address" }[mark.reason];
  return what + " " + (why || "is not available") + " (" + mark.code + ")" + until;
}

function attention(found, now) {
  const notes = [
    ...found.failed_starts.map(
      (start) =>
        "The start of " + serverName(start) + " (" + start.profile + ") " + (start.reason === "limit" ? "was refused" : "failed") + " at " + clock(start.at, now) + ": " + start.message
    ),
    ...found.sold_out.map((mark) => soldOutNote(mark, now)),
    ...found.kept.map(
      (kept) =>
        (kept.then === "linger" ? "An instance" : "A stopped instance") +
        " is kept for " + serverName(kept) + " until " + clock(kept.until, now) +
        (kept.then === "linger" ? ", at " + rate(kept.usd_per_hour) : ", " + kept.disk_gib + " GiB of disk")
    ),
  ];
  const list = element("attention-list");
  const rest = element("attention-rest");
  const text = notes.join("\n");
  if (list.dataset.text !== text) {
    const items = notes.map((note) => make("li", {}, note));
    list.replaceChildren(...items.slice(0, MAX_NOTES));
    rest.replaceChildren(...items.slice(MAX_NOTES));
    list.dataset.text = text;
  }
  element("attention-more").hidden = notes.length <= MAX_NOTES;
  setText(element("attention-count"), notes.length - MAX_NOTES + " more");
  element("attention").hidden = notes.length === 0;
}

function tiles(found) {
  const { servers } = found;
  const spot = servers.filter((row) => row.market === "spot").length;
  const idle = servers.filter((row) => stateOf(row) === "idle");
  const wasted = idle.reduce((sum, row) => sum + (row.usd_per_hour ?? 0), 0);
  const isUnknown = found.unknown_prices && !found.usd_per_hour;
  setText(element("rate"), isUnknown ? "unknown" : money(found.usd_per_hour) + "/h");
  setText(element("count"), counted(servers.length, "server") + " · " + spot + " spot · " + idle.length + " idle");
  setText(
    element("rate-of"),
    "estimate; " + money(wasted) + "/h of it idle" +
      (found.unknown_prices ? "; " + counted(found.unknown_prices, "price") + " unknown" : "")
  );
}

/** What the month of the hub's calendar will have cost at the present rate. */
function drawForecast(found) {
  const hours = Math.max(costs.monthEnds - Date.parse(found.now), 0) / 3600000;
  const usd = costs.month.usd + found.usd_per_hour * hours;
  const unknown = costs.month.unknown + found.unknown_prices;
  sayMonth("at this rate " + knownUsd(usd, unknown) + " by the end of the month");
}

const refresh = keepFresh(async () => {
  const found = await call("ec2/instances");
  table.now = new Date(found.now);
  table.rows = found.servers;
  tiles(found);
  attention(found, table.now);
  drawTable();
  drawMonthLimit(found.limits, "hub");
  const days = await readCosts();
  drawForecast(found);
  if (days && !idleSavings.isRead) await rangeChosen(days);
});
