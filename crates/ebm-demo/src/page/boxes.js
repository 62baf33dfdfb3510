// The tab "Boxes": a photograph, its boxes, and the way of one that was moved.

import { ask, at, attempt, checkSize, say, takeFiles } from "./common.js";
import { axes, line, reach, svg } from "./plot.js";

/**
 * @typedef {[number, number, number, number]} Box left, top, width, height in pixels of the photograph
 * @typedef {{ bbox: Box, f: number, is_kept: boolean }} Point
 * @typedef {{ first: [number, number], step: [number, number], size: number, p: number[] }} CornerMap
 * @typedef {{ edges_90: [number, number][][], effective_sample_size: number, is_reliable: boolean, corner: CornerMap | null }} Density
 * @typedef {{ label: number, name: string, score: number, before: Box, bbox: Box, refined: Box, can_climb: boolean,
 *   start: Box | null, path: Point[], density: Density | null, group: SVGElement, row: HTMLElement }} Found
 */

const EDGES = ["left", "top", "right", "bottom"];
const CORNERS = { nw: [0, 1], ne: [2, 1], sw: [0, 3], se: [2, 3] };
/** Points along each side of a corner's density. */
const MAP_SIZE = 64;
/** The time that a step of the animation takes, and all of them at most, in milliseconds. */
const STEP_TIME = 90;
const WHOLE_TIME = 2500;
/** What an arrow key moves a box by, in pixels. */
const NUDGE = 4;

/** @type {{ image: number, width: number, height: number, found: Found[], chosen: Found | null, model: any, url: string, heat: string, turn: number }} */
const state = { image: -1, width: 0, height: 0, found: [], chosen: null, model: null, url: "", heat: "", turn: 0 };

/** Makes the tab work. */
export function startBoxes() {
  takeFiles("boxes", look);
  attempt("boxes", loadModel);
  for (const id of ["steps", "factor", "rule"]) {
    at(`boxes-${id}`).addEventListener("input", showSettings);
    at(`boxes-${id}`).addEventListener("change", () => state.chosen?.start && climb(state.chosen, state.chosen.start));
  }
  at("boxes-corner").addEventListener("change", () => state.chosen && showDensity(state.chosen));
  at("boxes-controls").addEventListener("submit", (/** @type {Event} */ event) => event.preventDefault());
}

async function loadModel() {
  state.model = await ask("boxes/model", null);
  const { ascent, objective, classes } = state.model;
  const names = classes.filter((/** @type {any} */ one) => one.can_climb).map((/** @type {any} */ one) => one.name);
  if (!ascent) {
    at("boxes-model").textContent = "This detector has no energy model: boxes are shown and do not climb.";
    return;
  }
  at("boxes-steps").value = ascent.steps;
  const trained = objective ? `, trained with the objective ${objective}` : "";
  const known = names.length > 5 ? `${names.length} classes` : names.join(", ");
  const lengths = ascent.step_length.map((/** @type {number} */ length) => Number(length.toPrecision(3))).join(", ");
  at("boxes-model").textContent = `f of ${known}${trained}; its own T is ${ascent.steps}, its λ ${lengths}.`;
  showSettings();
}

/** The factor on λ that the slider stands for. */
function factor() {
  return 2 ** Number(at("boxes-factor").value);
}

function showSettings() {
  at("boxes-steps-value").textContent = at("boxes-steps").value;
  at("boxes-factor-value").textContent = String(Number(factor().toPrecision(3)));
}

/**
 * Sends a photograph and shows what is found.
 * @param {File} file
 */
async function look(file) {
  const begin = performance.now();
  checkSize(file);
  say("boxes", `looking at ${file.name} …`);
  const seen = await ask(`boxes/look?name=${encodeURIComponent(file.name)}`, file);
  if (state.url) URL.revokeObjectURL(state.url);
  const url = URL.createObjectURL(file);
  const found = seen.detections.map((/** @type {any} */ one) => ({
    ...one, refined: one.bbox, start: null, path: [], density: null,
  }));
  Object.assign(state, { image: seen.image, width: seen.width, height: seen.height, found, chosen: null, url });
  draw();
  list();
  const time = Math.round(performance.now() - begin);
  at("boxes").dataset.milliseconds = String(time);
  const many = found.length === 1 ? "1 object" : `${found.length} objects`;
  say("boxes", `${file.name}: ${many} in ${time} ms, of which the networks took ${Math.round(seen.milliseconds)}`);
  const first = found.find((/** @type {Found} */ one) => one.can_climb);
  if (first) await choose(first);
}

