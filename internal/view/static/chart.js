import { byId, digits, has, make } from "./dom.js";

// The same bound as the server's: with more points, each second one of the older half goes.
const maxPoints = 4096;
const points = new Map(); // by slot: [slot, Unix time, tokens, loss, training loss, norm]
let plot = null;
let drawn = "";

export function forget() {
  points.clear();
}

export function add(more) {
  for (const p of more) points.set(p[0], p);
  if (points.size > maxPoints) {
    const slots = [...points.keys()].sort((a, b) => a - b);
    slots.slice(0, slots.length / 2).forEach((slot, i) => i % 2 && points.delete(slot));
  }
  draw();
}

// whole are distances of marks on an axis where there are no halves.
const whole = [...Array(13).keys()].flatMap((n) => [1, 2, 5].map((m) => m * 10 ** n));
const axes = {
  slot: { label: "slot", of: (p) => p[0], steps: whole },
  tokens: { label: "tokens or samples", of: (p) => p[2], steps: whole },
  hours: { label: "hours", of: (p, first) => (p[1] - first[1]) / 3600 },
};

function axis() {
  return axes[document.querySelector('input[name="axis"]:checked').value];
}

// columns are what the picture shows: x, held-out loss, training loss. x rises, as uPlot wants.
function columns(rows) {
  const { of } = axis();
  const held = [], train = [], x = [];
  for (const p of rows) {
    const at = of(p, rows[0]);
    if (x.length && at <= x[x.length - 1]) {
      held[x.length - 1] = p[3] ?? held[x.length - 1];
      train[x.length - 1] = p[4] ?? train[x.length - 1];
      continue;
    }
    x.push(at);
    held.push(p[3] ?? null);
    train.push(p[4] ?? null);
  }
  return [x, held, train];
}

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function series(label, name, many) {
  return {
    label, stroke: colour(name), width: 2, spanGaps: true, points: { show: many < 80, size: 5, fill: colour(name) },
    value: (_, v) => (has(v) ? v.toFixed(4) : "–"),
  };
}

function options(many, width) {
  const line = { stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
  return {
    width, height: width < 500 ? 220 : 280,
    scales: { x: { time: false } },
    series: [{ label: axis().label }, series("held out", "--held", many), series("training", "--train", many)],
    axes: [{ ...line, label: axis().label, labelSize: 20, size: 30, incrs: axis().steps }, { ...line, size: 56 }],
    legend: { live: true },
  };
}

export function draw() {
  const rows = [...points.values()].filter((p) => has(p[3]) || has(p[4])).sort((a, b) => a[0] - b[0]);
  const box = byId("chart");
  byId("chart-empty").hidden = rows.length > 0;
  box.hidden = rows.length === 0;
  if (!rows.length) return;
  const data = columns(rows);
  const width = box.clientWidth;
  const kind = [axis().label, width, rows.length < 80, colour("--held")].join();
  if (plot && kind === drawn) {
    plot.setData(data);
  } else {
    plot?.destroy();
    plot = new uPlot(options(rows.length, width), data, box);
    drawn = kind;
  }
  tell(rows, box);
}

// tell says the picture in words, and as a table.
function tell(rows, box) {
  const parts = [];
  for (const [name, i] of [["held-out loss", 3], ["training loss", 4]]) {
    const some = rows.filter((p) => has(p[i]));
    if (some.length) {
      const first = some[0], last = some[some.length - 1];
      parts.push(`${name} ${first[i].toFixed(4)} at slot ${first[0]}, ${last[i].toFixed(4)} at slot ${last[0]}`);
    }
  }
  box.setAttribute("aria-label", parts.join("; "));
  const cell = (v) => make("td", {}, has(v) ? digits(v, 5) : "–");
  const body = rows.slice(-20).reverse().map((p) => make("tr", {}, cell(p[0]), cell(p[3]), cell(p[4]), cell(p[5])));
  const head = ["slot", "held out", "training", "norm of the pseudo-gradient"];
  byId("values").replaceChildren(
    make("thead", {}, make("tr", {}, ...head.map((h) => make("th", { scope: "col" }, h)))),
    make("tbody", {}, ...body));
}

for (const input of document.querySelectorAll('input[name="axis"]')) input.addEventListener("change", draw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
new ResizeObserver(draw).observe(byId("loss-title").parentElement);
