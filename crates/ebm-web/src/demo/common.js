// Functions that the tabs of the demo share: elements, requests, messages, files, plots.
"use strict";

const at = (id) => document.getElementById(id);

/** Sends a request to the server; the page's own address contains the token. The body is JSON or a file. */
async function ask(path, body) {
  let response;
  try {
    response = await fetch(path, { method: "POST", body: body instanceof Blob ? body : JSON.stringify(body) });
  } catch {
    throw new Error("the server does not answer; is `ebm demo` still running?");
  }
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error);
  return answer;
}

/** Shows a message below the picture of a tab. */
function say(tab, text, isError = false) {
  at(`${tab}-status`).textContent = text;
  at(`${tab}-status`).classList.toggle("error", isError);
}

/** Runs an action of the user, and shows the reason if it fails. */
async function attempt(tab, work) {
  try {
    await work();
  } catch (error) {
    say(tab, error.message, true);
  }
}

/** Passes a file to a tab when it is chosen, or dropped while the tab is shown. */
function takeFiles(tab, take) {
  const given = (file) => file && attempt(tab, () => {
    if (file.size > 16 * 2 ** 20) throw new Error(`${file.name} has more than 16 MiB; choose a smaller one`);
    say(tab, `looking at ${file.name} …`);
    return take(file);
  });
  at(`${tab}-file`).addEventListener("change", (event) => given(event.target.files[0]));
  document.addEventListener("dragover", (event) => event.preventDefault());
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    if (!at(tab).hidden) given(event.dataTransfer?.files[0]);
  });
}

/** Calls `opened` when a tab is shown. */
function onOpen(tab, opened) {
  at(`tab-${tab}`).addEventListener("click", opened);
}

for (const tab of document.querySelectorAll("[role=tab]")) {
  tab.addEventListener("click", () => {
    for (const other of document.querySelectorAll("[role=tab]")) {
      other.setAttribute("aria-selected", String(other === tab));
      at(other.getAttribute("aria-controls")).hidden = other !== tab;
    }
  });
}

/** Lists a density's numbers rounded, and stores them in full as data of the list. */
function tell(id, { p, truth, ...numbers }, digits) {
  const read = (value) => value.toFixed(digits);
  const entries = ["prediction", "mean", "median"].filter((key) => key in numbers).map((key) => [key, read(numbers[key])]);
  entries.push([numbers.modes.length === 1 ? "mode" : "modes", numbers.modes.map(read).join(", ")]);
  entries.push(["90 % region", numbers.region_90.map(([from, to]) => `${read(from)} to ${read(to)}`).join(" or ")]);
  at(id).dataset.numbers = JSON.stringify(numbers);
  at(id).replaceChildren(...entries.flatMap((texts) => ["dt", "dd"].map((name, i) => {
    const element = document.createElement(name);
    element.textContent = texts[i];
    return element;
  })));
}

/** Empties a plot and draws its axes from the first to the last value; returns the frame with its scales. */
function axes(plot, across, up, name) {
  const { width, height } = plot.viewBox.baseVal;
  const [left, right, top, bottom] = [42, width - 10, 10, height - 30];
  const scale = ([first, last], from, to) => (value) => from + ((value - first) / (last - first || 1)) * (to - from);
  const [x, y] = [scale(across, left, right), scale(up, bottom, top)];
  plot.replaceChildren(
    ...ticks(...up, 4).flatMap((value) => [
      svg("line", { class: "axis", x1: left, x2: right, y1: y(value), y2: y(value) }),
      svg("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, brief(value)),
    ]),
    ...ticks(...across, 5).map((value) => svg("text", { x: x(value), y: bottom + 14, "text-anchor": "middle" }, brief(value))),
    svg("text", { x: right, y: height - 3, "text-anchor": "end" }, name),
  );
  return { x, y, left, right, top, bottom };
}

/** Returns the SVG path through these points. */
function line(frame, xs, ys) {
  return xs.map((x, i) => `${i ? "L" : "M"}${frame.x(x).toFixed(2)} ${frame.y(ys[i]).toFixed(2)}`).join("");
}

/** Returns the range of these values, with a margin. */
function reach(values) {
  const [least, most] = bounds(values);
  const room = (most - least || Math.abs(most) || 1) * 0.06;
  return [least - room, most + room];
}

/** Draws a density with its 90 % region, and the true density if it is known. */
function drawDensity(id, { first, step, p, truth, region_90: regions }, name) {
  const ys = p.map((_, i) => first + i * step);
  const frame = axes(at(id), [ys[0], ys[ys.length - 1]], [0, 1.05 * Math.max(...p, ...(truth ?? []))], name);
  const area = regions.map(([from, to]) => {
    const inside = ys.map((_, i) => i).filter((i) => ys[i] >= from && ys[i] <= to);
    if (inside.length === 0) return "";
    const ends = [inside[inside.length - 1], inside[0]].map((i) => `L${frame.x(ys[i]).toFixed(2)} ${frame.bottom}`);
    return `${line(frame, inside.map((i) => ys[i]), inside.map((i) => p[i]))}${ends.join("")}Z`;
  });
  at(id).append(svg("path", { class: "area", d: area.join("") }), svg("path", { class: "curve", d: line(frame, ys, p) }));
  if (truth) at(id).append(svg("path", { class: "other", d: line(frame, ys, truth) }));
  return frame;
}

/** Violet, magenta, orange, pale yellow: a dark to bright scale that colour-blind people can read. */
const RAMP = [[59, 15, 112], [183, 55, 121], [252, 137, 97], [252, 253, 191]];

/** Returns the URL of a picture of values from 0 to 1, in rows. */
async function heat(columns, values, opacity) {
  const canvas = new OffscreenCanvas(columns, values.length / columns);
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, canvas.height);
  values.forEach((value, cell) => {
    const place = value * (RAMP.length - 1);
    const low = Math.min(Math.floor(place), RAMP.length - 2);
    const colours = RAMP[low].map((colour, i) => colour + (place - low) * (RAMP[low + 1][i] - colour));
    image.data.set([...colours, 255 * opacity(value)], 4 * cell);
  });
  context.putImageData(image, 0, 0);
  return URL.createObjectURL(await canvas.convertToBlob());
}

/** Returns a function that runs `work` on one request at a time and skips all waiting requests but the latest. */
function newest(work) {
  let waiting = [];
  let going = null;
  const all = async () => {
    try {
      while (waiting.length > 0) await work(waiting.splice(0).pop());
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
