// The tab "Toy": the problem of Figure 2, which a density learns while one watches.

import { ask, at, attempt, say, tell } from "./common.js";
import { area, axes, brief, heat, line, newest, reach, svg } from "./plot.js";

/**
 * @typedef {{ columns: number, rows: number, p: number[], largest: number }} HeatMap
 * @typedef {{ losses: number[], map: HeatMap, kl: number | null, milliseconds: number }} State
 * @typedef {{ first: number, step: number, p: number[], mean: number, median: number, mode: number, modes: number[],
 *   region_90: [number, number][], truth: number[] | null }} Curve
 */

/** How long a request trains, in milliseconds. */
const SLICE = 120;
/** What an arrow key moves x or the cross by, and with Shift. */
const STEP = 0.1;
const SMALL_STEP = 0.01;
/** The choice of no problem. */
const OWN = "own";

/** @type {{ model: any, training: number, points: [number[], number[]], added: [number, number][], x: number, y: number, isTraining: boolean,
 *   url: string, frame: any, losses: number[], turn: number }} */
const state = {
  model: null, training: -1, points: [[], []], added: [], x: -1.5, y: 0, isTraining: false, url: "", frame: null, losses: [],
  turn: 0,
};

/** Makes the tab work; nothing is computed before it is shown. */
export function startToy() {
  document.addEventListener("shown", (event) => {
    const isShown = /** @type {CustomEvent} */ (event).detail === "toy";
    if (isShown && !state.model) attempt("toy", load);
    if (!isShown) state.isTraining = false;
  });
  at("toy-controls").addEventListener("submit", (/** @type {Event} */ event) => {
    event.preventDefault();
    if (state.isTraining) state.isTraining = false;
    else attempt("toy", train);
  });
  at("toy-anew").addEventListener("click", () => attempt("toy", async () => {
    state.added = [];
    await begin();
  }));
  at("toy-problem").addEventListener("change", () => attempt("toy", async () => {
    fillMethods();
    await begin();
  }));
  for (const id of ["toy-method", "toy-seed"]) at(id).addEventListener("change", () => attempt("toy", begin));
  at("toy-epochs").addEventListener("input", showEpochs);
  const map = at("toy-map");
  map.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => { if (event.pointerType !== "touch") moveTo(place(event)); });
  map.addEventListener("click", (/** @type {PointerEvent} */ event) => attempt("toy", () => add(place(event))));
  map.addEventListener("keydown", key);
}

async function load() {
  state.model = await ask("toy/model", null);
  const { problems, epochs } = state.model;
  const options = problems.map((/** @type {any} */ one) => new Option(one.title, one.problem));
  at("toy-problem").replaceChildren(...options, new Option("my own points alone", OWN));
  at("toy-epochs").value = epochs;
  showEpochs();
  fillMethods();
  await begin();
}

function showEpochs() {
  at("toy-epochs-value").textContent = at("toy-epochs").value;
}

/** The methods that the chosen problem has settings for; the energy model of the paper is chosen first. */
function fillMethods() {
  const { problems, methods } = state.model;
  const chosen = at("toy-method").value || "ML-IS";
  const problem = problems.find((/** @type {any} */ one) => one.problem === at("toy-problem").value);
  at("toy-method").replaceChildren(...(problem?.methods ?? methods).map((/** @type {string} */ name) => new Option(name, name)));
  at("toy-method").value = chosen;
  if (!at("toy-method").value) at("toy-method").selectedIndex = 0;
}

/** A network before its first step. */
async function begin() {
  // What was chosen before this may answer later.
  const turn = ++state.turn;
  state.isTraining = false;
  state.training = -1;
  const problem = at("toy-problem").value;
  if (problem === OWN && state.added.length === 0) {
    state.points = [[], []];
    await draw(null);
    if (turn === state.turn) say("toy", "add points: click into the map, or focus it and press Enter");
    return;
  }
  const begun = await ask("toy/begin", {
    problem: problem === OWN ? null : problem, method: at("toy-method").value, seed: Number(at("toy-seed").value), added: state.added,
  });
  if (turn !== state.turn) return;
  state.training = begun.training;
  state.points = [begun.x, begun.y];
  await show(begun);
  if (turn === state.turn) say("toy", `${begun.x.length} points, an untrained network; Train lets it learn`);
}

