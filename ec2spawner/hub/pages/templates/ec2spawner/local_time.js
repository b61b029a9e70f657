// Instants on the page are written in UTC: show the reader's own time, and UTC on hovering.
for (const time of document.querySelectorAll("time[datetime]")) {
  const at = new Date(time.dateTime);
  if (Number.isNaN(at.getTime())) continue;
  time.title = time.textContent;
  time.textContent =
    time.dataset.show === "day"
      ? at.toLocaleDateString([], { day: "numeric", month: "long" })
      : localWords(at, true);
}

// The same in sentences that the hub makes for programs, too, in what is marked as the hub's: names,
// which users choose, stay.
function writeLocalTimes(root) {
  const texts = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const { currentNode: node } = texts;
    if (node.parentElement.closest("script, style, textarea, code, time")) continue;
    const local = localTimes(node.data);
    if (local === node.data) continue;
    node.parentElement.title = node.data.trim();
    node.data = local;
  }
}
document.querySelectorAll("[data-utc]").forEach(writeLocalTimes);
