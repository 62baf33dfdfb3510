// Curves: every chart of a page shares the range of x, the smoothing, the scale of y and which names are shown.
// A drag chooses a range, a double click all of it; keys do the same. The data are ebm_page::Charts.
"use strict";

/** @typedef {{ of: number, x: number[], y: (number | null)[], low?: (number | null)[], high?: (number | null)[], marked: boolean }} Curve */
/** @typedef {{ title: string, curves: Curve[] }} Chart */
/** @typedef {{ x: string, names: string[], charts: Chart[] }} Charts */
/** @typedef {{ x: number, y: number, low: number, high: number }} Point y is NaN where there is no value. */
/** @typedef {{ of: number, raw: Point[], smooth: Point[] | null }} Line what is shown of a curve */

const SVG = "http://www.w3.org/2000/svg";
const SIZE = { width: 640, height: 300, left: 66, right: 12, top: 10, bottom: 40 };
const PLOT = { width: SIZE.width - SIZE.left - SIZE.right, height: SIZE.height - SIZE.top - SIZE.bottom };
const COLOURS = 8;
const DASHES = ["", "7 4", "2 3", "9 3 2 3"];

/**
 * @param {string} name
 * @param {Record<string, string | number>} attributes
 * @param {...(Node | string)} children
 */
function svg(name, attributes, ...children) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  element.append(...children);
  return element;
}

/** The attributes by which the curves of a name are known. @param {number} of @param {string} kind */
function look(of, kind) {
  const dash = DASHES[Math.floor(of / COLOURS) % DASHES.length];
  return { class: `${kind} series-${of % COLOURS}`, ...(dash && kind === "curve" ? { "stroke-dasharray": dash } : {}) };
}

/** @param {number} value */
function brief(value) {
  const size = Math.abs(value);
  return size !== 0 && (size < 1e-3 || size >= 1e6) ? value.toExponential(2).replace(/\.?0+e/, "e") : String(Number(value.toPrecision(5)));
}

/** Round numbers between two, about `count` of them. @param {number} from @param {number} to @param {number} count */
function ticks(from, to, count) {
  const rough = (to - from) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5].find((factor) => factor * power >= rough) ?? 10);
  const found = [];
  for (let i = Math.ceil(from / step); i * step <= to && found.length < 50; i += 1) found.push(i * step);
  return found;
}

/** A running mean in which each earlier value counts `weight` times as much as the one after it. @param {Point[]} points @param {number} weight */
function smoothed(points, weight) {
  let sum = 0;
  let norm = 0;
  return points.map((point) => {
    if (Number.isNaN(point.y)) return point;
    sum = weight * sum + (1 - weight) * point.y;
    norm = weight * norm + (1 - weight);
    return { ...point, y: sum / norm };
  });
}

/** @param {Curve} curve @returns {Point[]} */
function pointsOf(curve) {
  return curve.x.map((x, i) => {
    const y = curve.y[i] ?? Number.NaN;
    return { x, y, low: curve.low?.[i] ?? y, high: curve.high?.[i] ?? y };
  });
}

/** The shared state, which survives a reload of the page in the same tab. */
class View {
  /** @param {Charts} data */
  constructor(data) {
    const curves = data.charts.flatMap((chart) => chart.curves).filter((curve) => curve.x.length > 0);
    const ends = curves.flatMap((curve) => [curve.x[0], curve.x[curve.x.length - 1]]);
    const least = ends.reduce((a, b) => Math.min(a, b), Infinity);
    const greatest = ends.reduce((a, b) => Math.max(a, b), -Infinity);
    this.all = ends.length === 0 ? [0, 1] : [least, greatest > least ? greatest : least + 1];
    this.names = data.names;
    this.x = data.x;
    /** @type {number[] | null} null is all */
    this.range = null;
    this.smoothing = 0;
    this.log = false;
    /** @type {Set<string>} */
    this.hidden = new Set();
    this.key = `ebm-view ${location.pathname}`;
    this.restore();
  }

  get shown() {
    return this.range ?? this.all;
  }

  /** @param {number} from @param {number} to */
  zoom(from, to) {
    const width = Math.min(Math.max(to - from, (this.all[1] - this.all[0]) / 1e5), this.all[1] - this.all[0]);
    const start = Math.min(Math.max(from, this.all[0]), this.all[1] - width);
    this.range = width >= this.all[1] - this.all[0] ? null : [start, start + width];
  }