/** Draws the photograph with all boxes. */
function draw() {
  const picture = at("boxes-picture");
  picture.setAttribute("viewBox", `0 0 ${state.width} ${state.height}`);
  picture.replaceChildren(
    svg("image", { href: state.url, width: state.width, height: state.height, preserveAspectRatio: "none" }),
    svg("g", { id: "boxes-heat" }),
  );
  for (const one of state.found) {
    one.group = svg("g", { class: one.can_climb ? "box" : "box fixed" });
    picture.append(one.group);
    fill(one);
    place(one);
  }
  picture.append(svg("g", { id: "boxes-band" }), svg("g", { id: "boxes-trail" }), svg("g", { id: "boxes-tag", class: "tag" }));
  picture.removeAttribute("hidden");
  at("boxes-legend").hidden = false;
}

/**
 * Makes the elements of a box.
 * @param {Found} one
 */
function fill(one) {
  const body = svg("rect", { class: "body", tabindex: 0, role: "button", "aria-label": `${one.name} ${one.score.toFixed(2)}` });
  one.group.append(svg("rect", { class: "halo" }), svg("rect", { class: "before" }), svg("rect", { class: "start" }), body);
  body.addEventListener("focus", () => choose(one));
  body.addEventListener("pointerdown", (event) => drag(one, event, [0, 1, 2, 3]));
  body.addEventListener("keydown", (event) => key(one, event, event.shiftKey ? [2, 3] : [0, 1, 2, 3]));
  EDGES.forEach((name, edge) => {
    const mark = svg("line", { class: `edge ${edge % 2 ? "y" : "x"}`, "data-edge": name, role: "button", tabindex: -1 });
    for (const kind of ["pointerenter", "focus"]) {
      mark.addEventListener(kind, () => attempt("boxes", () => showEdge(one, edge)));
    }
    mark.addEventListener("pointerleave", hideEdge);
    mark.addEventListener("blur", hideEdge);
    mark.addEventListener("pointerdown", (event) => drag(one, event, [edge]));
    mark.addEventListener("keydown", (event) => key(one, event, [edge]));
    one.group.append(mark);
  });
  for (const [name, edges] of Object.entries(CORNERS)) {
    const mark = svg("rect", { class: `corner ${name}` });
    mark.addEventListener("pointerdown", (event) => drag(one, event, edges));
    one.group.append(mark);
  }
}

/**
 * Puts the elements of a box where it is.
 * @param {Found} one
 */
function place(one) {
  const isChosen = one === state.chosen;
  one.group.classList.toggle("picked", isChosen);
  const put = (/** @type {string} */ name, /** @type {Box | null} */ bbox) => {
    const rect = /** @type {SVGElement} */ (one.group.querySelector(`rect.${name}`));
    const [x, y, width, height] = bbox ?? [0, 0, 0, 0];
    for (const [key, value] of Object.entries({ x, y, width, height })) rect.setAttribute(key, String(value));
    rect.classList.toggle("none", !bbox);
  };
  put("halo", one.bbox);
  put("body", one.bbox);
  put("before", one.can_climb && !one.start ? one.before : null);
  put("start", one.start);
  const ends = sides(one.bbox);
  EDGES.forEach((name, edge) => {
    const mark = /** @type {SVGElement} */ (one.group.querySelector(`[data-edge=${name}]`));
    const [x1, x2] = edge % 2 ? [ends[0], ends[2]] : [ends[edge], ends[edge]];
    const [y1, y2] = edge % 2 ? [ends[edge], ends[edge]] : [ends[1], ends[3]];
    for (const [key, value] of Object.entries({ x1, x2, y1, y2 })) mark.setAttribute(key, String(value));
    mark.setAttribute("tabindex", isChosen && one.can_climb ? "0" : "-1");
    mark.setAttribute("aria-label", `${name} edge of ${one.name}`);
  });
  const side = 9 * pixel();
  for (const [name, [across, down]] of Object.entries(CORNERS)) {
    put(`corner.${name}`, isChosen && one.can_climb ? [ends[across] - side / 2, ends[down] - side / 2, side, side] : null);
  }
}

