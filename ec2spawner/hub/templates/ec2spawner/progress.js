// Shows the start of a server from the hub's event stream. Whatever comes from the hub is put on
// the page as text, never as HTML.
require(["jhapi"], function (JHAPI) {
  "use strict";
  const page = document.getElementById("ec2-progress");
  const element = (id) => document.getElementById(id);
  const bar = element("ec2-bar");
  const api = new JHAPI(window.jhdata.base_url);
  const { user, server, progressUrl, homeUrl, spawnUrl } = page.dataset;

  // --- what is known, and when it was learned ------------------------------------------------
  let latest = null; // the last event that had steps
  let receivedAt = 0;
  let shown = 0; // percent; the bar never goes back
  let leaving = false; // a button was pressed, or the start has ended
  let stream = null;
  let heardAt = 0;
  let retry = 0; // timer of the next connection
  const logged = new Set();
  const SILENCE_MS = 20000;

  const since = () => (performance.now() - receivedAt) / 1000;

  function timeWords(seconds) {
    if (seconds < 9.95) return Number(seconds.toFixed(1)) + " s";
    if (seconds < 90) return Math.round(seconds) + " s";
    const minutes = Math.floor(seconds / 60);
    return minutes + " min " + Math.round(seconds - minutes * 60) + " s";
  }

  function durationWords(seconds) {
    const whole = Math.round(seconds);
    if (whole < 90) return whole === 1 ? "1 second" : whole + " seconds";
    return Math.round(whole / 60) + " minutes";
  }

  // --- drawing -------------------------------------------------------------------------------
  function setText(node, text) {
    if (node.textContent !== text) node.textContent = text;
  }

  const STATES = { done: "Done", now: "Now", todo: "To do", broken: "Failed" };

  function setState(item, state) {
    item.className = "ec2-step ec2-" + state;
    item.firstChild.setAttribute("aria-label", STATES[state] || "");
    if (state === "now") item.setAttribute("aria-current", "step");
    else item.removeAttribute("aria-current");
  }

  function stepNode(index) {
    const list = element("ec2-steps");
    if (!list.children[index]) {
      const item = document.createElement("li");
      for (const name of ["mark", "title", "time", "detail"]) {
        const part = document.createElement("span");
        part.className = "ec2-" + name;
        item.append(part);
      }
      item.firstChild.setAttribute("role", "img");
      list.append(item);
    }
    return list.children[index];
  }

  function drawStep(step, index) {
    const item = stepNode(index);
    const [, title, time, detail] = item.children;
    const known = typeof step.usual_seconds === "number";
    const usual = known ? "usually " + timeWords(step.usual_seconds) : "";
    setState(item, step.state);
    setText(title, step.title);
    if (step.state === "todo") {
      setText(time, usual);
      setText(detail, step.detail || "");
      return;
    }
    const running = step.state === "now" && !leaving;
    const lasted = typeof step.seconds === "number" ? step.seconds + (running ? since() : 0) : null;
    setText(time, lasted === null ? "" : timeWords(running ? Math.floor(lasted) : lasted));
    const details = running ? [step.detail, usual] : [step.detail];
    setText(detail, details.filter(Boolean).join(" · "));
  }

  function drawSummary(elapsed, usual) {
    const soFar = durationWords(elapsed) + " so far";
    if (usual === null) {
      setText(element("ec2-summary"), soFar + "; you can close this page and come back.");
    } else if (elapsed > Math.max(1.5 * usual, usual + 5)) {
      setText(
        element("ec2-summary"),
        "Usually ready after " + durationWords(usual) + "; this one takes longer, " + soFar +
          ". You can wait, close this page and come back, or choose another.",
      );
    } else {
      setText(
        element("ec2-summary"),
        "Usually ready after " + durationWords(usual) + ". " + soFar +
          "; you can close this page and come back.",
      );
    }
  }

  function drawBar(percent) {
    shown = Math.max(shown, Math.min(100, percent));
    bar.firstElementChild.style.width = shown + "%";
    bar.setAttribute("aria-valuenow", String(Math.round(shown)));
  }

  function draw() {
    if (!latest || leaving) return;
    latest.steps.forEach(drawStep);
    const usual = typeof latest.usual_seconds === "number" ? latest.usual_seconds : null;
    const elapsed = (latest.elapsed_seconds || 0) + since();
    drawSummary(elapsed, usual);
    // Between events the bar follows the clock, and stops short of promising the end.
    if (usual) drawBar(Math.min(95, (100 * elapsed) / usual));
  }

  function log(message) {
    if (!message || logged.has(message)) return;
    logged.add(message);
    const line = document.createElement("li");
    line.textContent = message;
    element("progress-log").append(line);
    setText(element("ec2-live"), message);
  }

  // --- the event stream ----------------------------------------------------------------------
  function follow(event) {
    log(event.message);
    if (event.profile) {
      setText(element("ec2-heading"), "Starting your " + event.profile);
      document.title = "Starting your " + event.profile;
    }
    if (Array.isArray(event.steps)) {
      latest = event;
      receivedAt = performance.now();
    } else if (!latest && event.message) {
      setText(element("ec2-summary"), event.message);
    }
    if (typeof event.progress === "number") drawBar(event.progress);
    draw();
  }

  function ended() {
    leaving = true;
    stream.close();
    element("ec2-actions").hidden = true;
    element("ec2-offline").hidden = true;
  }

  function succeed() {
    ended();
    drawBar(100);
    setText(element("ec2-summary"), "Ready. Opening your server…");
    // The hub sends whoever asks for this page to the running server.
    window.location.reload();
  }

  function fail(message) {
    ended();
    drawBar(100);
    bar.firstElementChild.classList.add("bg-danger");
    for (const item of element("ec2-steps").querySelectorAll(".ec2-now")) setState(item, "broken");
    setText(element("ec2-heading"), "Your server could not be started");
    document.title = "Your server could not be started";
    const why = (message || "").replace(/^Spawn failed:?\s*/, "");
    const box = element("ec2-failed");
    box.textContent = why || "The hub gave no reason; the event log has what it said.";
    box.hidden = false;
    setText(element("ec2-summary"), "Your files are untouched. Try again, or choose another.");
    element("ec2-after-failure").hidden = false;
    element("progress-details").open = !why;
  }

  function listen() {
    stream = new EventSource(progressUrl);
    heardAt = performance.now();
    stream.onmessage = (message) => {
      heardAt = performance.now();
      if (leaving) return;
      const event = JSON.parse(message.data);
      follow(event);
      if (event.ready) succeed();
      if (event.failed) fail(event.message);
    };
    stream.onerror = () => reconnect(1000);
  }

  // A proxy may keep a stream open whose hub is gone, so silence is asked about, too. Each
  // connection is told the whole story again: nothing is missed.
  function reconnect(afterMilliseconds) {
    if (leaving) return;
    stream.close();
    clearTimeout(retry);
    retry = setTimeout(findOut, afterMilliseconds);
  }

  function findOut() {
    if (leaving) return;
    heardAt = performance.now();
    askServer({
      success: (model) => {
        element("ec2-offline").hidden = true;
        if (model && model.pending === "spawn") listen();
        else if (!leaving) window.location.reload();
      },
      error: (xhr) => {
        if (leaving) return;
        // 0 and 5xx: the network or the hub is away. Others are the hub's own word.
        if (xhr.status === 0 || xhr.status >= 500) {
          element("ec2-offline").hidden = false;
          reconnect(3000);
        } else {
          window.location.reload();
        }
      },
    });
  }

  function noticeSilence() {
    if (performance.now() - heardAt > SILENCE_MS) reconnect(0);
  }

  // --- leaving -------------------------------------------------------------------------------
  function askServer(options) {
    const kind = server ? "servers/" + server : "server";
    api.api_request("users/" + user + "/" + kind, Object.assign({ timeout: 10000 }, options));
  }

  // The hub is done with the cancelled start when nothing is pending: only then may the next
  // page ask it for another.
  function leaveWhenStopped(url, tries) {
    const again = () => setTimeout(() => leaveWhenStopped(url, tries - 1), 500);
    if (tries <= 0) {
      window.location.assign(url);
      return;
    }
    askServer({
      success: (model) => (model && model.pending ? again() : window.location.assign(url)),
      error: (xhr) => (xhr.status === 404 ? window.location.assign(url) : again()),
    });
  }

  function cancel(url) {
    leaving = true;
    for (const button of element("ec2-actions").children) button.disabled = true;
    setText(element("ec2-summary"), "Cancelling…");
    const options = {
      success: () => leaveWhenStopped(url, 60),
      error: (xhr) => {
        const said = xhr.responseJSON && xhr.responseJSON.message;
        const box = element("ec2-failed");
        box.textContent = "The start could not be cancelled: " + (said || "the hub does not answer") + ".";
        box.hidden = false;
        for (const button of element("ec2-actions").children) button.disabled = false;
        leaving = false;
        reconnect(0);
      },
    };
    if (server) api.stop_named_server(user, server, options);
    else api.stop_server(user, options);
  }

  element("ec2-actions").hidden = false;
  element("ec2-cancel").addEventListener("click", () => cancel(homeUrl));
  element("ec2-another").addEventListener("click", () => cancel(spawnUrl));
  setInterval(draw, 500);
  setInterval(noticeSilence, 5000);
  listen();
});
