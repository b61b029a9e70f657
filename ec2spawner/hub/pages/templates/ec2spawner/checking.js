// Waits until the hub knows whether a server still runs, without loading the page again meanwhile.
require(["jhapi"], function (JHAPI) {
  "use strict";
  const element = (id) => document.getElementById("ec2-checking" + id);
  const { user, server } = element("").dataset;
  const api = new JHAPI(window.jhdata.base_url);
  const POLL_MS = 2000;
  const USUAL_MS = 20000;
  const began = performance.now();
  let stopping = false;

  function say(text) {
    const node = element("-text");
    if (node.textContent !== text) node.textContent = text;
  }

  function waitingText() {
    if (stopping) return "Stopping your server…";
    if (performance.now() - began < USUAL_MS) return "This usually takes a few seconds.";
    return (
      "Your machine has not reported to the hub yet. It may still be running: you can wait, close " +
      "this page and come back, or stop the server."
    );
  }

  function poll() {
    const kind = server ? "servers/" + server : "server";
    api.api_request("users/" + user + "/" + kind, {
      timeout: 10000,
      success: (model) => {
        if (model && ["check", "stop"].includes(model.pending)) again(waitingText());
        else window.location.reload(); // the hub sends the page to where it belongs
      },
      error: (xhr) => {
        // 0 and 5xx: the network or the hub is away. Others are the hub's own word.
        if (xhr.status === 0 || xhr.status >= 500) {
          again("The hub does not answer. This page tries again by itself.");
        } else {
          window.location.reload();
        }
      },
    });
  }

  function again(text) {
    say(text);
    setTimeout(poll, POLL_MS);
  }

  function stop() {
    const button = element("-stop");
    button.disabled = stopping = true;
    element("-failed").hidden = true;
    say(waitingText());
    const options = {
      success: () => {},
      error: (xhr) => {
        button.disabled = stopping = false;
        const said = (xhr.responseJSON && xhr.responseJSON.message) || "The hub does not answer";
        element("-failed").textContent = "The server could not be stopped. " + said + ".";
        element("-failed").hidden = false;
      },
    };
    if (server) api.stop_named_server(user, server, options);
    else api.stop_server(user, options);
  }

  element("-stop").addEventListener("click", stop);
  setTimeout(poll, POLL_MS);
});
