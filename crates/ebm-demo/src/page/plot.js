// Pictures of numbers, for all tabs, made of what chart.js offers every page.

/** An SVG element, round numbers between two, and a number as a short text; chart.js runs before any tab. */
export const { svg, ticks, brief } = /** @type {any} */ (globalThis);

/**
 * @typedef {{ first: number, last: number }} Range
 * @typedef {{ x: (value: number) => number, y: (value: number) => number, left: number, right: number, top: number, bottom: number }} Frame
 */

/** The room about a plot, in units of its view box. */
const LEFT = 42;
const RIGHT = 10;
const TOP = 10;
const BOTTOM = 30;

/**
 * Empties a plot and draws its axes; what follows is drawn with the frame's scales.
 * @param {SVGSVGElement} plot
 * @param {Range} across
 * @param {Range} up
 * @param {string} name of the horizontal axis
 * @returns {Frame}
 */
export function axes(plot, across, up, name) {
  const { width, height } = plot.viewBox.baseVal;
  const [right, bottom] = [width - RIGHT, height - BOTTOM];
  const x = scale(across, LEFT, right);
  const y = scale(up, bottom, TOP);
  plot.replaceChildren();
  for (const value of ticks(up.first, up.last, 4)) {
    plot.append(
      svg("line", { class: "axis", x1: LEFT, x2: right, y1: y(value), y2: y(value) }),
      svg("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, brief(value)),
    );
  }
  for (const value of ticks(across.first, across.last, 5)) {
    plot.append(svg("text", { x: x(value), y: bottom + 14, "text-anchor": "middle" }, brief(value)));
  }
  plot.append(svg("text", { x: right, y: height - 3, "text-anchor": "end" }, name));
  return { x, y, left: LEFT, right, top: TOP, bottom };
}

/**
 * @param {Range} range
 * @param {number} from
 * @param {number} to
 * @returns {(value: number) => number}
 */
function scale({ first, last }, from, to) {
  const extent = last - first || 1;
  return (value) => from + ((value - first) / extent) * (to - from);
}

/**
 * The path through these points, as SVG writes it.
 * @param {Frame} frame
 * @param {number[]} xs
 * @param {number[]} ys
 */
export function line(frame, xs, ys) {
  return xs.map((x, i) => `${i ? "L" : "M"}${frame.x(x).toFixed(2)} ${frame.y(ys[i]).toFixed(2)}`).join("");
}

/**
 * The area below these points, where x is in one of the intervals.
 * @param {Frame} frame
 * @param {number[]} xs
 * @param {number[]} ys
 * @param {[number, number][]} intervals
 */
export function area(frame, xs, ys, intervals) {
  return intervals.map(([from, to]) => {
    const inside = xs.map((_, i) => i).filter((i) => xs[i] >= from && xs[i] <= to);
    if (inside.length === 0) return "";
    const [first, last] = [xs[inside[0]], xs[inside[inside.length - 1]]];
    const top = line(frame, inside.map((i) => xs[i]), inside.map((i) => ys[i]));
    return `${top}L${frame.x(last).toFixed(2)} ${frame.bottom}L${frame.x(first).toFixed(2)} ${frame.bottom}Z`;
  }).join("");
}

/**
 * From the least to the largest of these, a little widened.
 * @param {number[]} values
 * @returns {Range}
 */
export function reach(values) {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const room = (most - least || Math.abs(most) || 1) * 0.06;
  return { first: least - room, last: most + room };
}

/** Violet, magenta, orange, pale yellow: dark to bright for every eye. */
const RAMP = [[59, 15, 112], [183, 55, 121], [252, 137, 97], [252, 253, 191]];

/**
 * A picture of values from 0 to 1, in rows.
 * @param {number} columns
 * @param {number[]} values
 * @param {(value: number) => number} opacity
 * @returns {Promise<string>} its address
 */
export async function heat(columns, values, opacity) {
  const rows = values.length / columns;
  const canvas = new OffscreenCanvas(columns, rows);
  const context = /** @type {OffscreenCanvasRenderingContext2D} */ (canvas.getContext("2d"));
  const image = context.createImageData(columns, rows);
  values.forEach((value, cell) => {
    const place = value * (RAMP.length - 1);
    const low = Math.min(Math.floor(place), RAMP.length - 2);
    RAMP[low].forEach((colour, channel) => {
      image.data[4 * cell + channel] = colour + (place - low) * (RAMP[low + 1][channel] - colour);
    });
    image.data[4 * cell + 3] = 255 * opacity(value);
  });
  context.putImageData(image, 0, 0);
  return URL.createObjectURL(await canvas.convertToBlob());
}

/**
 * Does the newest of what is asked for, one thing after the other.
 * @template T
 * @param {(asked: T) => Promise<void>} work
 * @returns {(asked: T) => Promise<void>}
 */
export function newest(work) {
  /** @type {T[]} */
  let waiting = [];
  /** @type {Promise<void> | null} */
  let going = null;
  const all = async () => {
    try {
      while (waiting.length > 0) await work(/** @type {T} */ (waiting.splice(0).pop()));
    } finally {
      going = null;
    }
  };
  return (asked) => {
    waiting.push(asked);
    going ??= all();
    return going;
  };
}
