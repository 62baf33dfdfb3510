// A box [left, top, width, height] on a photograph, in its pixels, which the pointer or the arrow keys can move.
"use strict";

const EDGES = ["left", "top", "right", "bottom"];
const CORNERS = { top_left: [0, 1], top_right: [2, 1], bottom_left: [0, 3], bottom_right: [2, 3] };
/** Distance in pixels by which an arrow key moves a box. */
const NUDGE = 4;

const sides = ([x, y, width, height]) => [x, y, x + width, y + height];

/** Places a rectangle at a box, or hides it without one. */
function put(rect, bbox) {
  ["x", "y", "width", "height"].forEach((key, i) => rect.setAttribute(key, String((bbox ?? [0, 0, 0, 0])[i])));
  rect.classList.toggle("none", !bbox);
}

class MovableBox {
  /** `on` holds the callbacks: chosen, moved, left (let go after edges have moved), and over (pointer over an edge). */
  constructor(picture, size, bbox, name, on) {
    Object.assign(this, { picture, size, bbox, home: bbox, on, isFixed: !on.moved, isPicked: false });
    [this.halo, this.before, this.start] = ["halo", "before none", "start none"].map((kind) => svg("rect", { class: kind }));
    this.body = svg("rect", { class: "body", tabindex: 0, role: "button", "aria-label": name });
    this.tag = svg("text", { class: "tag" }, name);
    this.edges = EDGES.map((edge, i) => svg("line", { class: `edge ${i % 2 ? "y" : "x"}`, "data-edge": edge }));
    this.corners = Object.keys(CORNERS).map((corner) => svg("rect", { class: `corner ${corner}` }));
    this.group = svg("g", { class: this.isFixed ? "box fixed" : "box" }, this.halo, this.before, this.start, this.body, this.tag, ...this.edges, ...this.corners);
    this.take(this.body, [0, 1, 2, 3]);
    this.edges.forEach((mark, edge) => {
      this.take(mark, [edge]);
      mark.addEventListener("pointerenter", () => on.over?.(edge));
    });
    this.corners.forEach((mark, i) => this.take(mark, Object.values(CORNERS)[i]));
    this.body.addEventListener("focus", () => on.chosen?.());
    this.body.addEventListener("keydown", (event) => this.key(event));
    picture.append(this.group);
    this.place();
  }

  /** Lets the pointer drag these edges by the element `mark`. */
  take(mark, edges) {
    mark.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      this.on.chosen?.();
      if (this.isFixed) return;
      const given = this.bbox;
      const follow = new AbortController();
      const moves = (now) => this.moveTo(this.moved(given, edges, [now.clientX - event.clientX, now.clientY - event.clientY].map((by) => by * this.pixel())));
      const ends = () => {
        follow.abort();
        if (this.bbox !== given) this.on.left?.(edges);
      };
      mark.setPointerCapture(event.pointerId);
      mark.addEventListener("pointermove", moves, follow);
      for (const kind of ["pointerup", "pointercancel"]) mark.addEventListener(kind, ends, follow);
    });
  }

  /** Handles keys: arrows move the box, with Shift its right and lower edge; Enter lets it go, Escape puts it back. */
  key(event) {
    const by = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (this.isFixed || !(by || event.key === "Enter" || event.key === "Escape")) return;
    event.preventDefault();
    if (by) this.moveTo(this.moved(this.bbox, event.shiftKey ? [2, 3] : [0, 1, 2, 3], by.map((step) => step * NUDGE)));
    else if (event.key === "Escape") this.moveTo(this.home);
    else this.on.left?.([]);
  }

  /** Returns a box after a move of these edges; it keeps a size of two pixels and stays visible. */
  moved(bbox, edges, by) {
    const ends = sides(bbox);
    const step = [0, 1].map((axis) => {
      const [low, high, length] = [ends[axis], ends[axis + 2], this.size[axis]];
      const [first, last] = [edges.includes(axis), edges.includes(axis + 2)];
      const least = first && last ? 2 - high : first ? -low : low + 2 - high;
      const most = first && last ? length - 2 - low : first ? high - 2 - low : length - high;
      return Math.min(Math.max(by[axis], Math.min(least, 0)), Math.max(most, 0));
    });
    for (const edge of edges) ends[edge] += step[edge % 2];
    return [ends[0], ends[1], ends[2] - ends[0], ends[3] - ends[1]];
  }

  moveTo(bbox) {
    this.bbox = bbox;
    this.on.moved();
    this.place();
  }

  pick(isPicked) {
    this.isPicked = isPicked;
    this.group.classList.toggle("picked", isPicked);
    this.place();
  }

  /** Returns the number of the photograph's pixels per screen pixel. */
  pixel() {
    return this.size[0] / (this.picture.getBoundingClientRect().width || this.size[0]);
  }

  place() {
    const [ends, pixel, [x, y]] = [sides(this.bbox), this.pixel(), this.bbox];
    put(this.halo, this.bbox);
    put(this.body, this.bbox);
    for (const [key, value] of Object.entries({ x: x + 4 * pixel, y: Math.max(y, 0) + 16 * pixel, "font-size": 14 * pixel })) this.tag.setAttribute(key, String(value));
    this.edges.forEach((mark, edge) => {
      const [x1, x2] = edge % 2 ? [ends[0], ends[2]] : [ends[edge], ends[edge]];
      const [y1, y2] = edge % 2 ? [ends[edge], ends[edge]] : [ends[1], ends[3]];
      for (const [key, value] of Object.entries({ x1, x2, y1, y2 })) mark.setAttribute(key, String(value));
    });
    const side = 9 * pixel;
    Object.values(CORNERS).forEach(([across, down], i) => {
      put(this.corners[i], this.isPicked && !this.isFixed ? [ends[across] - side / 2, ends[down] - side / 2, side, side] : null);
    });
  }
}

/** Draws only the photograph, and then the children. */
function drawPhotograph(picture, url, [width, height], ...children) {
  picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
  picture.replaceChildren(svg("image", { href: url, width, height, preserveAspectRatio: "none" }), ...children);
  picture.removeAttribute("hidden");
}