/** How many pixels of the photograph a pixel of the screen is. */
function pixel() {
  return state.width / (at("boxes-picture").getBoundingClientRect().width || state.width);
}

/** @param {Box} bbox @returns {[number, number, number, number]} left, top, right, bottom */
function sides([x, y, width, height]) {
  return [x, y, x + width, y + height];
}

/**
 * The box after these of its edges have moved; it keeps two pixels and stays in sight.
 * @param {Box} bbox
 * @param {number[]} edges
 * @param {number[]} by across and down
 * @returns {Box}
 */
function moved(bbox, edges, by) {
  const ends = sides(bbox);
  const size = [state.width, state.height];
  const step = [0, 1].map((axis) => {
    const [low, high] = [ends[axis], ends[axis + 2]];
    const moves = [edges.includes(axis), edges.includes(axis + 2)];
    const room = [
      moves[0] && moves[1] ? 2 - high : moves[0] ? -low : low + 2 - high,
      moves[0] && moves[1] ? size[axis] - 2 - low : moves[0] ? high - 2 - low : size[axis] - high,
    ];
    return Math.min(Math.max(by[axis], Math.min(room[0], 0)), Math.max(room[1], 0));
  });
  for (const edge of edges) ends[edge] += step[edge % 2];
  return [ends[0], ends[1], ends[2] - ends[0], ends[3] - ends[1]];
}

/**
 * Lets the pointer move these edges of a box, which climbs when it is let go.
 * @param {Found} one
 * @param {PointerEvent} event
 * @param {number[]} edges
 */
function drag(one, event, edges) {
  if (event.button !== 0) return;
  choose(one);
  if (!one.can_climb) return;
  const target = /** @type {SVGElement} */ (event.currentTarget);
  target.setPointerCapture(event.pointerId);
  const [from, given, scale] = [[event.clientX, event.clientY], one.bbox, pixel()];
  state.turn += 1;
  const move = (/** @type {PointerEvent} */ event) => {
    one.bbox = moved(given, edges, [(event.clientX - from[0]) * scale, (event.clientY - from[1]) * scale]);
    forget(one);
    place(one);
  };
  const end = (/** @type {PointerEvent} */ event) => {
    for (const [kind, listener] of Object.entries(listeners)) target.removeEventListener(kind, /** @type {any} */ (listener));
    const distance = Math.hypot(event.clientX - from[0], event.clientY - from[1]);
    if (distance > 2) climb(one, one.bbox);
  };
  const listeners = { pointermove: move, pointerup: end, pointercancel: end };
  for (const [kind, listener] of Object.entries(listeners)) target.addEventListener(kind, /** @type {any} */ (listener));
}

/**
 * Moves a box by the keyboard.
 * @param {Found} one
 * @param {KeyboardEvent} event
 * @param {number[]} edges
 */
function key(one, event, edges) {
  const by = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
  const isPut = event.key === "Escape";
  if (!one.can_climb || !(by || isPut || event.key === "Enter")) return;
  event.preventDefault();
  if (event.key === "Enter") {
    climb(one, one.bbox);
    return;
  }
  state.turn += 1;
  one.bbox = by ? moved(one.bbox, edges, by.map((step) => step * NUDGE)) : one.refined;
  forget(one);
  place(one);
  if (isPut) choose(one);
}

/**
 * Forgets what was known of a box that has moved.
 * @param {Found} one
 */
function forget(one) {
  Object.assign(one, { start: null, path: [], density: null });
  for (const id of ["heat", "band", "trail", "tag"]) at(`boxes-${id}`).replaceChildren();
}

/**
 * Chooses a box: its handles, its row, its way and its density are shown.
 * @param {Found} one
 */
