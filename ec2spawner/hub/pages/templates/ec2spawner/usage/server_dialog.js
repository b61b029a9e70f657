// What an admin does to a server: message, keep, stop, release what is kept. Each asks first.
const MAY_STOP = element("page").dataset.mayStop === "yes";

const serverPath = (row) => "ec2/" + pathOfServer(row.user, row.server);

const priceSentence = (row) =>
  (row.known_usd_per_hour ? "It costs " + priceOf(row) : "Its price is unknown") + ".";

const inUse = (row) => (row.doing && !row.idle_since ? "It is in use: " + row.doing + "." : "");

/** Those of its cluster end with a server. */
function workersEnd(row) {
  const { length } = table.rows.filter((each) => isWorker(each) && each.user === row.user && each.head === row.server);
  return length ? "Its " + counted(length, "worker") + (length === 1 ? " ends" : " end") + ", too. " : "";
}

const ACTIONS = {
  message: {
    label: "Message",
    title: (row) => "Message to " + serverName(row),
    text: () => "",
    ok: "Send message",
    done: (row) => "The message is shown in the open pages of " + serverName(row) + ".",
    run: (row) => {
      const text = element("message").value.trim();
      if (!text) throw new Error("The message is empty");
      return call(serverPath(row) + "/message", {
        method: "POST",
        body: JSON.stringify({ text }),
      });
    },
  },
  keep: {
    label: "Keep",
    title: (row) => "Keep " + serverName(row) + " on",
    text: (row) => "No idleness stops it meanwhile. " + priceSentence(row),
    ok: "Keep",
    done: (row) => serverName(row) + " is kept on.",
    run: (row) =>
      call(serverPath(row) + "/keep", {
        method: "POST",
        body: JSON.stringify({ seconds: Number(element("keep").value) }),
      }),
  },
  sleep: {
    label: "Stop…",
    title: (row) => "Stop " + serverName(row) + "?",
    text: (row) =>
      "Open documents are saved and files kept. Sleep also saves the variables of Python notebooks, " +
      "which the next start brings back. " + workersEnd(row) + inUse(row),
    ok: "Sleep",
    done: (row) => serverName(row) + " is going to sleep.",
    run: (row) => stopServer(row.user, row.server, true),
    other: "stop",
  },
  stop: {
    label: "Stop…",
    title: (row) => "Stop " + serverName(row) + "?",
    text: (row) => "Open documents are saved and files kept; what runs, and variables, are lost. " + workersEnd(row) + inUse(row),
    ok: "Stop server",
    isLossy: true,
    done: (row) => serverName(row) + " is being stopped.",
    run: (row) => stopServer(row.user, row.server, false),
  },
  release: {
    label: "Release…",
    title: (row) => "Release what is kept for " + serverName(row) + "?",
    text: (row) =>
      "The instance is terminated and its own disk deleted. Files in the home are kept; the next start " +
      "of " + serverName(row) + " gets a new instance.",
    ok: "Release",
    isLossy: true,
    done: (row) => "What was kept for " + serverName(row) + " is being released.",
    run: (row) => call(serverPath(row) + "/kept", { method: "DELETE" }),
  },
};

let asked = null;

function writeButtons(box, server) {
  box.server = server; // as it is now, for the buttons that are there
  const wanted = [];
  // JupyterHub knows nothing of workers and runs: they end with their server or their notebook, or as
  // their user wants.
  if (isWorker(server) || isRun(server)) return box.replaceChildren();
  if (server.state === "ready") wanted.push("message", "keep");
  if (MAY_STOP && server.state === "kept") wanted.push("release");
  else if (MAY_STOP && isServer(server) && server.state !== "ending") wanted.push(server.can_sleep ? "sleep" : "stop");
  if (box.dataset.actions === wanted.join()) return;
  box.dataset.actions = wanted.join();
  box.replaceChildren(
    ...wanted.map((name) => {
      const button = make("button", {
        type: "button",
        className: "btn btn-sm btn-outline-contrast",
        textContent: ACTIONS[name].label,
      });
      button.setAttribute("aria-label", ACTIONS[name].label.replace("…", "") + " " + serverName(server));
      button.addEventListener("click", () => ask(name, box.server));
      return button;
    })
  );
}

function ask(name, server) {
  asked = { action: ACTIONS[name], server };
  setText(element("dialog-title"), asked.action.title(server));
  setText(element("dialog-text"), asked.action.text(server));
  setText(element("dialog-ok"), asked.action.ok);
  // What loses something is never the button that stands out.
  element("dialog-ok").classList.toggle("btn-jupyter", !asked.action.isLossy);
  element("dialog-ok").classList.toggle("btn-outline-contrast", Boolean(asked.action.isLossy));
  const other = ACTIONS[asked.action.other];
  element("dialog-other").hidden = !other;
  setText(element("dialog-other"), other ? other.ok : "");
  element("message-part").hidden = name !== "message";
  element("keep-part").hidden = name !== "keep";
  element("dialog-error").hidden = true;
  element("message").value = "";
  element("dialog").showModal();
}

element("dialog-cancel").addEventListener("click", () => element("dialog").close());
element("dialog-other").addEventListener("click", () => act(ACTIONS[asked.action.other]));
element("dialog-form").addEventListener("submit", (event) => {
  event.preventDefault();
  act(asked.action);
});

async function act(action) {
  const { server } = asked;
  const buttons = [element("dialog-ok"), element("dialog-other")];
  for (const button of buttons) button.disabled = true;
  try {
    await action.run(server);
    element("dialog").close();
    setText(element("done"), action.done(server));
    refresh();
  } catch (error) {
    setText(element("dialog-error"), sentence(error.message));
    element("dialog-error").hidden = false;
  } finally {
    for (const button of buttons) button.disabled = false;
  }
}