  restore() {
    try {
      const kept = JSON.parse(sessionStorage.getItem(this.key) ?? "null");
      if (!kept) return;
      this.smoothing = Number(kept.smoothing) || 0;
      this.log = kept.log === true;
      this.hidden = new Set(kept.hidden);
      if (Array.isArray(kept.range)) this.zoom(Number(kept.range[0]), Number(kept.range[1]));
    } catch {
      // A page from a disk may not be allowed to remember.
    }
  }

  keep() {
    try {
      const { range, smoothing, log } = this;
      sessionStorage.setItem(this.key, JSON.stringify({ range, smoothing, log, hidden: [...this.hidden] }));
    } catch {
      // As above.
    }
  }
}

/** One chart in its figure. */
class Plot {
  /** @param {HTMLElement} figure @param {Chart} chart @param {View} view @param {() => void} changed called after a change of the view */
  constructor(figure, chart, view, changed) {
    this.chart = chart;
    this.view = view;
    this.changed = changed;
    this.points = chart.curves.map(pointsOf);
    /** @type {Line[]} */
    this.lines = [];
    this.drag = /** @type {number | null} */ (null);
    this.overlay = svg("g", {});
    const names = chart.curves.map((curve) => view.names[curve.of]).join(", ");
    this.root = svg("svg", {
      viewBox: `0 0 ${SIZE.width} ${SIZE.height}`, tabindex: 0, role: "img",
      "aria-label": `${chart.title} of ${names}. Arrow keys move, plus and minus zoom, Home shows all; the numbers are in the table below.`,
    });
    this.readout = document.createElement("output");
    figure.append(this.root, this.readout);
    this.listen();
  }

  /** The x under a pointer. @param {PointerEvent} event */
  at(event) {
    const box = this.root.getBoundingClientRect();
    const share = ((event.clientX - box.left) / box.width * SIZE.width - SIZE.left) / PLOT.width;
    const [from, to] = this.view.shown;
    return from + Math.min(1, Math.max(0, share)) * (to - from);
  }

