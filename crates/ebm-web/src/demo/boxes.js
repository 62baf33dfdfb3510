// The tab "Boxes": a photograph, its boxes, and the refinement of a moved box.
"use strict";
{
  /** Time of a step of the animation, and largest time of all steps, in milliseconds. */
  const [STEP_TIME, WHOLE_TIME] = [90, 2500];
  /** Name of the photograph in the program, with its source and licence. */
  const FIRST = "photograph flickr.com/photo.gne?id=4320314557, CC BY 2.0";
  const state = { image: -1, found: [], chosen: null, url: "", heat: "", corner: "top_right", turn: 0, looks: 0 };
  const tab = at("boxes").dataset;
  const count = (key) => { tab[key] = String(1 + Number(tab[key] ?? 0)); };

  /** Sends a photograph and shows its detections, unless another one was chosen before the answer. */
  async function look(file) {
    const own = ++state.looks;
    const seen = await ask(`boxes/look?name=${encodeURIComponent(file.name)}`, file);
    if (own !== state.looks) return;
    URL.revokeObjectURL(state.url);
    const size = [seen.width, seen.height];
    Object.assign(state, { image: seen.image, chosen: null, url: URL.createObjectURL(file) });
    drawPhotograph(at("boxes-picture"), state.url, size, svg("g", { id: "boxes-heat" }));
    state.found = seen.detections.map((one) => {
      const found = { ...one, path: [], density: null };
      const on = { chosen: () => choose(found) };
      if (one.can_climb) Object.assign(on, { moved: () => forget(found), left: (edges) => climb(found, edges), over: (edge) => attempt("boxes", () => showEdge(found, edge)) });
      found.box = new MovableBox(at("boxes-picture"), size, one.bbox, `${one.name} ${one.score.toFixed(2)}`, on);
      if (one.can_climb) put(found.box.before, one.before);
      keep(found);
      return found;
    });
    at("boxes-picture").append(svg("g", { id: "boxes-band" }));
    at("boxes-legend").hidden = false;
    const many = state.found.length === 1 ? "1 object" : `${state.found.length} objects`;
    say("boxes", `${file.name}: ${many} in ${Math.round(seen.milliseconds)} ms`);
    const first = state.found.find((one) => one.can_climb);
    if (first) choose(first);
  }

  /** Stores the exact numbers of a box in the page, where programs can read them. */
  function keep({ name, before, box }) {
    box.group.dataset.found = JSON.stringify({ name, before, bbox: box.bbox });
  }

  /** Discards the refinement and the density of a box that has moved. */
  function forget(one) {
    state.turn += 1;
    Object.assign(one, { path: [], density: null });
    put(one.box.before, one.box.bbox === one.box.home ? one.before : null);
    put(one.box.start, null);
    for (const id of ["boxes-heat", "boxes-band"]) at(id).replaceChildren();
  }

  /** Chooses a box, and shows its handles, its refinement and its density. */
  function choose(one) {
    if (one === state.chosen) return;
    state.chosen?.box.pick(false);
    state.chosen = one;
    one.box.pick(true);
    for (const id of ["boxes-heat", "boxes-band"]) at(id).replaceChildren();
    curve(one.path);
    if (one.can_climb) attempt("boxes", () => showDensity(one));
    else say("boxes", `${one.name}: f was not trained on this class, so its box does not climb`);
  }

  /** Refines a box from its current place, and shows the density of the corner that was moved. */
  function climb(one, edges) {
    state.corner = Object.keys(CORNERS).find((name) => CORNERS[name].join() === edges.join()) ?? state.corner;
    return attempt("boxes", async () => {
      const turn = ++state.turn;
      const start = one.box.bbox;
      const { path, milliseconds } = await ask("boxes/climb", { image: state.image, label: one.label, bbox: start });
      if (turn !== state.turn) return;
      Object.assign(one, { path, density: null });
      put(one.box.start, start);
      await animate(one, turn);
      if (turn !== state.turn) return;
      const gain = path[path.length - 1].f - path[0].f;
      say("boxes", `${one.name}: f rose by ${gain.toFixed(3)} in ${path.length - 1} steps, computed in ${Math.round(milliseconds)} ms`);
      keep(one);
      count("climbs");
      await showDensity(one);
    });
  }

  /** Shows the refinement of a box step by step. */
  async function animate(one, turn) {
    const isCalm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    const pause = Math.min(STEP_TIME, WHOLE_TIME / one.path.length);
    for (let step = isCalm ? one.path.length - 1 : 0; step < one.path.length && turn === state.turn; step += 1) {
      one.box.bbox = one.path[step].bbox;
      one.box.place();
      curve(one.path, step + 1);
      await new Promise((done) => setTimeout(done, step + 1 < one.path.length ? pause : 0));
    }
  }

  /** Draws f over the steps of a refinement up to the current one. */
  function curve(path, shown = path.length) {
    const plot = at("boxes-curve");
    if (path.length < 2) {
      plot.replaceChildren(svg("text", { x: 180, y: 95, "text-anchor": "middle" }, "drag the chosen box, then let go"));
      at("boxes-climb").textContent = "";
      return;
    }
    const values = path.map((point) => point.f);
    const frame = axes(plot, [0, path.length - 1], reach(values), "step");
    const steps = path.slice(0, shown).map((_, step) => step);
    plot.append(svg("path", { class: "curve", d: line(frame, steps, values) }));
    for (const step of steps) {
      plot.append(svg("circle", { class: path[step].is_kept ? "kept" : "undone", cx: frame.x(step), cy: frame.y(values[step]), r: 3 }));
    }
    at("boxes-climb").textContent = `${values[0].toFixed(2)} → ${values[shown - 1].toFixed(2)}`;
  }

  /** Returns the density around a box, from the server or as stored; none if the box has moved meanwhile. */
  async function densityOf(one) {
    const { corner, image } = state;
    const { bbox } = one.box;
    if (one.density?.of === corner) return one.density;
    const found = await ask("boxes/density", { image, label: one.label, bbox, corner });
    if (one.box.bbox !== bbox) return null;
    one.density = { ...found, of: corner };
    return one.density;
  }

  /** Shows the density of a corner as a heat map. */
  async function showDensity(one) {
    const density = await densityOf(one);
    if (!density || one !== state.chosen) return;
    const { first, step, size, p } = density.corner;
    const url = await heat(size, p, (value) => Math.min(1, 0.9 * value ** 0.4));
    if (one !== state.chosen) return;
    URL.revokeObjectURL(state.heat);
    state.heat = url;
    const [x, y] = [0, 1].map((axis) => first[axis] - step[axis] / 2);
    const [width, height] = step.map((one) => one * size);
    at("boxes-heat").replaceChildren(svg("image", { class: "heat", href: url, x, y, width, height, preserveAspectRatio: "none" }));
    count("density");
  }

  /** Shows the interval that contains an edge with probability 0.9. */
  async function showEdge(one, edge) {
    const density = await densityOf(one);
    if (!density || one !== state.chosen) return;
    const ends = sides(one.box.bbox);
    const place = `${EDGES[edge]} edge of ${one.name}: ${ends[edge].toFixed(1)} px`;
    // An unreliable interval is not shown.
    const intervals = density.is_reliable ? density.edges_90[edge] : [];
    at("boxes-band").replaceChildren(...intervals.map(([from, to]) => {
      const [x, width] = edge % 2 ? [ends[0], ends[2] - ends[0]] : [from, to - from];
      const [y, height] = edge % 2 ? [from, to - from] : [ends[1], ends[3] - ends[1]];
      return svg("rect", { class: "interval", x, y, width, height });
    }));
    const between = intervals.map(([from, to]) => `${from.toFixed(1)} to ${to.toFixed(1)}`).join(" or ");
    const doubt = `no reliable interval: ${density.effective_sample_size.toFixed(0)} effective samples are too few`;
    at("boxes-edge").textContent = `${place}, ${density.is_reliable ? `with probability 0.9 ${between}` : doubt}`;
  }

  takeFiles("boxes", look);
  // Shows the photograph in the program, unless the user has chosen one already.
  attempt("boxes", async () => {
    const content = await (await fetch("photograph.jpg")).blob();
    if (state.looks === 0) await look(new File([content], FIRST));
  });
}
