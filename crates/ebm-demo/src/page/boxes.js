// The tab "Boxes": a photograph, its boxes, and the way of one that was moved.

import { addHandles, EDGES, follow, moved, nudge, put, putHandles, sides } from "./box.js";
import { ask, at, attempt, checkSize, say, takeFiles } from "./common.js";
import { axes, heat, line, reach, svg } from "./plot.js";

/**
 * @typedef {import("./box.js").Box} Box
 * @typedef {{ bbox: Box, f: number, is_kept: boolean }} Point
 * @typedef {{ first: [number, number], step: [number, number], size: number, p: number[] }} CornerMap
 * @typedef {{ edges_90: [number, number][][], effective_sample_size: number, is_reliable: boolean, corner: CornerMap | null }} Density
 * @typedef {{ label: number, name: string, score: number, before: Box, bbox: Box, refined: Box, can_climb: boolean,
 *   start: Box | null, path: Point[], density: Density | null, group: SVGElement, row: HTMLElement }} Found
 */

/** Points along each side of a corner's density. */
const MAP_SIZE = 64;
/** The time that a step of the animation takes, and all of them at most, in milliseconds. */
const STEP_TIME = 90;
const WHOLE_TIME = 2500;
/** What the photograph in the program is called: where it is from, and its licence. */
const FIRST = "photograph flickr.com/photo.gne?id=4320314557, CC BY 2.0";

/** @type {{ image: number, width: number, height: number, found: Found[], chosen: Found | null, model: any, url: string, heat: string, turn: number, looks: number }} */
const state = { image: -1, width: 0, height: 0, found: [], chosen: null, model: null, url: "", heat: "", turn: 0, looks: 0 };

/** Makes the tab work. */
export function startBoxes() {
  takeFiles("boxes", look);
  attempt("boxes", async () => {
    await loadModel();
    await lookAtFirst();
  });
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

/** Shows the photograph that is in the program, unless one was chosen before that. */
async function lookAtFirst() {
  const response = await fetch("photograph.jpg");
  const content = await response.blob();
  if (state.looks === 0) await look(new File([content], FIRST));
}

/**
 * Sends a photograph and shows what is found, unless another one was chosen before the answer.
 * @param {File} file
 */
async function look(file) {
  const begin = performance.now();
  const own = ++state.looks;
  checkSize(file);
  say("boxes", `looking at ${file.name} …`);
  const seen = await ask(`boxes/look?name=${encodeURIComponent(file.name)}`, file);
  if (own !== state.looks) return;
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
  addHandles(one.group, (event, edges) => drag(one, event, edges)).forEach((mark, edge) => {
    for (const kind of ["pointerenter", "focus"]) {
      mark.addEventListener(kind, () => attempt("boxes", () => showEdge(one, edge)));
    }
    mark.addEventListener("pointerleave", hideEdge);
    mark.addEventListener("blur", hideEdge);
    mark.addEventListener("keydown", (event) => key(one, event, [edge]));
  });
}

/**
 * Puts the elements of a box where it is.
 * @param {Found} one
 */
function place(one) {
  const isChosen = one === state.chosen;
  one.group.classList.toggle("picked", isChosen);
  put(one.group, "halo", one.bbox);
  put(one.group, "body", one.bbox);
  put(one.group, "before", one.can_climb && !one.start ? one.before : null);
  put(one.group, "start", one.start);
  putHandles(one.group, one.bbox, { isHeld: isChosen && one.can_climb, name: one.name, pixel: pixel() });
}

/** How many pixels of the photograph a pixel of the screen is. */
function pixel() {
  return state.width / (at("boxes-picture").getBoundingClientRect().width || state.width);
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
  const [given, scale] = [one.bbox, pixel()];
  state.turn += 1;
  const move = (/** @type {number[]} */ by) => {
    one.bbox = moved(given, edges, by.map((way) => way * scale), [state.width, state.height]);
    forget(one);
    place(one);
  };
  follow(event, move, (distance) => {
    if (distance > 2) climb(one, one.bbox);
  });
}

/**
 * Moves a box by the keyboard.
 * @param {Found} one
 * @param {KeyboardEvent} event
 * @param {number[]} edges
 */
function key(one, event, edges) {
  const by = nudge(event);
  const isPut = event.key === "Escape";
  if (!one.can_climb || !(by || isPut || event.key === "Enter")) return;
  event.preventDefault();
  if (event.key === "Enter") {
    climb(one, one.bbox);
    return;
  }
  state.turn += 1;
  one.bbox = by ? moved(one.bbox, edges, by, [state.width, state.height]) : one.refined;
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
  const url = await heat(size, p, (value) => Math.min(1, 0.9 * value ** 0.4));
  if (one !== state.chosen) return;
  if (state.heat) URL.revokeObjectURL(state.heat);
  state.heat = url;
  const [x, y] = [0, 1].map((axis) => first[axis] - step[axis] / 2);
  const [width, height] = step.map((one) => one * size);
  at("boxes-heat").replaceChildren(svg("image", { class: "heat", href: url, x, y, width, height, preserveAspectRatio: "none" }));
  at("boxes").dataset.density = String(1 + Number(at("boxes").dataset.density ?? 0));
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
