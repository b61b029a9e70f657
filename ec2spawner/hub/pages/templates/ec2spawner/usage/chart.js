// Stacked bars by day, as SVG in the page's own colours and as wide as its box.
const SVG = "http://www.w3.org/2000/svg";
const CHART = { height: 190, left: 64, bottom: 22, top: 8, label: 20 };

function svg(tag, attributes, text) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text) node.textContent = text;
  return node;
}

/** The next round number above: 1, 2 or 5 times a power of ten. */
function roundUp(value) {
  const power = 10 ** Math.floor(Math.log10(value || 1));
  return [1, 2, 5, 10].map((step) => step * power).find((round) => round >= value);
}

const dayLabel = (day) =>
  new Date(day + "T12:00:00Z").toLocaleDateString([], { month: "short", day: "numeric", timeZone: "UTC" });

/**
 * Draws `bars`, each `{ day, parts: [usd, …] }`; `series` has name and class of each part.
 * `select(bar)` is called with the bar under the pointer, and with null.
 */
function drawBars(box, bars, series, select) {
  const width = Math.max(box.clientWidth, 240);
  const totals = bars.map((bar) => bar.parts.reduce((sum, usd) => sum + usd, 0));
  const top = roundUp(Math.max(...totals, 0.01));
  const inner = { width: width - CHART.left, height: CHART.height - CHART.bottom - CHART.top };
  const y = (usd) => CHART.top + inner.height * (1 - usd / top);
  const step = inner.width / Math.max(bars.length, 1);
  const chart = svg("svg", { width, height: CHART.height, viewBox: `0 0 ${width} ${CHART.height}` });
  chart.setAttribute("aria-hidden", "true"); // the table below it says the same
  for (const share of [0, 0.5, 1]) {
    const at = y(top * share);
    chart.append(svg("line", { x1: CHART.left, x2: width, y1: at, y2: at, class: "ec2-grid" }));
    chart.append(svg("text", { x: CHART.left - 6, y: at + 4, class: "ec2-axis ec2-end" }, money(top * share)));
  }
  const every = Math.ceil(bars.length / Math.max(Math.floor(inner.width / 90), 1));
  bars.forEach((bar, index) => {
    const x = CHART.left + index * step;
    let below = 0;
    bar.parts.forEach((usd, part) => {
      const height = y(below) - y(below + usd);
      if (height > 0) {
        const size = { x: x + step * 0.1, width: step * 0.8, y: y(below + usd), height };
        chart.append(svg("rect", { ...size, class: series[part].className }));
      }
      below += usd;
    });
    if (index % every === 0) {
      const at = { x: Math.min(x + step / 2, width - CHART.label), y: CHART.height - 6, class: "ec2-axis ec2-middle" };
      chart.append(svg("text", at, dayLabel(bar.day)));
    }
  });
  chart.addEventListener("pointermove", (event) => {
    const place = event.clientX - chart.getBoundingClientRect().left - CHART.left;
    select(bars[Math.floor(place / step)] || null);
  });
  chart.addEventListener("pointerleave", () => select(null));
  box.replaceChildren(chart);
}
