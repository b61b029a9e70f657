"""Where the parts of the panel are, and what its charts have drawn."""

from __future__ import annotations

from typing import Any

from tests.e2e.canned_server import PANEL

RECORD_SHIFTS = """panel => {
  window.shifts = [];
  new PerformanceObserver(list => {
    for (const entry of list.getEntries()) {
      const nodes = entry.sources.map(source => source.node);
      const within = nodes.filter(node => node?.parentElement?.closest(panel));
      window.shifts.push(...within.map(node => node.className));
    }
  }).observe({ type: 'layout-shift' });
}"""
PARTS = ".ec2-Section, .ec2-Line, .ec2-Chart, .ec2-Gpu-fact, button, .ec2-Cost"
BOXES = """(panel, parts) => JSON.stringify(
  [...panel.querySelectorAll(parts)].map(
    node => Object.values(node.getBoundingClientRect().toJSON()).map(Math.round)))"""
LINE_COLOUR = """chart => {
  const probe = document.createElement('canvas').getContext('2d');
  probe.fillStyle = getComputedStyle(chart).getPropertyValue('--ec2-chart-line').trim();
  probe.fillRect(0, 0, 1, 1);
  const [red, green, blue] = probe.getImageData(0, 0, 1, 1).data;
  const canvas = chart.querySelector('canvas');
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  for (let i = 0; i < data.length; i += 4) {
    if (data[i] === red && data[i + 1] === green && data[i + 2] === blue && data[i + 3]) {
      return `${red} ${green} ${blue}`;
    }
  }
  return '';
}"""
STICKS_OUT = """panel => {
  const { left, right } = panel.getBoundingClientRect();
  return [...panel.querySelectorAll('*')]
    .filter(node => !node.closest('.ec2-mod-unseen') && node.getClientRects().length)
    .filter(node => {
      const box = node.getBoundingClientRect();
      return box.right > right + 1 || box.left < left - 1;
    })
    .map(node => `${node.className}: ${node.textContent}`);
}"""


IN_REACH = """panel => {
  const stop = panel.querySelector('.ec2-Stop');
  return getComputedStyle(stop).position === 'sticky'
    ? stop.getBoundingClientRect().height / panel.clientHeight : 0;
}"""
FOCUSED_IS_COVERED = """panel => {
  const node = document.activeElement;
  const { x, y, width, height } = node.getBoundingClientRect();
  const seen = document.elementFromPoint(x + width / 2, y + height / 2);
  const isCovered = panel.contains(node) && !node.contains(seen);
  return isCovered ? `${node.textContent} behind ${seen?.className ?? 'the edge'}` : '';
}"""


def right_of(toasts: Any) -> float:
    """The right edge of the notifications, which slide in from the window's edge."""
    boxes = [each.bounding_box() for each in toasts.all()]
    return max((box["x"] + box["width"] for box in boxes if box), default=0.0)


def share_in_reach(panel: Any) -> float:
    """Share of the panel's height that its sticky part takes."""
    return float(panel.evaluate(IN_REACH))


def covered_focus(panel: Any) -> str:
    """The focused element, if it is in the panel and something covers it."""
    return str(panel.evaluate(FOCUSED_IS_COVERED))


def record_shifts(page: Any) -> None:
    """From now on, for `shifts`."""
    page.evaluate(RECORD_SHIFTS, PANEL)


def shifts(page: Any) -> list[str]:
    """Classes of the panel's parts that the browser has seen move."""
    found: list[str] = page.evaluate("window.shifts")
    return found


def boxes(panel: Any) -> str:
    """Where each part is, as one text."""
    return str(panel.evaluate(BOXES, PARTS))


def line_colour(chart: Any) -> str:
    """The theme's colour of a line; empty while the chart has drawn none in it."""
    return str(chart.evaluate(LINE_COLOUR))


def sticks_out(panel: Any) -> list[str]:
    """Parts that are not within the panel's width."""
    found: list[str] = panel.evaluate(STICKS_OUT)
    return found
