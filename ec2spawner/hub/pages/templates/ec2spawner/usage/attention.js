// What needs a decision: starts that failed, and what EC2 does not sell now.
const MAX_NOTES = 6;
const MAX_NAMES = 4; // of types or zones in one note

function failedNote(start, now) {
  const what = start.reason === "limit" ? "was refused" : "failed";
  const which = serverName(start) + " (" + start.profile + ")";
  return { text: "The start of " + which + " " + what + " at " + clock(start.at, now) + ": " + localTimes(start.message), parts: [] };
}

const soldOutPlace = (mark) =>
  [mark.market, mark.instance_type, mark.quota_class && mark.quota_class + " quota", mark.subnet]
    .filter(Boolean)
    .join(" ") + (mark.zone ? " in " + mark.zone : "");

const SOLD_OUT = {
  plan: ["is not in the account's AWS plan", "are not in the account's AWS plan"],
  quota: ["is at the account's quota", "are at the account's quota"],
  subnet: ["has no free address", "have no free address"],
  verification: ["waits until AWS has verified the account", "wait until AWS has verified the account"],
};
const NOT_AVAILABLE = ["is not available", "are not available"];

function soldOutText(what, marks, now) {
  const [is, are] = SOLD_OUT[marks[0].reason] || NOT_AVAILABLE;
  const next = marks.map((mark) => mark.until).filter(Boolean).sort()[0];
  const until = next ? ", requested again " + (marks.length > 1 ? "from " : "at ") + clock(next, now) : "";
  return (what || "Every instance") + " " + (marks.length > 1 ? are : is) + " (" + marks[0].code + ")" + until;
}

/** `g5.xlarge, g6.xlarge and 3 more types`; empty for none. */
function named(marks, field, noun) {
  const all = [...new Set(marks.map((mark) => mark[field]).filter(Boolean))].sort();
  const shown = all.length > MAX_NAMES ? [...all.slice(0, MAX_NAMES - 1), counted(all.length - MAX_NAMES + 1, "more " + noun)] : all;
  return shown.length < 2 ? shown.join("") : shown.slice(0, -1).join(", ") + " and " + shown.at(-1);
}

/** One note for all that EC2 refuses for one reason, whatever types, zones and markets it is. */
function soldOutNotes(marks, now) {
  const groups = new Map();
  for (const mark of marks) {
    const key = JSON.stringify([SOLD_OUT[mark.reason] ? mark.reason : "", mark.code]);
    groups.set(key, [...(groups.get(key) || []), mark]);
  }
  return [...groups].map(([key, same]) => {
    if (same.length === 1) return { text: soldOutText(soldOutPlace(same[0]), same, now), parts: [] };
    const places = named(same, "zone", "zone");
    const what = [
      named(same, "instance_type", "type") || named(same, "quota_class", "class") || named(same, "subnet", "subnet"),
      named(same, "market", "market"),
    ].filter(Boolean).join(", ");
    const text = soldOutText((what || "Offers") + (places ? " in " + places : ""), same, now);
    return { key, text, parts: same.map((mark) => soldOutText(soldOutPlace(mark), [mark], now)) };
  });
}

function noteItem(note, open) {
  const item = make("li", {}, note.text);
  if (!note.parts.length) return item;
  const parts = make("ul", {}, ...note.parts.map((part) => make("li", {}, part)));
  const details = make("details", { open: open.has(note.key) }, make("summary", {}, "All " + note.parts.length), parts);
  details.dataset.key = note.key;
  item.append(details);
  return item;
}

function attention(found, now) {
  const notes = [
    ...found.failed_starts.map((start) => failedNote(start, now)),
    ...soldOutNotes(found.sold_out, now),
  ];
  const list = element("attention-list");
  const rest = element("attention-rest");
  const shown = JSON.stringify(notes);
  if (list.dataset.shown !== shown) {
    const opened = element("attention").querySelectorAll("details[data-key][open]");
    const open = new Set([...opened].map((details) => details.dataset.key));
    const items = notes.map((note) => noteItem(note, open));
    list.replaceChildren(...items.slice(0, MAX_NOTES));
    rest.replaceChildren(...items.slice(MAX_NOTES));
    list.dataset.shown = shown;
  }
  element("attention-more").hidden = notes.length <= MAX_NOTES;
  setText(element("attention-count"), notes.length - MAX_NOTES + " more");
  element("attention").hidden = notes.length === 0;
}