/** Trains until the chosen number of epochs is over, or somebody stops it. */
async function train() {
  if (state.training < 0) await begin();
  const { training } = state;
  if (training < 0) return;
  state.isTraining = true;
  at("toy-train").textContent = "Pause";
  const epochs = () => Number(at("toy-epochs").value);
  if (state.losses.length >= epochs()) say("toy", `${state.losses.length} epochs are over; choose more, or begin anew`);
  try {
    while (state.isTraining && state.training === training && state.losses.length < epochs()) {
      const now = await ask("toy/train", { training, epochs: epochs(), milliseconds: SLICE });
      if (state.training !== training) return;
      await show(now);
      const kl = now.kl === null ? "" : `, KL(truth ‖ model) ${now.kl.toFixed(3)} nats`;
      say("toy", `epoch ${now.losses.length} of ${epochs()}${kl}`);
    }
  } finally {
    if (state.training === training) state.isTraining = false;
    at("toy-train").textContent = "Train";
  }
}

/**
 * Adds a point to what is learnt from.
 * @param {{ x: number, y: number }} point
 */
async function add({ x, y }) {
  if (!state.frame || Math.abs(x) > 3 || Math.abs(y) > 3) return;
  state.added.push([x, y]);
  if (state.training < 0) {
    await begin();
    return;
  }
  const { training } = state;
  const { points } = await ask("toy/add", { training, x, y });
  if (training !== state.training) return;
  state.points[0].push(x);
  state.points[1].push(y);
  drawPoints();
  say("toy", `${points} points, ${state.added.length} of your own`);
}

/** Where the pointer is on the map. @param {PointerEvent} event */
function place(event) {
  const box = at("toy-map").getBoundingClientRect();
  const { width, height } = at("toy-map").viewBox.baseVal;
  const { left, right, top, bottom } = state.frame ?? { left: 0, right: 1, top: 0, bottom: 1 };
  const [x, y] = [((event.clientX - box.left) / box.width) * width, ((event.clientY - box.top) / box.height) * height];
  return { x: -3 + (6 * (x - left)) / (right - left), y: 3 - (6 * (y - top)) / (bottom - top) };
}

/** @param {{ x: number, y: number }} point */
function moveTo({ x, y }) {
  const inside = (/** @type {number} */ value) => Math.min(3, Math.max(-3, value));
  Object.assign(state, { x: inside(x), y: inside(y) });
  drawCross();
  attempt("toy", () => curveAt(state.x));
}

/** @param {KeyboardEvent} event */
function key(event) {
  const by = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
  if (!by && event.key !== "Enter") return;
  event.preventDefault();
  const step = event.shiftKey ? SMALL_STEP : STEP;
  // In hundredths, so that steps do not add up errors.
  const to = (/** @type {number} */ from, /** @type {number} */ way) => (way ? Math.round((from + way * step) * 100) / 100 : from);
  if (by) moveTo({ x: to(state.x, by[0]), y: to(state.y, by[1]) });
  else attempt("toy", () => add(state));
}

/** @param {State} now */
async function show(now) {
  const { turn } = state;
  state.losses = now.losses;
  await draw(now.map);
  if (turn !== state.turn) return;
  drawLosses(now);
  Object.assign(at("toy").dataset, { epochs: String(now.losses.length), kl: JSON.stringify(now.kl), losses: JSON.stringify(now.losses) });
  await curveAt(state.x);
}

/** Draws the map with all that is on it. @param {HeatMap | null} map */
async function draw(map) {
  const { turn } = state;
  const url = map ? await heat(map.columns, upright(map), () => 1) : "";
  if (turn !== state.turn) {
    URL.revokeObjectURL(url);
    return;
  }
  const plot = at("toy-map");
  const frame = axes(plot, { first: -3, last: 3 }, { first: -3, last: 3 }, "x");
  state.frame = frame;
  const inner = { x: frame.left, y: frame.top, width: frame.right - frame.left, height: frame.bottom - frame.top };
  plot.append(svg("rect", { class: "ground", ...inner }));
  if (map) {
    // A value is that of its pixel's middle, so the outer half of the first and the last pixel is beyond the axes.
    const [across, down] = [inner.width / (map.columns - 1), inner.height / (map.rows - 1)];
    const whole = {
      x: inner.x - across / 2, y: inner.y - down / 2, width: inner.width + across, height: inner.height + down, preserveAspectRatio: "none",
    };
    plot.append(
      svg("clipPath", { id: "toy-clip" }, svg("rect", inner)),
      svg("g", { "clip-path": "url(#toy-clip)" }, svg("image", { href: url, ...whole })),
    );
  }
  plot.append(svg("g", { id: "toy-points" }), svg("g", { id: "toy-cross" }));
  drawPoints();
  drawCross();
  if (state.url) URL.revokeObjectURL(state.url);
  state.url = url;
}

