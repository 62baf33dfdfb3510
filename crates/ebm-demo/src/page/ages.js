// The tab "Ages": a face in a photograph, and p(age | face).

import { addHandles, follow, moved, nudge, put, putHandles } from "./box.js";
import { ask, at, attempt, checkSize, say, takeFiles, tell } from "./common.js";
import { area, axes, line, newest, svg } from "./plot.js";

/**
 * @typedef {import("./box.js").Box} Box
 * @typedef {{ prediction: number, first: number, step: number, p: number[], mean: number, median: number, mode: number, modes: number[],
 *   region_90: [number, number][], milliseconds: number }} Estimated
 */

/** @type {{ image: number, width: number, height: number, bbox: Box, crop: number, url: string, group: SVGElement | null }} */
const state = { image: -1, width: 0, height: 0, bbox: [0, 0, 0, 0], crop: 1, url: "", group: null };

/** Makes the tab work. */
export function startAges() {
  takeFiles("ages", look);
  attempt("ages", async () => {
    const { crop } = await ask("ages/model", null);
    Object.assign(state, { crop });
  });
}

/**
 * Sends a photograph, and puts a box where its face would fill it.
 * @param {File} file
 */
async function look(file) {
  checkSize(file);
  say("ages", `looking at ${file.name} …`);
  const seen = await ask(`ages/look?name=${encodeURIComponent(file.name)}`, file);
  if (state.url) URL.revokeObjectURL(state.url);
  const side = Math.min(seen.width, seen.height) / state.crop;
  const bbox = [(seen.width - side) / 2, (seen.height - side) / 2, side, side];
  Object.assign(state, { image: seen.image, width: seen.width, height: seen.height, bbox, url: URL.createObjectURL(file) });
  draw();
  say("ages", `${file.name}: ${seen.width} × ${seen.height} pixels`);
  await estimate(state.bbox);
}

/** Draws the photograph with its box. */
function draw() {
  const picture = at("ages-picture");
  picture.setAttribute("viewBox", `0 0 ${state.width} ${state.height}`);
  const group = svg("g", { class: "box picked" });
  const body = svg("rect", { class: "body", tabindex: 0, role: "button", "aria-label": "the face" });
  group.append(svg("rect", { class: "before" }), svg("rect", { class: "halo" }), body);
  body.addEventListener("pointerdown", (/** @type {PointerEvent} */ event) => drag(event, [0, 1, 2, 3]));
  body.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => key(event, event.shiftKey ? [2, 3] : [0, 1, 2, 3]));
  addHandles(group, drag).forEach((mark, edge) => {
    mark.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => key(event, [edge]));
  });
  picture.replaceChildren(
    svg("image", { href: state.url, width: state.width, height: state.height, preserveAspectRatio: "none" }), group,
  );
  state.group = group;
  picture.removeAttribute("hidden");
  at("ages-legend").hidden = false;
  place();
}

/** Puts the box, and the square that is looked at, where they are. */
function place() {
  const { group, bbox, width, crop } = state;
  if (!group) return;
  const [x, y, across, down] = bbox;
  const side = crop * Math.max(across, down);
  put(group, "before", [x + across / 2 - side / 2, y + down / 2 - side / 2, side, side]);
  put(group, "halo", bbox);
  put(group, "body", bbox);
  const pixel = width / (at("ages-picture").getBoundingClientRect().width || width);
  putHandles(group, bbox, { isHeld: true, name: "the face", pixel });
}

/** @param {Box} bbox */
function moveTo(bbox) {
  state.bbox = bbox;
  place();
  attempt("ages", () => estimate(bbox));
}

/** @param {PointerEvent} event @param {number[]} edges */
function drag(event, edges) {
  if (event.button !== 0) return;
  const given = state.bbox;
  const pixel = state.width / (at("ages-picture").getBoundingClientRect().width || state.width);
  follow(event, (by) => moveTo(moved(given, edges, by.map((way) => way * pixel), [state.width, state.height])), () => {});
}

/** @param {KeyboardEvent} event @param {number[]} edges */
function key(event, edges) {
  const by = nudge(event);
  if (!by) return;
  event.preventDefault();
  moveTo(moved(state.bbox, edges, by, [state.width, state.height]));
}

const estimate = newest(async (/** @type {Box} */ bbox) => {
  const { image } = state;
  /** @type {Estimated} */
  const found = await ask("ages/estimate", { image, bbox });
  if (image === state.image) show(found, bbox);
});

/** @param {Estimated} found @param {Box} bbox */
function show(found, bbox) {
  const { first, step, p, region_90: region } = found;
  const years = p.map((_, i) => first + i * step);
  const plot = at("ages-curve");
  const frame = axes(plot, { first: years[0], last: years[years.length - 1] }, { first: 0, last: 1.05 * Math.max(...p) }, "years");
  plot.append(svg("path", { class: "area", d: area(frame, years, p, region) }), svg("path", { class: "curve", d: line(frame, years, p) }));
  for (const kind of ["mean", "median", "mode"]) {
    const x = frame.x(/** @type {any} */ (found)[kind]);
    plot.append(svg("line", { class: `mark ${kind}`, x1: x, x2: x, y1: frame.top, y2: frame.bottom }));
  }
  at("ages-time").textContent = `${Math.round(found.milliseconds)} ms`;
  const year = (/** @type {number} */ value) => `${value.toFixed(1)} years`;
  const between = region.map(([from, to]) => `${from.toFixed(1)} to ${to.toFixed(1)}`).join(" or ");
  tell("ages-numbers", [
    ["prediction", "refined estimate", year(found.prediction)], ["mean", "mean", year(found.mean)], ["median", "median", year(found.median)],
    ["modes", found.modes.length === 1 ? "mode" : "modes", found.modes.map((mode) => mode.toFixed(1)).join(", ")],
    ["region_90", "90 % region", between],
  ], { ...found });
  at("ages-numbers").dataset.bbox = JSON.stringify(bbox);
}
