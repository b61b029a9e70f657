// What idle limits saved in the chosen days, and would save.
const idleSavings = { isRead: false };

async function rangeChosen(days) {
  const found = await latest("savings", "ec2/idle-savings?from=" + days[0] + "&to=" + days[1]);
  if (!found) return;
  idleSavings.isRead = true;
  setText(
    element("idle-stops"),
    counted(found.idle_stops, "idle stop") + " of " + counted(found.sessions, "session") +
      " saved about " + money(found.stops_saved_usd) + ". Idle time cost " + money(found.idle_usd) + "." +
      (found.unknown ? " " + counted(found.unknown, "session") + " at unknown prices left out." : "")
  );
  const cells = (row) => [
    lasting(row.limit_seconds) + (row.limit_seconds === found.hub_limit_seconds ? " (this hub)" : ""),
    money(row.idle_usd),
    money(row.saved_usd),
    row.stops.toLocaleString("en-US"),
  ];
  const heads = ["Idle limit", "Idle would cost", "Would save", "Idle periods cut off"];
  element("replays").replaceChildren(...filled(found.replays, heads, cells));
}
