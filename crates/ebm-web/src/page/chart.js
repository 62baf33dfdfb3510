// Curves: all charts of a page share the range of steps, the smoothing, the scale of y and the visible names. A drag
// selects a range, a double click shows all steps. The data are {names, charts: [{title, curves: [{of, x, y, low, high}]}]}:
// `of` is the index of a name; y is null for a missing value; low and high bound the values that a point is the mean of.
"use strict";

const SIZE = { width: 640, height: 300, left: 66, right: 12, top: 10, bottom: 40 };
const PLOT = { width: SIZE.width - SIZE.left - SIZE.right, height: SIZE.height - SIZE.top - SIZE.bottom };
const COLOURS = 8;
const DASHES = ["", "7 4", "2 3", "9 3 2 3"];
/** Largest number of points of a curve whose points are marked. */
const MARKED = 40;

function svg(name, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  element.append(...children);
  return element;
}

function brief(value) {
  const size = Math.abs(value);
  return size !== 0 && (size < 1e-3 || size >= 1e6) ? value.toExponential(2).replace(/\.?0+e/, "e") : String(Number(value.toPrecision(5)));
}

/** Returns about `count` round numbers between two values. */
function ticks(from, to, count) {
  const rough = (to - from) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5].find((factor) => factor * power >= rough) ?? 10);
  const found = [];
  for (let i = Math.ceil(from / step); i * step <= to && found.length < 50; i += 1) found.push(i * step);
  return found;
}

/** Returns the attributes that distinguish the curves of a name. */
function lineAttributes(of, kind) {
  const dash = DASHES[Math.floor(of / COLOURS) % DASHES.length];
  return { class: `${kind} series-${of % COLOURS}`, ...(dash && kind === "curve" ? { "stroke-dasharray": dash } : {}) };
}

/** Computes a running mean in which each earlier value counts `weight` times as much as the one after it. */
function smoothed(points, weight) {
  let [sum, norm] = [0, 0];
  return points.map((point) => {
    if (Number.isNaN(point.y)) return point;
    sum = weight * sum + (1 - weight) * point.y;
    norm = weight * norm + (1 - weight);
    return { ...point, y: sum / norm };
  });
}

function bounds(values) {
  return [values.reduce((a, b) => Math.min(a, b), Infinity), values.reduce((a, b) => Math.max(a, b), -Infinity)];
}

/** The shared state. It survives a reload of the page in the same tab, unless the browser forbids a file to store it. */
class View {
  constructor({ names, charts }) {
    const [least, greatest] = bounds(charts.flatMap(({ curves }) => curves.flatMap(({ x }) => [x[0], x[x.length - 1]])));
    this.all = [least, greatest > least ? greatest : least + 1];
    this.names = names;
    this.key = `ebm-view ${location.pathname}`;
    this.kept = { range: null, smoothing: 0, log: false, hidden: [] };
    try {
      Object.assign(this.kept, JSON.parse(sessionStorage.getItem(this.key)));
    } catch { /* No state was stored. */ }
  }

  get shown() {
    return this.kept.range ?? this.all;
  }

  keep() {
    try {
      sessionStorage.setItem(this.key, JSON.stringify(this.kept));
    } catch { /* The state cannot be stored. */ }
  }
}

