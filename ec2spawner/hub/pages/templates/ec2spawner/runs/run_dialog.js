// All that is known of one run; follows it while it is open.
const details = { number: null, shown: "", badge: badge(), reading: null };

element("details-state").append(details.badge);

function resultText(run) {
  if (!run.has_result) return isOpen(run) ? "none yet" : "none";
  const path = "~/" + resultPath(run);
  if (isOpen(run)) return "so far, to download; it will be " + path + " in your home";
  return run.delivered
    ? path + ", in your home"
    : path + ": your server gets it at its next start, or within a minute while it runs";
}

function attemptsText(run) {
  if (!run.attempts) return "none yet";
  if (!isOpen(run)) return String(run.attempts);
  return run.attempts + "; " + (run.retries ? "up to " + counted(run.retries, "lost instance") + (run.retries === 1 ? " is" : " are") + " replaced" : "a lost instance ends the run");
}

/** `[name, text]` of each field that has a value. */
function fieldsOf(run, now) {
  const at = (instant) => instant && clock(instant, now);
  const ofArray = run.array && runs.ofArray(run.array);
  return [
    ["Message", localTimes(run.message)],
    ["Server", serverOf(run)],
    ["File", "~/" + run.path],
    ["Parameters", Object.entries(run.parameters).map(([name, value]) => name + " = " + valueText(value)).join("\n")],
    ["Array", ofArray && run.number - run.array + 1 + " of " + ofArray.length + " in array " + run.array],
    ["Progress", cellsText(run)],
    ["Profile", run.profile_name],
    ["Instance", [run.instance_type, marketAndZone(run)].filter(Boolean).join(" · ")],
    ["Attempts", attemptsText(run)],
    ["Submitted", at(run.submitted_at)],
    ["Started", at(run.started_at)],
    ["Ended", at(run.ended_at)],
    ["Duration", ranFor(run, now)],
    ["Deadline", at(run.deadline) || "none"],
    ["Cost so far", usdText(run) + (hasCost(run) ? ", an estimate" : "")],
    ["Price now", hourText(run)],
    ["Cost cap", (run.max_usd ?? null) === null ? "none" : money(run.max_usd)],
    ["Paid by", run.payer ? run.payer.replace(":", " ") : "yourself"],
    ["Result", resultText(run)],
  ].filter(([, text]) => text);
}

function drawDetails() {
  const run = runs.byNumber.get(details.number);
  if (!run || !element("details").open) return;
  const fields = fieldsOf(run, runs.now);
  const text = JSON.stringify([run.number, fields]);
  if (details.shown !== text) {
    details.shown = text; // a selection in it stays while nothing changes
    setText(element("details-title"), "Run " + run.number + " · " + fileName(run));
    element("details-fields").replaceChildren(
      ...fields.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)])
    );
  }
  writeBadge(details.badge, stateOf(run));
  element("details-download").hidden = !run.has_result;
  element("details-output").hidden = !run.has_result;
  element("details-cancel").hidden = !isOpen(run);
}

function drawOutput(run, text) {
  const box = element("output-text");
  const isAtEnd = box.scrollTop + box.clientHeight >= box.scrollHeight - 4;
  const isFirst = element("output").hidden;
  element("output").hidden = false;
  setText(element("output-title"), text ? "Last lines of output" : isOpen(run) ? "No output yet" : "No output");
  box.hidden = !text;
  setText(box, text);
  if (isFirst || isAtEnd) box.scrollTop = box.scrollHeight;
  setText(element("details-output"), "Refresh output");
}

/** Also drops the request for it: its answer is for the run that was shown. */
function hideOutput() {
  if (details.reading) details.reading.abort();
  details.reading = null;
  element("output").hidden = true;
  setText(element("output-text"), "");
  const button = element("details-output");
  setText(button, "Show output");
  button.disabled = false;
}

async function showOutput() {
  const run = runs.byNumber.get(details.number);
  const button = element("details-output");
  const reading = new AbortController();
  details.reading = reading;
  sayProblem("");
  button.disabled = true;
  try {
    const text = lastOutput(run, await (await requestResult(run, reading.signal)).text());
    if (!reading.signal.aborted) drawOutput(run, text);
  } catch (error) {
    if (reading.signal.aborted) return;
    sayProblem("The output of run " + run.number + " was not read. " + sentence(error.message));
  } finally {
    if (!reading.signal.aborted) button.disabled = false;
  }
}

function showDetails(run) {
  details.number = run.number;
  hideOutput();
  element("details").showModal();
  sayProblem("");
  drawDetails();
  element("details-title").focus();
}

element("details-close").addEventListener("click", () => element("details").close());
element("details").addEventListener("close", hideOutput);
element("details-output").addEventListener("click", showOutput);
element("details-download").addEventListener("click", () => downloadResult(runs.byNumber.get(details.number)));
element("details-cancel").addEventListener("click", () => askToCancel(runs.byNumber.get(details.number)));
