// Limits, with what is left of them and until when.
function amountOf(limit, amount) {
  if (limit.kind === "servers") return counted(amount, "server");
  if (limit.kind === "gpu_hours_per_month") return amount.toFixed(1) + " GPU-hours";
  return limit.kind === "usd_per_hour" ? rate(amount) : money(amount);
}

/** Of what runs together; what time uses up is at 100 % when nothing is left. */
const isExceeded = (limit) =>
  ["usd_per_hour", "servers"].includes(limit.kind) && limit.used > limit.limit;

/** In the words of the panel in JupyterLab. */
function limitForecast(limit, now) {
  if (limit.reached_at === null) return "";
  if (limit.percent >= 100) return "Used up";
  return "Used up at " + clock(limit.reached_at, now) + " at this rate";
}

function drawLimits(limits, now) {
  const cells = (limit) => [
    limit.words,
    lowerBound(limit, amountOf(limit, limit.used)),
    isExceeded(limit) ? "exceeded" : Math.min(limit.percent, 100) + " %",
    upperBound(limit, amountOf(limit, limit.left)),
    limitForecast(limit, now),
    limit.renews ? dayLabel(limit.renews) : "",
  ];
  const heads = ["Limit", "Used", "Share", "Left", "Forecast", "More from"];
  element("limits").replaceChildren(...filled(limits, heads, cells));
  element("limits").hidden = limits.length === 0;
}

/** The user's own, and those of who else may pay. */
function drawOwnLimits(limits, now) {
  drawLimits(limits, now);
  element("limits-part").hidden = limits.length === 0;
}

/** For admins: those of all that need a decision. */
function drawNearlyUsedLimits(found, now) {
  drawLimits(found.nearly_used_limits, now);
  const { length } = found.nearly_used_limits;
  const more = found.more_nearly_used_limits;
  const at = new Date(found.limits_at);
  setText(element("limits-at"), "Limits, and the rate of the forecast for this month, as of " + at.toLocaleTimeString() + ".");
  setText(element("limits-rest"), !length ? "No limit is used by 75 % or more." : more ? "and " + more + " more" : "");
}