/** The rows from the highest y on, and what is rare brighter than it is. @param {HeatMap} map */
function upright({ columns, rows, p }) {
  return Array.from({ length: rows * columns }, (_, cell) => {
    const row = rows - 1 - Math.floor(cell / columns);
    return Math.sqrt(p[row * columns + (cell % columns)]);
  });
}

function drawPoints() {
  const { frame, points: [xs, ys], added } = state;
  const dots = (/** @type {number} */ from, /** @type {number} */ to) =>
    xs.slice(from, to).map((x, i) => `M${frame.x(x).toFixed(1)} ${frame.y(ys[from + i]).toFixed(1)}h0`).join("");
  const own = Math.max(0, xs.length - added.length);
  at("toy-points").replaceChildren(svg("path", { class: "dots", d: dots(0, own) }), svg("path", { class: "dots own", d: dots(own, xs.length) }));
}

function drawCross() {
  const { frame, x, y } = state;
  if (!frame) return;
  const [across, down] = [frame.x(x), frame.y(y)];
  at("toy-cross").replaceChildren(
    svg("line", { class: "at", x1: across, x2: across, y1: frame.top, y2: frame.bottom }),
    svg("circle", { class: "at", cx: across, cy: down, r: 6 }),
  );
  at("toy-map").setAttribute("aria-valuenow", x.toFixed(2));
  at("toy-map").setAttribute("aria-valuetext", `x ${x.toFixed(2)}, cross at y ${y.toFixed(2)}`);
}

const curveAt = newest(async (/** @type {number} */ x) => {
  const { training } = state;
  if (training < 0) {
    at("toy-curve").replaceChildren();
    return;
  }
  /** @type {Curve} */
  const curve = await ask("toy/curve", { training, x });
  if (training === state.training) drawCurve(x, curve);
});

/** @param {number} x @param {Curve} curve */
function drawCurve(x, curve) {
  const { first, step, p, truth, region_90: region } = curve;
  const ys = p.map((_, i) => first + i * step);
  const highest = Math.max(...p, ...(truth ?? []));
  const frame = axes(at("toy-curve"), { first: ys[0], last: ys[ys.length - 1] }, { first: 0, last: 1.05 * highest }, "y");
  at("toy-curve").append(svg("path", { class: "area", d: area(frame, ys, p, region) }));
  if (truth) at("toy-curve").append(svg("path", { class: "other", d: line(frame, ys, truth) }));
  at("toy-curve").append(svg("path", { class: "curve", d: line(frame, ys, p) }));
  at("toy-x").textContent = `at x = ${x.toFixed(2)}`;
  const between = region.map(([from, to]) => `${from.toFixed(2)} to ${to.toFixed(2)}`).join(" or ");
  tell("toy-numbers", [
    ["mean", "mean", curve.mean.toFixed(3)], ["median", "median", curve.median.toFixed(3)],
    ["modes", curve.modes.length === 1 ? "mode" : "modes", curve.modes.map((mode) => mode.toFixed(2)).join(", ")],
    ["region_90", "90 % region", between],
  ], { ...curve });
  at("toy-numbers").dataset.x = String(x);
}

/** @param {State} now */
function drawLosses({ losses, kl }) {
  const plot = at("toy-losses");
  at("toy-progress").textContent = kl === null ? "" : `KL(truth ‖ model) ${brief(kl)} nats`;
  if (losses.length < 2) {
    plot.replaceChildren(svg("text", { x: 180, y: 75, "text-anchor": "middle" }, "Train draws it"));
    return;
  }
  const epochs = losses.map((_, epoch) => epoch + 1);
  const frame = axes(plot, { first: 1, last: losses.length }, reach(losses), "epoch");
  plot.append(svg("path", { class: "curve", d: line(frame, epochs, losses) }));
}
