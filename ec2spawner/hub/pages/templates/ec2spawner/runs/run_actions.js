// What a user does to a run or an array: download its result, cancel it. Cancelling asks first.
const DOWNLOAD_MS = 300000; // a result may have 64 MiB

/** What a click could not do; in the dialog that is open, or else above the table. */
function sayProblem(text) {
  const isInDialog = element("details").open;
  for (const [id, isShown] of [["problem", !isInDialog], ["details-problem", isInDialog]]) {
    setText(element(id), text);
    element(id).hidden = !text || !isShown;
  }
}

/** The executed notebook or the log so far; `signal` aborts it, too. */
function requestResult(run, signal) {
  const timeout = AbortSignal.timeout(DOWNLOAD_MS);
  return request("ec2/runs/" + run.number + "/result", { signal: signal ? AbortSignal.any([timeout, signal]) : timeout });
}

async function downloadResult(run) {
  sayProblem("");
  try {
    const reply = await requestResult(run);
    saveAs(resultPath(run).replace("runs/", ""), await reply.blob());
  } catch (error) {
    sayProblem("The result of run " + run.number + " was not downloaded. " + sentence(error.message));
  }
}

let asked = null;

function ask(action) {
  asked = action;
  setText(element("dialog-title"), action.title);
  setText(element("dialog-text"), action.text);
  setText(element("dialog-ok"), action.ok);
  setText(element("dialog-dismiss"), action.dismiss);
  element("dialog-error").hidden = true;
  element("dialog").showModal();
}

function askToCancelArray(number, runs) {
  const open = runs.filter(isOpen);
  const paid = open.filter((run) => run.state !== "queued").length;
  ask({
    title: "Cancel all of array " + number + "?",
    text:
      counted(open.length, "run") + " of it " + (open.length === 1 ? "has" : "have") + " not ended" +
      (paid ? ", and " + counted(paid, "instance") + (paid === 1 ? " ends" : " end") + " now" : "") +
      ". Results so far stay and can be downloaded.",
    ok: "Cancel " + counted(open.length, "run"),
    dismiss: "Keep the array",
    done: "Array " + number + " is cancelled.",
    run: () => call("ec2/runs/" + number + "?array", { method: "DELETE" }),
  });
}

function askToCancel(run) {
  const without = run.has_result ? "Its result so far stays and can be downloaded." : "It has no result yet.";
  ask({
    title: "Cancel run " + run.number + "?",
    text: (run.state === "queued" ? "It leaves the queue. " : "Its instance ends now, and what it computes is lost. ") + without,
    ok: "Cancel run",
    dismiss: "Keep the run",
    done: "Run " + run.number + " is cancelled.",
    run: () => call("ec2/runs/" + run.number, { method: "DELETE" }),
  });
}

element("dialog-dismiss").addEventListener("click", () => element("dialog").close());
element("dialog-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const ok = element("dialog-ok");
  ok.disabled = true;
  try {
    const found = await asked.run();
    element("dialog").close();
    setText(element("done"), asked.done);
    runs.changed(found);
  } catch (error) {
    setText(element("dialog-error"), "That may not be cancelled. " + sentence(error.message) + " Try again, or see its state in the table.");
    element("dialog-error").hidden = false;
  } finally {
    ok.disabled = false;
  }
});