  listen() {
    const { root, view } = this;
    root.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      this.drag = this.at(event);
      root.setPointerCapture(event.pointerId);
    });
    root.addEventListener("pointermove", (event) => this.point(this.at(event)));
    root.addEventListener("pointerup", (event) => {
      const [from, to] = [this.drag, this.at(event)];
      this.drag = null;
      const [least, greatest] = view.shown;
      if (from !== null && Math.abs(to - from) > (greatest - least) / 100) {
        view.zoom(Math.min(from, to), Math.max(from, to));
        this.changed();
      }
    });
    root.addEventListener("pointerleave", () => { if (this.drag === null) this.overlay.replaceChildren(); });
    root.addEventListener("dblclick", () => { view.range = null; this.changed(); });
    root.addEventListener("keydown", (event) => this.key(event));
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const [from, to] = this.view.shown;
    const step = (to - from) / 5;
    if (event.key === "ArrowLeft") this.view.zoom(from - step, to - step);
    else if (event.key === "ArrowRight") this.view.zoom(from + step, to + step);
    else if (event.key === "+" || event.key === "=") this.view.zoom(from + step, to - step);
    else if (event.key === "-") this.view.zoom(from - 2 * step, to + 2 * step);
    else if (event.key === "Home" || event.key === "0" || event.key === "Escape") this.view.range = null;
    else return;
    event.preventDefault();
    this.changed();
  }

  /** Says the values nearest to x, and marks what a drag would choose. @param {number} x */
  point(x) {
    const place = this.place(x);
    this.overlay.replaceChildren(svg("line", { class: "cursor", x1: place, x2: place, y1: SIZE.top, y2: SIZE.top + PLOT.height }));
    if (this.drag !== null) {
      const start = this.place(this.drag);
      const box = { x: Math.min(start, place), width: Math.abs(place - start), y: SIZE.top, height: PLOT.height };
      this.overlay.append(svg("rect", { class: "chosen", ...box }));
    }
    const said = this.lines.flatMap(({ of, raw }) => {
      const near = raw.reduce((best, point) => (Math.abs(point.x - x) < Math.abs(best.x - x) ? point : best), raw[0]);
      return near ? [`${this.view.names[of]} ${Number.isNaN(near.y) ? "not finite" : brief(near.y)} at ${brief(near.x)}`] : [];
    });
    this.readout.textContent = said.slice(0, 8).join(" · ") + (said.length > 8 ? " · …" : "");
  }

  /** @param {number} x */
  place(x) {
    const [from, to] = this.view.shown;
    return SIZE.left + (x - from) / (to - from) * PLOT.width;
  }

  /** What is seen of each curve that is not hidden, one point beyond either side included. */
  visible() {
    const [from, to] = this.view.shown;
    return this.chart.curves.flatMap((curve, i) => {
      if (this.view.hidden.has(this.view.names[curve.of])) return [];
      const all = this.points[i];
      const first = Math.max(0, all.findIndex((point) => point.x >= from) - 1);
      let last = all.length;
      while (last > 0 && all[last - 1].x > to) last -= 1;
      const cut = (/** @type {Point[]} */ points) => points.slice(first, last + 1);
      const smooth = this.view.smoothing > 0 && !curve.marked ? cut(smoothed(all, this.view.smoothing)) : null;
      return [{ of: curve.of, raw: cut(all), smooth }];
    });
  }

  /** The range of y with some room; on a logarithmic scale of exponents. */
  scale() {
    const values = this.lines.flatMap(({ raw, smooth }) =>
      smooth ? smooth.map((point) => point.y) : raw.flatMap((point) => [point.low, point.high]));
    const usable = values.map((value) => (this.view.log ? Math.log10(value) : value)).filter(Number.isFinite);
    if (usable.length === 0) return [0, 1];
    const least = usable.reduce((a, b) => Math.min(a, b));
    const greatest = usable.reduce((a, b) => Math.max(a, b));
    const room = greatest > least ? (greatest - least) * 0.05 : Math.abs(greatest) * 0.1 || 1;
    return [least - room, greatest + room];
  }

  draw() {
    this.lines = this.visible();
    const [bottom, top] = this.scale();
    const { log } = this.view;
    const level = (/** @type {number} */ y) => SIZE.top + (1 - ((log ? Math.log10(y) : y) - bottom) / (top - bottom)) * PLOT.height;
    const clip = `clip-${this.root.parentElement?.dataset.chart}`;
    const inside = svg("g", { "clip-path": `url(#${clip})` });
    for (const line of this.lines) this.drawLine(inside, line, level);
    this.overlay = svg("g", {});
    const frame = { x: SIZE.left, y: SIZE.top, width: PLOT.width, height: PLOT.height };
    this.root.replaceChildren(
      svg("defs", {}, svg("clipPath", { id: clip }, svg("rect", frame))),
      // Something to drag on where there is no line.
      svg("rect", { ...frame, fill: "transparent" }),
      ...this.axes(bottom, top), inside, this.overlay,
    );
    this.root.setAttribute("data-points", String(this.lines.reduce((sum, line) => sum + line.raw.length, 0)));
    const middle = { x: SIZE.width / 2, y: SIZE.height / 2, "text-anchor": "middle" };
    if (this.lines.length === 0) this.root.append(svg("text", middle, "no curve is chosen"));
  }

  /** @param {number} bottom @param {number} top */
  axes(bottom, top) {
    const [from, to] = this.view.shown;
    const parts = [];
    for (const tick of ticks(bottom, top, 5)) {
      const y = SIZE.top + (1 - (tick - bottom) / (top - bottom)) * PLOT.height;
      parts.push(svg("line", { class: "grid", x1: SIZE.left, x2: SIZE.left + PLOT.width, y1: y, y2: y }));
      const text = brief(this.view.log ? 10 ** tick : Math.abs(tick) < (top - bottom) * 1e-9 ? 0 : tick);
      parts.push(svg("text", { x: SIZE.left - 6, y: y + 4, "text-anchor": "end" }, text));
    }
    for (const tick of ticks(from, to, 6)) {
      const x = this.place(tick);
      parts.push(svg("line", { class: "grid", x1: x, x2: x, y1: SIZE.top, y2: SIZE.top + PLOT.height }));
      parts.push(svg("text", { x, y: SIZE.top + PLOT.height + 16, "text-anchor": "middle" }, brief(tick)));
    }
    parts.push(svg("text", { x: SIZE.left + PLOT.width / 2, y: SIZE.height - 6, "text-anchor": "middle" }, this.view.x));
    return parts;
  }

  /** @param {Element} into @param {Line} line @param {(y: number) => number} level */
  drawLine(into, line, level) {
    const columns = this.columns(line.raw);
    if (!line.smooth && columns.some((point) => point.high > point.low)) {
      into.append(svg("path", { ...look(line.of, "band"), d: this.band(columns, level) }));
    }
    into.append(svg("path", { ...look(line.of, line.smooth ? "raw" : "curve"), d: this.path(columns, level) }));
    if (line.smooth) into.append(svg("path", { ...look(line.of, "curve"), d: this.path(this.columns(line.smooth), level) }));
    const marked = line.raw.length <= 40 ? line.raw : [];
    for (const point of marked) {
      const y = level(point.y);
      if (Number.isFinite(y)) into.append(svg("circle", { ...look(line.of, "dot"), cx: this.place(point.x), cy: y, r: 2.5 }));
    }
  }

  /** One point for each half pixel at most: the mean of its points, with their bounds. @param {Point[]} points */
  columns(points) {
    if (points.length <= 2 * PLOT.width) return points;
    /** @type {Map<number, Point[]>} */
    const columns = new Map();
    for (const point of points) {
      const column = Math.floor(this.place(point.x) * 2);
      const others = columns.get(column);
      if (others) others.push(point);
      else columns.set(column, [point]);
    }
    return [...columns.values()].map((all) => {
      const finite = all.filter((point) => !Number.isNaN(point.y));
      const mean = finite.reduce((sum, point) => sum + point.y, 0) / finite.length;
      return {
        x: all[0].x, y: mean,
        low: finite.reduce((least, point) => Math.min(least, point.low), Infinity),
        high: finite.reduce((greatest, point) => Math.max(greatest, point.high), -Infinity),
      };
    });
  }

  /** @param {Point[]} points @param {(y: number) => number} level */
  path(points, level) {
    let d = "";
    let going = false;
    for (const point of points) {
      const y = level(point.y);
      if (Number.isFinite(y)) d += `${going ? "L" : "M"}${this.place(point.x).toFixed(1)} ${y.toFixed(1)}`;
      going = Number.isFinite(y);
    }
    return d;
  }

  /** @param {Point[]} points @param {(y: number) => number} level */
  band(points, level) {
    const whole = points.filter((point) => Number.isFinite(level(point.low)) && Number.isFinite(level(point.high)));
    const corner = (/** @type {number} */ x, /** @type {number} */ y) => `${this.place(x).toFixed(1)} ${level(y).toFixed(1)}`;
    const over = whole.map((point) => corner(point.x, point.high));
    const under = whole.map((point) => corner(point.x, point.low)).reverse();
    return whole.length === 0 ? "" : `M${[...over, ...under].join("L")}Z`;
  }
}

