// The warm pool: what waits for nobody in particular, why so much, and a number set by hand.
const pool = { found: null, asked: null, shown: "" };

const poolName = (places) => places.profile_name + ", " + places.market;

function poolNotes(places, now) {
  const notes = places.why.map(localTimes);
  const { by_hand, failure } = places;
  if (by_hand) notes.push("Set by " + by_hand.by + " at " + clock(by_hand.at, now) + ".");
  if (places.homes_ahead) {
    notes.push("Kept for users who are expected, with their homes attached: " + places.homes_ahead + ".");
  }
  if (places.problem) notes.push(localTimes(places.problem));
  if (failure) {
    const retry = failure.retry_seconds ? " It is tried again in " + lasting(failure.retry_seconds) + "." : "";
    notes.push("At " + clock(failure.at, now) + ": " + localTimes(failure.message) + retry);
  }
  return notes;
}

function poolButton(label, places, act) {
  const button = make("button", { type: "button", className: "btn btn-sm btn-outline-contrast" }, label);
  button.setAttribute("aria-label", label.replace("…", "") + " the number for " + poolName(places));
  button.addEventListener("click", () => act(places));
  return button;
}

/** How many wait stopped, of how many that shall. */
const poolStopped = ({ stopped, stopped_target: target }) =>
  stopped || target ? stopped.toLocaleString("en-US") + " of " + target.toLocaleString("en-US") : "–";

function poolRow(places, now) {
  const number = (value) => make("td", { className: "ec2-number" }, value.toLocaleString("en-US"));
  const notes = poolNotes(places, now).map((note) => make("div", { className: "ec2-minor" }, note));
  const buttons = make("div", { className: "ec2-row-actions" }, poolButton("Set…", places, askPool));
  if (places.by_hand) buttons.append(poolButton("Clear", places, clearPool));
  return make(
    "tr",
    {},
    make("th", { scope: "row" }, poolName(places)),
    number(places.target),
    number(places.waiting),
    number(places.booting),
    make("td", { className: "ec2-number" }, poolStopped(places)),
    make("td", { className: "ec2-number" }, money(places.usd_per_hour) + "/h"),
    make("td", {}, ...notes),
    make("td", {}, buttons)
  );
}

/** Rows are replaced only when something has changed, so that the focus stays on its button. */
function drawPool(found) {
  const now = new Date(found.now);
  pool.found = found;
  element("pool-part").hidden = found.places.length === 0;
  const shown = JSON.stringify(found.places.map((places) => [places, poolNotes(places, now)]));
  if (pool.shown !== shown) {
    element("pool-rows").replaceChildren(...found.places.map((places) => poolRow(places, now)));
    pool.shown = shown;
  }
  const cap = found.max_usd_per_hour === null ? "" : " The cap on all is " + money(found.max_usd_per_hour) + "/h.";
  setText(element("pool-cost"), "Together " + money(found.usd_per_hour) + "/h (estimate), which no user pays." + cap);
}

const poolPath = (places) => "ec2/pool/" + encodeURIComponent(places.profile);

function askPool(places) {
  pool.asked = places;
  setText(element("pool-dialog-title"), "Instances that wait for " + poolName(places));
  element("pool-number").value = places.target;
  element("pool-hours").value = "4";
  element("pool-error").hidden = true;
  element("pool-dialog").showModal();
}

async function setPool() {
  const number = element("pool-number");
  if (!number.reportValidity()) return;
  const hours = Number(element("pool-hours").value);
  const until = new Date(Date.parse(pool.found.now) + hours * 3600000).toISOString();
  const { market } = pool.asked;
  drawPool(
    await call(poolPath(pool.asked), {
      method: "PUT",
      body: JSON.stringify({ running: Number(number.value), until, market }),
    })
  );
  element("pool-dialog").close();
  setText(element("done"), "The number for " + poolName(pool.asked) + " is set.");
  refresh();
}

async function clearPool(places) {
  try {
    await call(poolPath(places), { method: "DELETE" });
    setText(element("done"), "The configuration holds for " + poolName(places) + ".");
  } catch (error) {
    setText(element("done"), error.message + ".");
  }
  refresh();
}

element("pool-cancel").addEventListener("click", () => element("pool-dialog").close());
element("pool-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  element("pool-ok").disabled = true;
  try {
    await setPool();
  } catch (error) {
    setText(element("pool-error"), error.message + ".");
    element("pool-error").hidden = false;
  } finally {
    element("pool-ok").disabled = false;
  }
});