async function choose(one) {
  if (one !== state.chosen) {
    const last = state.chosen;
    state.chosen = one;
    if (last) place(last);
    for (const other of state.found) other.row.classList.toggle("picked", other === one);
    for (const id of ["heat", "band", "trail", "tag"]) at(`boxes-${id}`).replaceChildren();
  }
  place(one);
  curve(one.path);
  if (one.can_climb) await attempt("boxes", () => showDensity(one));
  else say("boxes", `${one.name} ${one.score.toFixed(2)}: f was not trained on this class, so its box does not climb`);
}

/**
 * Lets a box climb from where it is.
 * @param {Found} one
 * @param {Box} start
 */
function climb(one, start) {
  return attempt("boxes", async () => {
    const turn = ++state.turn;
    const begin = performance.now();
    const { path, milliseconds } = await ask("boxes/climb", {
      image: state.image, label: one.label, bbox: start, steps: Number(at("boxes-steps").value), factor: factor(),
      rule: at("boxes-rule").value,
    });
    if (turn !== state.turn) return;
    const time = performance.now() - begin;
    forget(one);
    Object.assign(one, { start, path });
    await animate(one, turn);
    if (turn !== state.turn) return;
    const gain = path[path.length - 1].f - path[0].f;
    say("boxes", `${one.name}: f rose by ${gain.toFixed(3)} in ${path.length - 1} steps, computed in ${Math.round(milliseconds)} ms`);
    Object.assign(at("boxes").dataset, { climbMilliseconds: time.toFixed(1), climbs: String(1 + Number(at("boxes").dataset.climbs ?? 0)) });
    list();
    await showDensity(one);
  });
}

/**
 * Shows the way of a box, step by step.
 * @param {Found} one
 * @param {number} turn
 */
async function animate(one, turn) {
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const pause = Math.min(STEP_TIME, WHOLE_TIME / one.path.length);
  for (let step = calm ? one.path.length - 1 : 0; step < one.path.length; step += 1) {
    one.bbox = one.path[step].bbox;
    place(one);
    trail(one.path.slice(0, step + 1));
    curve(one.path, step + 1);
    if (step + 1 < one.path.length) await new Promise((done) => setTimeout(done, pause));
    if (turn !== state.turn) return;
  }
}

/**
 * The way of a box's centre.
 * @param {Point[]} path
 */
function trail(path) {
  const points = path.map(({ bbox: [x, y, width, height] }) => `${x + width / 2},${y + height / 2}`);
  at("boxes-trail").replaceChildren(svg("polyline", { class: "trail", points: points.join(" ") }));
}

/**
 * Draws f along the way, as far as it has gone.
 * @param {Point[]} path
 * @param {number} shown
 */
function curve(path, shown = path.length) {
  const plot = at("boxes-curve");
  if (path.length < 2) {
    plot.replaceChildren(svg("text", { x: 180, y: 95, "text-anchor": "middle" }, "move the chosen box, and let it climb"));
    at("boxes-climb").textContent = "";
    return;
  }
  const values = path.map((point) => point.f);
  const frame = axes(plot, { first: 0, last: path.length - 1 }, reach(values), "step");
  const steps = path.slice(0, shown).map((_, step) => step);
  plot.append(svg("path", { class: "curve", d: line(frame, steps, values) }));
  for (const step of steps) {
    const kind = path[step].is_kept ? "kept" : "undone";
    plot.append(svg("circle", { class: kind, cx: frame.x(step), cy: frame.y(values[step]), r: path.length > 30 ? 2 : 3.2 }));
  }
  const kept = path.slice(1, shown).filter((point) => point.is_kept).length;
  at("boxes-climb").textContent = `${values[0].toFixed(2)} → ${values[shown - 1].toFixed(2)}, ${kept} of ${shown - 1} steps kept`;
}

/**
 * The density about a box, from the server unless it is known.
 * @param {Found} one
 */
async function densityOf(one) {
  const corner = at("boxes-corner").value;
  const [known, bbox] = [one.density, one.bbox];
  if (known && one.group.dataset.corner === corner) return known;
  const found = await ask("boxes/density", { image: state.image, label: one.label, bbox, corner, size: MAP_SIZE });
  if (one.bbox !== bbox) return null;
  one.group.dataset.corner = corner;
  one.density = found;
  return found;
}