/** The choice of names, with a sample of each line. @param {View} view @param {() => void} changed */
function legend(view, changed) {
  const list = document.querySelector(".legend");
  if (!list) return;
  view.names.forEach((name, of) => {
    const box = document.createElement("input");
    box.type = "checkbox";
    box.checked = !view.hidden.has(name);
    box.addEventListener("change", () => {
      if (box.checked) view.hidden.delete(name);
      else view.hidden.add(name);
      changed();
    });
    const sample = svg("svg", { width: 34, height: 10, "aria-hidden": "true" }, svg("line", { ...look(of, "curve"), x1: 0, x2: 34, y1: 5, y2: 5 }));
    const label = document.createElement("label");
    label.append(box, sample, name);
    const item = document.createElement("li");
    item.append(label);
    list.append(item);
  });
}

/** @param {View} view @param {() => void} changed */
function controls(view, changed) {
  const slider = document.querySelector("input.smoothing");
  if (slider instanceof HTMLInputElement) {
    slider.value = String(view.smoothing);
    slider.addEventListener("input", () => { view.smoothing = Number(slider.value); changed(); });
  }
  const log = document.querySelector("input.logarithmic");
  if (log instanceof HTMLInputElement) {
    log.checked = view.log;
    log.addEventListener("change", () => { view.log = log.checked; changed(); });
  }
  document.querySelector("button.all-steps")?.addEventListener("click", () => { view.range = null; changed(); });
}

function charts() {
  const data = /** @type {Charts | null} */ (pageData("charts"));
  if (!data) return;
  const view = new View(data);
  /** @type {Plot[]} */
  const plots = [];
  const changed = () => {
    for (const plot of plots) plot.draw();
    const weight = document.querySelector("output.smoothing");
    if (weight) weight.textContent = view.smoothing.toFixed(2);
    view.keep();
  };
  for (const figure of document.querySelectorAll("[data-chart]")) {
    if (figure instanceof HTMLElement) plots.push(new Plot(figure, data.charts[Number(figure.dataset.chart)], view, changed));
  }
  legend(view, changed);
  controls(view, changed);
  changed();
}

charts();
document.documentElement.dataset.ready = "true";
