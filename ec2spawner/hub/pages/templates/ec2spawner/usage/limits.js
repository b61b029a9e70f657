// The limits of the user and of who else may pay, with what is left.
function amountOf(limit, amount) {
  if (limit.kind === "servers") return counted(amount, "server");
  if (limit.kind === "gpu_hours_per_month") return amount.toFixed(1) + " GPU-hours";
  return limit.kind === "usd_per_hour" ? rate(amount) : money(amount);
}

function drawLimits(limits) {
  const cells = (limit) => [
    limit.words,
    amountOf(limit, limit.used),
    Math.min(limit.percent, 100) + " %",
    amountOf(limit, limit.left),
    limit.renews ? dayLabel(limit.renews) : "",
  ];
  const heads = ["Limit", "Used", "Share", "Left", "More from"];
  element("limits").replaceChildren(...filled(limits, heads, cells));
  element("limits-part").hidden = limits.length === 0;
}
