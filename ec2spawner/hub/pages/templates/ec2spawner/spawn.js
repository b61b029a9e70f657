// Comfort only: the page also works without this script.
(function () {
  "use strict";
  const form = document.getElementById("spawn_form");
  const buttons = form.querySelectorAll("button[type=submit]");
  if (!buttons.length) return;

  // A second click must not ask for a second server. The buttons come back with the page when
  // the browser's Back restores it from its cache.
  const closed = []; // by a click; those that never could start stay as they are
  function close() {
    closed.push(...[...buttons].filter((button) => !button.disabled));
    write(closed, true, "Starting");
  }

  function reopen() {
    write(closed.splice(0), false, "Start");
  }

  function write(some, disabled, word) {
    for (const button of some) {
      button.disabled = disabled;
      const verb = button.querySelector(".ec2-start-verb");
      if (verb) verb.textContent = word;
    }
  }

  function ageWords(seconds) {
    if (seconds < 90) return Math.round(seconds) + " seconds";
    if (seconds < 5400) return Math.round(seconds / 60) + " minutes";
    return Math.round(seconds / 3600) + " hours";
  }

  // What stands on a page left open grows old; its age says so.
  function growOlder(shownAt) {
    const elapsed = (Date.now() - shownAt) / 1000;
    for (const age of form.querySelectorAll(".ec2-age")) {
      age.textContent = ageWords(Number(age.dataset.ageSeconds) + elapsed);
    }
  }

  // What can start depends on who pays. Without this script the page says so of each payer, and a
  // start that the chosen one cannot pay for is refused.
  const payer = form.querySelector("select[name=payer]");
  const radios = [...form.querySelectorAll("input[name=profile]")];
  let wanted = radios.find((radio) => radio.checked);

  function followPayer() {
    for (const radio of radios) {
      radio.disabled = JSON.parse(radio.dataset.refusing || "[]").includes(payer.value);
      const badge = radio.parentElement.querySelector(".ec2-over-limit");
      if (badge) badge.hidden = !radio.disabled;
    }
    for (const notice of form.querySelectorAll(".ec2-limit")) {
      notice.hidden = notice.dataset.payer !== payer.value;
    }
    // A choice that this payer cannot pay for comes back with one who can.
    if (wanted) wanted.checked = !wanted.disabled;
  }

  if (payer) {
    for (const radio of radios) radio.addEventListener("change", () => (wanted = radio));
    payer.addEventListener("change", followPayer);
    window.addEventListener("pageshow", followPayer);
  }

  // Once the form has been read: the name of a button that is disabled before is not sent.
  form.addEventListener("submit", () => setTimeout(close));
  window.addEventListener("pageshow", reopen);
  const shownAt = Date.now();
  setInterval(() => growOlder(shownAt), 20000);
})();
