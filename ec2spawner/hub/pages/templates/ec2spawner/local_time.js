// Instants on the page are written in UTC: show the reader's own time, and UTC on hovering.
for (const time of document.querySelectorAll("time[datetime]")) {
  const at = new Date(time.dateTime);
  if (Number.isNaN(at.getTime())) continue;
  time.title = time.textContent;
  const day = at.toLocaleDateString([], { day: "numeric", month: "long" });
  const hour = at.toLocaleTimeString([], { hour: "numeric", minute: "2-digit" });
  time.textContent = time.dataset.show === "day" ? day : hour + " on " + day;
}