/** One chart in its figure; `changed` is called to change the view. */
class Plot {
  constructor(figure, { title, curves }, view, changed) {
    this.view = view;
    this.clip = `clip-${figure.dataset.chart}`;
    this.curves = curves.map(({ of, x, y, low, high }) => ({
      of, points: x.map((x, i) => ({ x, y: y[i] ?? Number.NaN, low: low[i] ?? y[i], high: high[i] ?? y[i] })),
    }));
    this.drag = null;
    this.overlay = svg("g", {});
    this.root = svg("svg", { viewBox: `0 0 ${SIZE.width} ${SIZE.height}`, role: "img", "aria-label": `${title}; the numbers are in the table below` });
    this.readout = document.createElement("output");
    figure.append(this.root, this.readout);
    this.root.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      this.drag = this.at(event);
      this.root.setPointerCapture(event.pointerId);
    });
    this.root.addEventListener("pointermove", (event) => this.point(this.at(event)));
    this.root.addEventListener("pointerup", (event) => {
      const range = [this.drag, this.at(event)].sort((a, b) => a - b);
      const [from, to] = view.shown;
      if (this.drag !== null && range[1] - range[0] > (to - from) / 100) changed({ range });
      this.drag = null;
    });
    this.root.addEventListener("dblclick", () => changed({ range: null }));
  }

  /** Returns the step under the pointer. */
  at(event) {
    const box = this.root.getBoundingClientRect();
    const share = ((event.clientX - box.left) / box.width * SIZE.width - SIZE.left) / PLOT.width;
    const [from, to] = this.view.shown;
    return from + Math.min(1, Math.max(0, share)) * (to - from);
  }

  /** Returns the position of a step. */
  place(x) {
    const [from, to] = this.view.shown;
    return SIZE.left + (x - from) / (to - from) * PLOT.width;
  }

  /** Shows the values nearest to a step, and marks the range of the current drag. */
  point(x) {
    const [start, place] = [this.place(this.drag ?? x), this.place(x)];
    this.overlay.replaceChildren(
      svg("line", { class: "cursor", x1: place, x2: place, y1: SIZE.top, y2: SIZE.top + PLOT.height }),
      svg("rect", { class: "chosen", x: Math.min(start, place), width: Math.abs(place - start), y: SIZE.top, height: PLOT.height }),
    );
    const said = this.lines.map(({ of, raw }) => {
      const near = raw.reduce((best, point) => (Math.abs(point.x - x) < Math.abs(best.x - x) ? point : best));
      return `${this.view.names[of]} ${Number.isNaN(near.y) ? "not finite" : brief(near.y)} at ${brief(near.x)}`;
    });
    this.readout.textContent = said.slice(0, 8).join(" · ") + (said.length > 8 ? " · …" : "");
  }

  draw() {
    const { names, kept: { log, smoothing, hidden }, shown: [from, to] } = this.view;
    this.lines = this.curves.filter(({ of }) => !hidden.includes(names[of])).map(({ of, points }) => {
      // One more point on either side continues the line to the border.
      const isSeen = (_, i) => (points[i + 1] ?? points[i]).x >= from && (points[i - 1] ?? points[i]).x <= to;
      const isSmooth = smoothing > 0 && points.length > MARKED;
      return { of, raw: points.filter(isSeen), smooth: isSmooth ? smoothed(points, smoothing).filter(isSeen) : null };
    }).filter(({ raw }) => raw.length > 0);
    const scale = (y) => (log ? Math.log10(y) : y);
    const values = this.lines.flatMap(({ raw, smooth }) => (smooth ?? raw).flatMap(({ y, low, high }) => (smooth ? [y] : [low, high])));
    const [least, greatest] = bounds(values.map(scale).filter(Number.isFinite));
    const room = greatest > least ? (greatest - least) * 0.05 : Math.abs(greatest) * 0.1 || 1;
    const [bottom, top] = least > greatest ? [0, 1] : [least - room, greatest + room];
    const height = (value) => SIZE.top + (1 - (value - bottom) / (top - bottom)) * PLOT.height;
    const frame = { x: SIZE.left, y: SIZE.top, width: PLOT.width, height: PLOT.height };
    const inside = svg("g", { "clip-path": `url(#${this.clip})` });
    for (const line of this.lines) this.drawLine(inside, line, (y) => height(scale(y)));
    this.overlay.replaceChildren();
    this.root.replaceChildren(
      svg("clipPath", { id: this.clip }, svg("rect", frame)),
      // Receives the pointer where there is no line.
      svg("rect", { ...frame, fill: "transparent" }),
      ...ticks(bottom, top, 5).flatMap((tick) => {
        const text = brief(log ? 10 ** tick : Math.abs(tick) < (top - bottom) * 1e-9 ? 0 : tick);
        const y = height(tick);
        return [
          svg("line", { class: "grid", x1: SIZE.left, x2: SIZE.left + PLOT.width, y1: y, y2: y }),
          svg("text", { x: SIZE.left - 6, y: y + 4, "text-anchor": "end" }, text),
        ];
      }),
      ...ticks(from, to, 6).flatMap((tick) => {
        const x = this.place(tick);
        return [
          svg("line", { class: "grid", x1: x, x2: x, y1: SIZE.top, y2: SIZE.top + PLOT.height }),
          svg("text", { x, y: SIZE.top + PLOT.height + 16, "text-anchor": "middle" }, brief(tick)),
        ];
      }),
      svg("text", { x: SIZE.left + PLOT.width / 2, y: SIZE.height - 6, "text-anchor": "middle" }, "step"),
      inside, this.overlay,
    );
    this.root.dataset.points = String(this.lines.reduce((sum, { raw }) => sum + raw.length, 0));
  }

  drawLine(into, { of, raw, smooth }, height) {
    const place = (x, y) => `${this.place(x).toFixed(1)} ${height(y).toFixed(1)}`;
    const path = (points) => points.reduce(({ d, isGoing }, { x, y }) => {
      const isFinite = Number.isFinite(height(y));
      return { d: isFinite ? `${d}${isGoing ? "L" : "M"}${place(x, y)}` : d, isGoing: isFinite };
    }, { d: "", isGoing: false }).d;
    const wide = raw.filter(({ low, high }) => high > low && Number.isFinite(height(low)));
    if (!smooth && wide.length > 0) {
      const border = [...wide.map(({ x, high }) => place(x, high)), ...wide.map(({ x, low }) => place(x, low)).reverse()];
      into.append(svg("path", { ...lineAttributes(of, "band"), d: `M${border.join("L")}Z` }));
    }
    if (smooth) into.append(svg("path", { ...lineAttributes(of, "raw"), d: path(raw) }));
    into.append(svg("path", { ...lineAttributes(of, "curve"), d: path(smooth ?? raw) }));
    for (const { x, y } of raw.length <= MARKED ? raw : []) {
      if (Number.isFinite(height(y))) into.append(svg("circle", { ...lineAttributes(of, "dot"), cx: this.place(x), cy: height(y), r: 2.5 }));
    }
  }
}

