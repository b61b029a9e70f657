// Asks before a running server is stopped, and offers first to let it sleep. The buttons are
// JupyterHub's; a start that is not ready is cancelled by them as ever.
const stopDialog = document.getElementById("ec2-stop");
const stopPart = (name) => document.getElementById("ec2-stop-" + name);
const ownServers = JSON.parse(stopDialog.dataset.servers);
const STOP_POLL_MS = 1000;
// A hub that is busy or restarts leaves single questions without an answer.
const MAX_UNANSWERED = 10;
/** A save that lasts longer may be cut short. */
const LONG_SAVE_MS = 20000;
/** The server that the dialog is about; a stop that was asked for earlier may be of another. */
let asked = "";
let stopOffer;

function askToStop(server) {
  const {
    name, can_sleep: canSleep, is_saving: isSaving, keeps_files: keepsFiles, workers,
  } = ownServers[server];
  asked = server;
  stopPart("title").textContent = name ? "Stop your server “" + name + "”?" : "Stop your server?";
  showChoice(canSleep, isSaving);
  stopPart("files").textContent = keepsFiles
    ? "Files in your home are kept."
    : "The files of this server are deleted with its machine.";
  stopPart("workers").hidden = !workers;
  stopPart("workers").textContent =
    workers === 1
      ? "The worker of its cluster ends, too, with what runs on it."
      : "The " + workers + " workers of its cluster end, too, with what runs on them.";
  stopPart("error").hidden = true;
  stopPart("doing").textContent = "";
  allowChoice(true);
  stopDialog.showModal();
  stopPart(canSleep ? "sleep" : "cancel").focus();
}

function allowChoice(isAllowed) {
  for (const name of ["stop", "sleep"]) stopPart(name).disabled = !isAllowed;
}

function showChoice(canSleep, isSaving) {
  stopPart("stop").textContent = isSaving ? "Stop now without saving" : "Stop";
  stopPart("sleeps").hidden = stopPart("sleep").hidden = !canSleep;
  stopPart("loses").hidden = canSleep || isSaving;
  stopPart("saves").hidden = !isSaving;
}

function offerToStopNow() {
  showChoice(false, true);
  stopPart("stop").disabled = false;
}

async function stopAsAsked(server, sleep) {
  allowChoice(false);
  clearTimeout(stopOffer);
  if (sleep) stopOffer = setTimeout(offerToStopNow, LONG_SAVE_MS);
  stopPart("doing").textContent = sleep ? "Your session is being saved…" : "Your server is stopping…";
  try {
    await askHubToStop(server, sleep);
    await untilStopped(server);
    window.location.reload();
  } catch (error) {
    if (server !== asked) return;
    clearTimeout(stopOffer);
    stopPart("doing").textContent = "";
    stopPart("error").textContent = sentence(error.message);
    stopPart("error").hidden = false;
    allowChoice(true);
  }
}

/** The dialog may be opened again before the hub answers: it offers no second sleep. */
async function askHubToStop(server, sleep) {
  const before = ownServers[server];
  if (sleep) ownServers[server] = { ...before, can_sleep: false, is_saving: true };
  try {
    await stopServer(stopDialog.dataset.user, server, sleep);
  } catch (error) {
    ownServers[server] = before;
    throw error;
  }
}

/** The page may be closed meanwhile: the stop continues. */
async function untilStopped(server) {
  const isPending = async () => {
    const model = await call("users/" + encodeURIComponent(stopDialog.dataset.user));
    return model.servers[server]?.pending === "stop";
  };
  for (let unanswered = 0; ; ) {
    try {
      if (!(await isPending())) return;
      unanswered = 0;
    } catch (error) {
      unanswered += 1;
      if (unanswered >= MAX_UNANSWERED) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, STOP_POLL_MS));
  }
}

function serverOf(button) {
  const row = button.closest(".home-server-row");
  return row ? row.dataset.serverName : "";
}

for (const button of document.querySelectorAll("#stop, .stop-server")) {
  if (!Object.hasOwn(ownServers, serverOf(button))) continue;
  // A link without an address: the keyboard does not reach it.
  button.tabIndex = 0;
  button.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    button.click();
  });
  // JupyterHub's own listeners stop the server at once: this one is before them.
  button.addEventListener(
    "click",
    (event) => {
      event.stopImmediatePropagation();
      askToStop(serverOf(button));
    },
    { capture: true }
  );
}
stopPart("cancel").addEventListener("click", () => stopDialog.close());
stopDialog.addEventListener("close", () => clearTimeout(stopOffer));
stopPart("stop").addEventListener("click", () => stopAsAsked(asked, false));
stopPart("sleep").addEventListener("click", () => stopAsAsked(asked, true));
