// What runs now: the tiles and the table.
function tiles(found) {
  const { servers } = found;
  const spot = servers.filter((row) => row.market === "spot").length;
  const idle = servers.filter((row) => stateOf(row) === "idle");
  setText(element("rate"), knownRate(found.usd_per_hour, found.unknown_prices));
  setText(element("count"), countedKinds(servers, " · ") + " · " + spot + " spot · " + idle.length + " idle");
  setText(
    element("rate-of"),
    "estimate; idle " + rateOf(idle) +
      (found.unknown_prices ? "; " + counted(found.unknown_prices, "price") + " unknown" : "")
  );
  explainUnknown(element("rate-of"), table.rows.filter(isPaidHere));
}

/** What the month of the hub's calendar will have cost at the present rate, homes included: with list
 * prices where they replace all unknown ones, else as far as prices are known. */
function drawForecast(found) {
  const hours = Math.max(costs.monthEnds - Date.parse(found.now), 0) / 3600000;
  const isLowerBound = costs.month.unknown > 0 || found.all_unpriced > 0;
  const rate = isLowerBound ? found.all_known_usd_per_hour : found.all_usd_per_hour;
  const usd = costs.month.usd + rate * hours;
  const amount = isLowerBound ? knownUsd(usd, true) : "about " + money(usd);
  const assumed = !isLowerBound && found.unknown_prices ? ", with list prices for unknown ones" : "";
  sayMonth("at this rate " + amount + " by the end of the month" + assumed);
}

const refresh = keepFresh(async () => {
  const found = await call("ec2/instances");
  table.now = new Date(found.now);
  table.rows = [
    ...found.servers,
    ...found.kept.map((kept) => ({ ...kept, state: "kept" })),
    ...found.unassigned.map((instance) => ({ ...instance, state: "unassigned", user: instance.instance_id, server: "", profile: "" })),
  ];
  tiles(found);
  attention(found, table.now);
  drawTable();
  drawPool(await call("ec2/pool"));
  drawMonthLimit(found.limits, "hub");
  drawNearlyUsedLimits(found, table.now);
  const days = await readCosts();
  drawForecast(found);
  if (days && !idleSavings.isRead) await rangeChosen(days);
});
