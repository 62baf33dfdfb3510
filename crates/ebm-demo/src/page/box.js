// A box on a photograph, which the pointer or the arrow keys move.

import { svg } from "./plot.js";

/** @typedef {[number, number, number, number]} Box left, top, width, height in pixels of the photograph */

export const EDGES = ["left", "top", "right", "bottom"];
/** Which edges meet at a corner. */
export const CORNERS = { nw: [0, 1], ne: [2, 1], sw: [0, 3], se: [2, 3] };
/** What an arrow key moves a box by, in pixels. */
const NUDGE = 4;
/** A corner's handle, in pixels of the screen. */
const HANDLE = 9;

/** @param {Box} bbox @returns {Box} left, top, right, bottom */
export function sides([x, y, width, height]) {
  return [x, y, x + width, y + height];
}

/**
 * The box after these of its edges have moved; it keeps two pixels and stays in sight.
 * @param {Box} bbox
 * @param {number[]} edges
 * @param {number[]} by across and down
 * @param {number[]} size of the photograph
 * @returns {Box}
 */
export function moved(bbox, edges, by, size) {
  const ends = sides(bbox);
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
 * Where an arrow key moves to; none for other keys.
 * @param {KeyboardEvent} event
 * @returns {number[] | undefined}
 */
export function nudge(event) {
  const by = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
  return by?.map((step) => step * NUDGE);
}

/**
 * Follows the pointer from its press until it is let go.
 * @param {PointerEvent} event the press
 * @param {(by: number[]) => void} move is told how far it has gone, in pixels of the screen
 * @param {(distance: number) => void} end
 */
export function follow(event, move, end) {
  const target = /** @type {SVGElement} */ (event.currentTarget);
  target.setPointerCapture(event.pointerId);
  const by = (/** @type {PointerEvent} */ now) => [now.clientX - event.clientX, now.clientY - event.clientY];
  const moves = (/** @type {PointerEvent} */ now) => move(by(now));
  const ends = (/** @type {PointerEvent} */ now) => {
    for (const [kind, listener] of Object.entries(listeners)) target.removeEventListener(kind, /** @type {any} */ (listener));
    end(Math.hypot(...by(now)));
  };
  const listeners = { pointermove: moves, pointerup: ends, pointercancel: ends };
  for (const [kind, listener] of Object.entries(listeners)) target.addEventListener(kind, /** @type {any} */ (listener));
}

/**
 * The edges and corners of a box, to be taken hold of.
 * @param {SVGElement} group
 * @param {(event: PointerEvent, edges: number[]) => void} take
 * @returns {SVGElement[]} the edges
 */
export function addHandles(group, take) {
  const marks = EDGES.map((name, edge) => {
    const mark = svg("line", { class: `edge ${edge % 2 ? "y" : "x"}`, "data-edge": name, role: "button", tabindex: -1 });
    mark.addEventListener("pointerdown", (/** @type {PointerEvent} */ event) => take(event, [edge]));
    group.append(mark);
    return mark;
  });
  for (const [name, edges] of Object.entries(CORNERS)) {
    const mark = svg("rect", { class: `corner ${name}` });
    mark.addEventListener("pointerdown", (/** @type {PointerEvent} */ event) => take(event, edges));
    group.append(mark);
  }
  return marks;
}

/**
 * Puts a rectangle of a group where a box is, or away.
 * @param {SVGElement} group
 * @param {string} name its classes
 * @param {Box | null} bbox
 */
export function put(group, name, bbox) {
  const rect = /** @type {SVGElement} */ (group.querySelector(`rect.${name}`));
  const [x, y, width, height] = bbox ?? [0, 0, 0, 0];
  for (const [key, value] of Object.entries({ x, y, width, height })) rect.setAttribute(key, String(value));
  rect.classList.toggle("none", !bbox);
}

/**
 * Puts the handles where a box is.
 * @param {SVGElement} group
 * @param {Box} bbox
 * @param {{ isHeld: boolean, name: string, pixel: number }} how whether there is something to take hold of; what it is called; how many
 *   pixels of the photograph a pixel of the screen is
 */
export function putHandles(group, bbox, { isHeld, name, pixel }) {
  const ends = sides(bbox);
  EDGES.forEach((edgeName, edge) => {
    const mark = /** @type {SVGElement} */ (group.querySelector(`[data-edge=${edgeName}]`));
    const [x1, x2] = edge % 2 ? [ends[0], ends[2]] : [ends[edge], ends[edge]];
    const [y1, y2] = edge % 2 ? [ends[edge], ends[edge]] : [ends[1], ends[3]];
    for (const [key, value] of Object.entries({ x1, x2, y1, y2 })) mark.setAttribute(key, String(value));
    mark.setAttribute("tabindex", isHeld ? "0" : "-1");
    mark.setAttribute("aria-label", `${edgeName} edge of ${name}`);
  });
  const side = HANDLE * pixel;
  for (const [corner, [across, down]] of Object.entries(CORNERS)) {
    put(group, `corner.${corner}`, isHeld ? [ends[across] - side / 2, ends[down] - side / 2, side, side] : null);
  }
}