/** Fills the list of names with check boxes and samples of the lines. */
function legend(view, changed) {
  document.querySelector(".legend").append(...view.names.map((name, of) => {
    const box = document.createElement("input");
    Object.assign(box, { type: "checkbox", checked: !view.kept.hidden.includes(name) });
    box.addEventListener("change", () => {
      const others = view.kept.hidden.filter((other) => other !== name);
      changed({ hidden: box.checked ? others : [...others, name] });
    });
    const sample = svg("svg", { width: 34, height: 10, "aria-hidden": "true" }, svg("line", { ...lineAttributes(of, "curve"), x1: 0, x2: 34, y1: 5, y2: 5 }));
    const [item, label] = [document.createElement("li"), document.createElement("label")];
    label.append(box, sample, name);
    item.append(label);
    return item;
  }));
}

function charts(data) {
  const view = new View(data);
  const changed = (change) => {
    Object.assign(view.kept, change);
    for (const plot of plots) plot.draw();
    view.keep();
  };
  const plots = Array.from(document.querySelectorAll("[data-chart]"), (figure) =>
    new Plot(figure, data.charts[Number(figure.dataset.chart)], view, changed));
  legend(view, changed);
  const slider = document.querySelector("input.smoothing");
  slider.value = String(view.kept.smoothing);
  slider.addEventListener("input", () => changed({ smoothing: Number(slider.value) }));
  const box = document.querySelector("input.logarithmic");
  box.checked = view.kept.log;
  box.addEventListener("change", () => changed({ log: box.checked }));
  document.querySelector("button.all-steps").addEventListener("click", () => changed({ range: null }));
  changed({});
}

const chartData = document.getElementById("charts");
if (chartData) charts(JSON.parse(chartData.textContent));