/**
 * Shows the density of the chosen corner as a heat map.
 * @param {Found} one
 */
async function showDensity(one) {
  const density = await densityOf(one);
  if (!density?.corner || one !== state.chosen) return;
  const { first, step, size, p } = density.corner;
  const url = await heat(size, p);
  if (one !== state.chosen) return;
  if (state.heat) URL.revokeObjectURL(state.heat);
  state.heat = url;
  const [x, y] = [0, 1].map((axis) => first[axis] - step[axis] / 2);
  const [width, height] = step.map((one) => one * size);
  at("boxes-heat").replaceChildren(svg("image", { class: "heat", href: url, x, y, width, height, preserveAspectRatio: "none" }));
  at("boxes").dataset.density = String(1 + Number(at("boxes").dataset.density ?? 0));
}

/** Violet, magenta, orange, pale yellow: dark to bright for every eye. */
const RAMP = [[59, 15, 112], [183, 55, 121], [252, 137, 97], [252, 253, 191]];

/**
 * A picture of a density: the denser, the brighter and the less transparent.
 * @param {number} size
 * @param {number[]} p
 * @returns {Promise<string>} its address
 */
async function heat(size, p) {
  const canvas = new OffscreenCanvas(size, size);
  const context = /** @type {OffscreenCanvasRenderingContext2D} */ (canvas.getContext("2d"));
  const image = context.createImageData(size, size);
  p.forEach((value, cell) => {
    const at = value * (RAMP.length - 1);
    const low = Math.min(Math.floor(at), RAMP.length - 2);
    RAMP[low].forEach((colour, channel) => {
      image.data[4 * cell + channel] = colour + (at - low) * (RAMP[low + 1][channel] - colour);
    });
    image.data[4 * cell + 3] = 255 * Math.min(1, 0.9 * value ** 0.4);
  });
  context.putImageData(image, 0, 0);
  return URL.createObjectURL(await canvas.convertToBlob());
}

/**
 * Shows where an edge lies with probability 0.9.
 * @param {Found} one
 * @param {number} edge
 */
async function showEdge(one, edge) {
  if (!one.can_climb) return;
  const density = await densityOf(one);
  if (!density) return;
  const intervals = density.edges_90[edge];
  const ends = sides(one.bbox);
  const bands = intervals.map(([from, to]) => {
    const [x, width] = edge % 2 ? [ends[0], ends[2] - ends[0]] : [from, to - from];
    const [y, height] = edge % 2 ? [from, to - from] : [ends[1], ends[3] - ends[1]];
    return svg("rect", { class: "interval", x, y, width, height });
  });
  at("boxes-band").replaceChildren(...bands);
  const between = intervals.map(([from, to]) => `${from.toFixed(1)} to ${to.toFixed(1)}`).join(" or ");
  const doubt = density.is_reliable ? "" : `; do not believe it, ${density.effective_sample_size.toFixed(0)} effective samples are too few`;
  at("boxes-edge").textContent = `${EDGES[edge]} edge of ${one.name}: ${ends[edge].toFixed(1)} px, with probability 0.9 ${between}${doubt}`;
}

function hideEdge() {
  at("boxes-band").replaceChildren();
}

/** Lists the boxes in numbers. */
function list() {
  const rows = state.found.map((one) => {
    const row = document.createElement("tr");
    const numbers = one.bbox.map((value) => value.toFixed(1));
    for (const text of [one.name, one.score.toFixed(2), ...numbers]) {
      const cell = document.createElement("td");
      cell.textContent = text;
      row.append(cell);
    }
    Object.assign(row.dataset, { bbox: JSON.stringify(one.bbox), before: JSON.stringify(one.before), score: String(one.score), name: one.name });
    row.classList.toggle("picked", one === state.chosen);
    row.addEventListener("click", () => choose(one));
    one.row = row;
    return row;
  });
  at("boxes-found").replaceChildren(...rows);
  at("boxes-list").hidden = rows.length === 0;
}
