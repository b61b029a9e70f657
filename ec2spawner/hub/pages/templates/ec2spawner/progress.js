// Shows the start of a server from the hub's event stream. What comes from the hub is put on the
// page as text.
require(["jhapi"], function (JHAPI) {
  "use strict";
  const page = document.getElementById("ec2-progress");
  const element = (id) => document.getElementById(id);
  const bar = element("ec2-bar");
  const api = new JHAPI(window.jhdata.base_url);
  const { user, owner, server, progressUrl, homeUrl, spawnUrl } = page.dataset;
  const whose = owner ? "the server of " + owner : "your server";
  const couldNot = (owner ? "The server of " + owner : "Your server") + " could not be started";

  // --- what is known, and when it was learned ------------------------------------------------
  let latest = null; // the last event that had steps
  let receivedAt = 0;
  let shown = 0; // percent; the bar never goes back
  let leaving = false; // a button was pressed, or the start has ended
  let stream = null;
  let heardAt = 0;
  let retry = 0; // timer of the next connection
  let refusal = ""; // why another start was refused, until its stream says more
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
    const local = localTimes(text);
    if (node.textContent !== local) node.textContent = local;
  }

  const STATES = { done: "Done", now: "Now", todo: "To do", broken: "Failed" };

  function setState(item, state) {
    item.className = "ec2-step ec2-" + state;
    item.firstChild.setAttribute("aria-label", STATES[state] || "");
    if (state === "now") item.setAttribute("aria-current", "step");
    else item.removeAttribute("aria-current");
  }

  function part(tag, name) {
    const node = document.createElement(tag);
    node.className = "ec2-" + name;
    return node;
  }

  function stepNode(index) {
    const list = element("ec2-steps");
    if (!list.children[index]) {
      const item = document.createElement("li");
      for (const name of ["mark", "title", "time", "detail"]) item.append(part("span", name));
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
    // Where launch calls are listed, a line that comes and goes above them would move them.
    const listed = item.querySelector(".ec2-attempts");
    const details = running && !listed ? [step.detail, usual] : [step.detail];
    setText(detail, details.filter(Boolean).join(" · "));
  }

  // What the step's title names is not named again below it.
  function answerOf(attempt) {
    return attempt.is_in_title ? "available" : attempt.answer;
  }

  // The launch calls, below the search that they belong to. Lines are added and changed in place,
  // and stay when the machine is found, so that nothing jumps under the reader's eyes.
  function drawAttempts(event) {
    const notes = event.notes || [];
    if (!(event.attempts || []).length) return;
    const item = stepNode(event.steps.findIndex((step) => step.name === "request"));
    if (!item.querySelector(".ec2-attempts")) {
      const list = part("ul", "attempts");
      list.setAttribute("aria-label", "What EC2 was asked for");
      item.append(list, part("p", "note"));
    }
    const list = item.querySelector(".ec2-attempts");
    while (list.children.length > event.attempts.length) list.lastChild.remove();
    event.attempts.forEach((attempt, index) => {
      if (!list.children[index]) {
        const line = part("li", "attempt");
        line.append(part("span", "asked"), ": ", part("span", "answer"), part("span", "skipped"));
        list.append(line);
      }
      const line = list.children[index];
      line.className = "ec2-attempt ec2-attempt-" + attempt.outcome;
      setText(line.querySelector(".ec2-asked"), attempt.asked);
      setText(line.querySelector(".ec2-answer"), answerOf(attempt));
      setText(line.querySelector(".ec2-skipped"), attempt.skipped);
    });
    setText(item.querySelector(".ec2-note"), notes.join(" "));
  }

  // The parts of the start that are over: each has its final time, so that no number runs here.
  function drawPhases(phases) {
    element("ec2-phases").hidden = !phases.length;
    const rows = element("ec2-phase-rows");
    while (rows.children.length > phases.length) rows.lastChild.remove();
    phases.forEach((phase, index) => {
      if (!rows.children[index]) {
        const row = document.createElement("tr");
        const title = document.createElement("th");
        title.scope = "row";
        row.append(title, part("td", "time"));
        rows.append(row);
      }
      const [title, time] = rows.children[index].children;
      setText(title, phase.title);
      setText(time, phase.seconds < 0.1 ? "under 0.1 s" : timeWords(phase.seconds));
    });
  }

  function drawSummary(elapsed, usual, advice) {
    const elapsedText = durationWords(elapsed) + " so far";
    if (advice) {
      setText(element("ec2-summary"), elapsedText + ". " + advice);
    } else if (usual === null) {
      setText(element("ec2-summary"), elapsedText + "; you can close this page and come back.");
    } else if (elapsed > Math.max(1.5 * usual, usual + 5)) {
      setText(
        element("ec2-summary"),
        "Usually ready after " + durationWords(usual) + "; this one takes longer, " + elapsedText +
          ". You can wait, close this page and come back, or choose another.",
      );
    } else {
      setText(
        element("ec2-summary"),
        "Usually ready after " + durationWords(usual) + ". " + elapsedText +
          "; you can close this page and come back.",
      );
    }
  }

  function drawBar(percent) {
    shown = Math.max(shown, Math.min(100, percent));
    bar.firstElementChild.style.width = shown + "%";
    bar.setAttribute("aria-valuenow", String(Math.round(shown)));
  }

  // --- waiting for spot, or for AWS to verify the account -------------------------------------
  function clockWords(iso) {
    return new Date(iso).toLocaleTimeString([], { hour: "numeric", minute: "2-digit" });
  }

  function drawWaiting(waiting) {
    element("ec2-waiting").hidden = !waiting;
    if (!waiting) return;
    const instead = waiting.instead;
    const again = waiting.again_at ? " EC2 is asked again at " + clockWords(waiting.again_at) + "." : "";
    setText(element("ec2-waiting-why"), waiting.message);
    setText(
      element("ec2-waiting-until"),
      "Waiting costs nothing. Your server starts by itself as soon as there is " + waiting.for + "." + again +
        (waiting.until ? " If there is none by " + clockWords(waiting.until) + ", this start ends." : ""),
    );
    element("ec2-agree-part").hidden = !instead;
    if (instead) setText(element("ec2-agree"), instead.words);
  }

  // --- a session that comes back -------------------------------------------------------------
  function drawWaking(waking) {
    const box = element("ec2-waking");
    box.hidden = !waking;
    const lines = waking ? waking.lines : [];
    while (box.children.length > lines.length) box.lastChild.remove();
    lines.forEach((line, index) => {
      if (!box.children[index]) box.append(paragraph("mb-0"));
      setText(box.children[index], line);
    });
  }

  function headingOf(event) {
    const what = (owner ? "" : "your ") + event.profile + (owner ? " for " + owner : "");
    if (event.waiting) return "Waiting to start " + what;
    return event.waking && !owner ? event.waking.heading + " " + event.profile : "Starting " + what;
  }

  // The price that was read is sent: nothing dearer is bought if it has changed since.
  function agree() {
    const instead = latest && latest.waiting && latest.waiting.instead;
    if (!instead) return;
    const button = element("ec2-agree");
    button.disabled = true;
    const kind = server ? "/servers/" + server : "/server";
    api.api_request("ec2/users/" + user + kind + "/on-demand", {
      type: "POST",
      data: JSON.stringify({ max_usd_per_hour: instead.usd_per_hour }),
      dataType: "text",
      success: () => {
        button.disabled = false;
        drawWaiting(null);
        element("ec2-heading").focus();
      },
      error: (xhr) => {
        button.disabled = false;
        const said = messageOf(xhr) || "the hub does not answer";
        setText(element("ec2-waiting-why"), "That did not work: " + said + ".");
      },
    });
  }

  function draw() {
    if (!latest || leaving) return;
    drawWaiting(latest.waiting);
    drawWaking(latest.waking);
    drawAttempts(latest);
    drawPhases(latest.phases || []);
    latest.steps.forEach(drawStep);
    const usual = typeof latest.usual_seconds === "number" ? latest.usual_seconds : null;
    const elapsed = (latest.elapsed_seconds || 0) + since();
    if (latest.waiting) {
      setText(
        element("ec2-summary"),
        "Waiting for " + durationWords(elapsed) + "; you can close this page and come back.",
      );
      return;
    }
    drawSummary(elapsed, usual, latest.advice);
    // Between events the bar follows the clock, and stops short of promising the end.
    if (usual) drawBar(Math.min(95, (100 * elapsed) / usual));
  }

  // Each thing once: every connection is shown the whole story again.
  function log(message, key = message) {
    if (!message || logged.has(key)) return;
    logged.add(key);
    const line = document.createElement("li");
    line.textContent = localTimes(message);
    element("progress-log").append(line);
    setText(element("ec2-live"), message);
  }

  function logAttempts(event) {
    for (const attempt of event.attempts || []) {
      if (attempt.outcome === "asking") continue;
      const skipped = attempt.skipped ? ". " + attempt.skipped : "";
      const line = attempt.asked + ": " + answerOf(attempt) + skipped;
      log(line, attempt.at + line);
    }
    for (const note of event.notes || []) log(note);
  }

  // --- the event stream ----------------------------------------------------------------------
  function follow(event) {
    logAttempts(event);
    log(event.message);
    if (event.profile) {
      const heading = headingOf(event);
      setText(element("ec2-heading"), heading);
      document.title = heading;
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
    element("ec2-waiting").hidden = true;
  }

  function succeed() {
    ended();
    drawBar(100);
    setText(element("ec2-summary"), "Ready. Opening your server…");
    // The hub sends whoever asks for this page to the running server.
    window.location.reload();
  }

  function fail(message, html) {
    ended();
    drawBar(100);
    bar.firstElementChild.classList.add("bg-danger");
    for (const item of element("ec2-steps").querySelectorAll(".ec2-now")) {
      setState(item, "broken");
      setText(item.querySelector(".ec2-detail"), "");
    }
    setText(element("ec2-heading"), couldNot);
    document.title = couldNot;
    const why = (message || "").replace(/^Spawn failed:?\s*/, "");
    const box = element("ec2-failed");
    box.textContent = localTimes(why) || "The hub gave no reason; the event log has what it said.";
    drawAlternatives(box, html || "");
    box.hidden = false;
    setText(element("ec2-summary"), "This start did not change your files. Try again, or choose another.");
    element("ec2-after-failure").hidden = false;
    element("progress-details").open = !why;
  }

  // JupyterHub's event of a failure has room for a text and for HTML only, so the alternatives are
  // read from our HTML (start_failure.html). What it parses into is not a page: nothing in it runs or
  // loads, and only words and addresses are taken over.
  function drawAlternatives(box, html) {
    const parsed = new DOMParser().parseFromString(html, "text/html");
    const found = [...parsed.querySelectorAll("a.ec2-alternative")].filter(leadsToSpawnPage);
    const words = parsed.querySelector(".ec2-why");
    if (!words || !found.length) return;
    box.textContent = localTimes(words.textContent);
    const others = found.filter((link) => !link.closest(".ec2-explained-action"));
    if (others.length) {
      const list = document.createElement("ul");
      list.className = "list-unstyled d-flex flex-wrap gap-2 mb-0";
      for (const link of others) {
        const item = document.createElement("li");
        item.append(alternativeLink(link));
        list.append(item);
      }
      box.append(paragraph("mt-3 mb-2", "You can start now:"), list);
    }
    // What an action takes or loses is read before its button.
    for (const action of parsed.querySelectorAll(".ec2-explained-action")) {
      const link = found.find((each) => action.contains(each));
      if (!link) continue;
      const button = paragraph("mb-0");
      button.append(alternativeLink(link));
      box.append(paragraph("mt-3 mb-2", localTimes(action.querySelector("p").textContent)), button);
    }
  }

  function paragraph(classes, text = "") {
    const node = document.createElement("p");
    node.className = classes;
    node.textContent = text;
    return node;
  }

  function alternativeLink(source) {
    const link = part("a", "alternative");
    link.classList.add("btn", "btn-outline-contrast");
    link.href = source.getAttribute("href");
    link.textContent = source.textContent;
    return link;
  }

  function leadsToSpawnPage(link) {
    return (link.getAttribute("href") || "").startsWith(spawnUrl + "?");
  }

  function listen() {
    stream = new EventSource(progressUrl);
    heardAt = performance.now();
    stream.onmessage = (message) => {
      heardAt = performance.now();
      refusal = "";
      if (leaving) return;
      const event = JSON.parse(message.data);
      follow(event);
      if (event.ready) succeed();
      if (event.failed) fail(event.message, event.html_message);
    };
    stream.onerror = () => (refusal ? fail(refusal) : reconnect(1000));
  }

  // A proxy may keep a stream open whose hub is gone, so silence is asked about, too. Each
  // connection is shown the whole story again: nothing is missed.
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
        const said = messageOf(xhr);
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

  // --- starting something else ---------------------------------------------------------------
  // The links of a failure start what they name. Followed here, the page stays and shows the
  // progress of the new start. The request's own answer comes when that has ended or takes long, so
  // its stream is followed as soon as there is one.
  function startInstead(link) {
    const options = {};
    for (const [name, value] of new URL(link.href).searchParams) {
      if (name.startsWith("opt-")) options[name.slice("opt-".length)] = value;
    }
    delete options.signed; // the link's own, see hub/security/signed_link.py
    begin(link.textContent);
    let asked = true; // until the stream is followed
    const followOnce = () => {
      if (asked) listen();
      asked = false;
    };
    const request = {
      data: JSON.stringify({ user_options: options }),
      success: followOnce,
      error: (xhr) => {
        if (asked) refusal = messageOf(xhr) || "The hub does not answer.";
        followOnce();
      },
    };
    if (server) api.start_named_server(user, server, request);
    else api.start_server(user, request);
    const look = () =>
      asked &&
      askServer({
        success: (model) => (model && model.pending === "spawn" ? followOnce() : again()),
        error: () => again(),
      });
    const again = () => setTimeout(look, 300);
    again();
  }

  function begin(what) {
    logged.clear();
    log(what);
    leaving = false;
    latest = null;
    shown = 0;
    clearTimeout(retry);
    element("ec2-steps").replaceChildren();
    drawPhases([]);
    drawWaking(null);
    element("ec2-failed").hidden = true;
    element("ec2-after-failure").hidden = true;
    element("ec2-actions").hidden = false;
    bar.firstElementChild.classList.remove("bg-danger");
    drawBar(0);
    const heading = element("ec2-heading");
    setText(heading, "Starting " + whose);
    document.title = "Starting " + whose;
    setText(element("ec2-summary"), "You can close this page and come back.");
    heading.focus(); // the link that was pressed is gone
    heardAt = performance.now();
  }

  function messageOf(xhr) {
    return (xhr.responseJSON && xhr.responseJSON.message) || "";
  }

  element("ec2-failed").addEventListener("click", (event) => {
    const link = event.target.closest("a.ec2-alternative");
    if (!link || event.button || event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    startInstead(link);
  });

  element("ec2-actions").hidden = false;
  element("ec2-agree").addEventListener("click", agree);
  element("ec2-cancel").addEventListener("click", () => cancel(homeUrl));
  element("ec2-another").addEventListener("click", () => cancel(spawnUrl));
  setInterval(draw, 500);
  setInterval(noticeSilence, 5000);
  listen();
});
