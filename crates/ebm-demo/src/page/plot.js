// Curves as SVG, for all tabs.

const NAMESPACE = "http://www.w3.org/2000/svg";

/**
 * An SVG element with these attributes.
 * @param {string} name
 * @param {Record<string, string | number>} attributes
 * @param {(SVGElement | string)[]} children
 * @returns {SVGElement}
 */
export function svg(name, attributes = {}, ...children) {
  const element = document.createElementNS(NAMESPACE, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  element.append(...children);
  return element;
}

/**
 * @typedef {{ first: number, last: number }} Range
 * @typedef {{ x: (value: number) => number, y: (value: number) => number, width: number, height: number }} Frame
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
  for (const value of ticks(up)) {
    plot.append(
      svg("line", { class: "axis", x1: LEFT, x2: right, y1: y(value), y2: y(value) }),
      svg("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, short(value)),
    );
  }
  for (const value of ticks(across)) {
    plot.append(svg("text", { x: x(value), y: bottom + 14, "text-anchor": "middle" }, short(value)));
  }
  plot.append(svg("text", { x: right, y: height - 3, "text-anchor": "end" }, name));
  return { x, y, width, height };
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
 * Three to six round numbers.
 * @param {Range} range
 * @returns {number[]}
 */
function ticks({ first, last }) {
  const extent = last - first || 1;
  const power = 10 ** Math.floor(Math.log10(extent / 3));
  const step = [1, 2, 5, 10].map((digit) => digit * power).find((size) => extent / size <= 6) ?? extent;
  const found = [];
  for (let value = Math.ceil(first / step) * step; value <= last + step * 1e-6; value += step) found.push(value);
  return found;
}

/** @param {number} value */
function short(value) {
  return String(Number(value.toPrecision(4)) || 0).replace("-", "−");
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
 * From the least to the largest of these, a little widened.
 * @param {number[]} values
 * @returns {Range}
 */
export function reach(values) {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const room = (most - least || Math.abs(most) || 1) * 0.06;
  return { first: least - room, last: most + room };
}
