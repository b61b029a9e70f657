// Comfort only: without this the page works all the same.
(function () {
  "use strict";
  const form = document.getElementById("spawn_form");
  const button = form.querySelector("button[type=submit]");
  const chosen = form.querySelector(".ec2-chosen");

  function showChoice() {
    const radio = form.querySelector("input[name=profile]:checked");
    chosen.hidden = !radio;
    if (radio) {
      chosen.querySelector(".ec2-chosen-name").textContent = radio.dataset.name;
      chosen.querySelector(".ec2-chosen-price").textContent = radio.dataset.price;
    }
  }

  // A second click must not ask for a second server. The button comes back with the page when
  // the browser's Back restores it from its cache.
  function waiting(yes) {
    button.disabled = yes;
    button.textContent = yes ? "Starting…" : "Start";
  }

  function ageWords(seconds) {
    if (seconds < 90) return Math.round(seconds) + " seconds";
    if (seconds < 5400) return Math.round(seconds / 60) + " minutes";
    return Math.round(seconds / 3600) + " hours";
  }

  // Prices on a page left open grow old; their age says so.
  function growOlder(shownAt) {
    const elapsed = (Date.now() - shownAt) / 1000;
    for (const age of form.querySelectorAll(".ec2-age")) {
      age.textContent = ageWords(Number(age.dataset.ageSeconds) + elapsed);
    }
  }

  form.addEventListener("change", showChoice);
  form.addEventListener("submit", () => waiting(true));
  window.addEventListener("pageshow", () => {
    waiting(false);
    showChoice();
  });
  const shownAt = Date.now();
  setInterval(() => growOlder(shownAt), 20000);
  showChoice();
})();
