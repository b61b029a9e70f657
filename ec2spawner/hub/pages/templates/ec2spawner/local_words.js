// Texts of the hub name instants in UTC, since programs and logs have them too: `14:32 UTC`,
// `30 November, 14:32 UTC`, `14:32 UTC on 30 November 2026`. On pages they are the reader's own.
const MONTHS = "January February March April May June July August September October November December".split(" ");
const UTC_DAY = "(\\d{1,2}) (" + MONTHS.join("|") + ")(?: (\\d{4}))?";
const UTC_INSTANT = new RegExp("(?:" + UTC_DAY + ", )?\\b(\\d{2}):(\\d{2}) UTC(?: on " + UTC_DAY + ")?", "g");

/** `16:32`, `16:32 on 30 November`. */
function localWords(at, hasDay) {
  const hour = at.toLocaleTimeString([], { hour: "numeric", minute: "2-digit" });
  return hasDay ? hour + " on " + at.toLocaleDateString([], { day: "numeric", month: "long" }) : hour;
}

/** The instant nearest to now that has these parts; those that a text leaves out are undefined. */
function instantOf(hour, minute, day, month, year) {
  const now = new Date();
  const at = (year, month, day) => new Date(Date.UTC(year, month, day, hour, minute));
  const candidates = [-1, 0, 1].map((shift) =>
    month === undefined
      ? at(now.getUTCFullYear(), now.getUTCMonth(), now.getUTCDate() + shift)
      : at(year ?? now.getUTCFullYear() + shift, MONTHS.indexOf(month), day)
  );
  return candidates.reduce((one, other) => (Math.abs(other - now) < Math.abs(one - now) ? other : one));
}

/** The text with the reader's own times. */
function localTimes(text) {
  return text.replace(UTC_INSTANT, (_, day, month, year, hour, minute, dayAfter, monthAfter, yearAfter) => {
    const parts = month === undefined ? [dayAfter, monthAfter, yearAfter] : [day, month, year];
    return localWords(instantOf(hour, minute, ...parts), parts[1] !== undefined);
  });
}
