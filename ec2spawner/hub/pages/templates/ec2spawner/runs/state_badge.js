// The state of a run as a shape of its own, with its name: no state is a colour alone.
const SVG = "http://www.w3.org/2000/svg";

const CIRCLE = "M8 2a6 6 0 1 1 0 12A6 6 0 0 1 8 2";

const SHAPES = {
  queued: CIRCLE + "M8 4.8V8l2.2 1.4",
  starting: "M8 2a6 6 0 0 1 6 6M8 14a6 6 0 0 1-6-6",
  running: CIRCLE + "M6.6 5.4 10.6 8l-4 2.6z",
  succeeded: "M3 8.6l3.2 3.2L13 4.6",
  failed: "M4 4l8 8M12 4l-8 8",
  cancelled: CIRCLE + "M5.2 8h5.6",
  "cost-cap": "M11 5.4C10.4 4.5 9.4 4 8 4 6.3 4 5.2 4.8 5.2 5.9c0 2.7 5.8 1.4 5.8 4.1 0 1.2-1.2 2-3 2-1.5 0-2.6-.5-3.2-1.5M8 2v12",
  deadline: "M4 2.5h8M4 13.5h8M5 2.5c0 3 6 4 6 5.5s-6 2.5-6 5.5M11 2.5c0 3-6 4-6 5.5s6 2.5 6 5.5",
  limit: "M8 2.4 14.2 13.4H1.8zM8 6.4v3.2M8 11.4v.2",
};

function icon(className) {
  const drawing = document.createElementNS(SVG, "svg");
  drawing.setAttribute("viewBox", "0 0 16 16");
  drawing.setAttribute("class", className);
  drawing.setAttribute("aria-hidden", "true");
  drawing.append(document.createElementNS(SVG, "path"));
  return drawing;
}

function badge() {
  return make("span", { className: "ec2-badge" }, icon("ec2-icon"), make("span", {}));
}

function writeBadge(node, state) {
  if (node.dataset.state === state) return;
  node.dataset.state = state;
  node.querySelector("path").setAttribute("d", SHAPES[state] || CIRCLE);
  setText(node.lastChild, nameOf(state));
}

/** A bar with a name for those who do not see it. */
function progressBar(label) {
  const bar = make("div", { className: "ec2-bar" }, make("span", {}));
  bar.setAttribute("role", "progressbar");
  bar.setAttribute("aria-label", label);
  bar.setAttribute("aria-valuemin", "0");
  bar.setAttribute("aria-valuemax", "100");
  return bar;
}

function writeProgress(bar, percent, text) {
  const whole = String(Math.round(percent));
  if (bar.getAttribute("aria-valuenow") !== whole) bar.setAttribute("aria-valuenow", whole);
  if (bar.getAttribute("aria-valuetext") !== text) bar.setAttribute("aria-valuetext", text);
  bar.firstChild.style.width = percent + "%";
}
