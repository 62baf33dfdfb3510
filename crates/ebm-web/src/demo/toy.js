// The tab "Toy": a density that learns the problem of Figure 2 step by step.
"use strict";
{
  /** Option for the user's own points without a problem. */
  const OWN = "own";
  const state = { model: null, training: -1, points: [[], []], added: [], x: -1.5, isTraining: false, url: "", frame: null, losses: [], turn: 0 };

  async function load() {
    state.model = await ask("toy/model", null);
    const options = state.model.problems.map((one) => new Option(one.title, one.problem));
    at("toy-problem").replaceChildren(...options, new Option("my own points only", OWN));
    await fill();
  }

  /** Offers the methods of the chosen problem; the paper's energy model is the default. */
  async function fill() {
    const { problems, methods } = state.model;
    const [problem, method] = [at("toy-problem"), at("toy-method")];
    const chosen = method.value || "ML-IS";
    const offered = problems.find((one) => one.problem === problem.value)?.methods ?? methods;
    method.replaceChildren(...offered.map((name) => new Option(name, name)));
    method.value = offered.includes(chosen) ? chosen : offered[0];
    await begin();
  }

  /** Begins a training before its first step. */
  async function begin() {
    // An earlier request may be answered later.
    const turn = ++state.turn;
    Object.assign(state, { isTraining: false, training: -1 });
    const problem = at("toy-problem").value;
    if (problem === OWN && state.added.length === 0) {
      state.points = [[], []];
      for (const id of ["toy-curve", "toy-numbers"]) at(id).replaceChildren();
      await draw(null);
      say("toy", "click on the map to add points");
      return;
    }
    const begun = await ask("toy/begin", { problem: problem === OWN ? null : problem, method: at("toy-method").value, added: state.added });
    if (turn !== state.turn) return;
    Object.assign(state, { training: begun.training, points: [begun.x, begun.y] });
    say("toy", `${begun.x.length} points, an untrained network; click Train to train it`);
    await show(begun.state);
  }

  /** Trains for the number of epochs in the settings, beyond the finished ones, or until the user pauses. */
  async function train() {
    const { training, losses, model: { epochs } } = state;
    if (training < 0) return;
    const last = (Math.floor(losses.length / epochs) + 1) * epochs;
    state.isTraining = true;
    at("toy-train").textContent = "Pause";
    try {
      while (state.isTraining && state.training === training && state.losses.length < last) {
        const now = await ask("toy/train", { training, epochs: last });
        if (state.training !== training) return;
        const kl = now.kl === null ? "" : `, KL(truth ‖ model) ${now.kl.toFixed(3)} nats`;
        say("toy", `epoch ${now.losses.length} of ${last}${kl}`);
        await show(now);
      }
    } finally {
      state.isTraining = false;
      at("toy-train").textContent = "Train";
    }
  }

  /** Adds a training point. */
  async function add([x, y]) {
    if (!state.frame || Math.abs(x) > 3 || Math.abs(y) > 3) return;
    state.added.push([x, y]);
    const { training } = state;
    if (training < 0) {
      await begin();
      return;
    }
    const { points } = await ask("toy/add", { training, x, y });
    if (training !== state.training) return;
    state.points[0].push(x);
    state.points[1].push(y);
    drawPoints();
    say("toy", `${points} points, ${state.added.length} of your own`);
  }

  /** Returns x and y under the pointer on the map. */
  function place(event) {
    const box = at("toy-map").getBoundingClientRect();
    const { width, height } = at("toy-map").viewBox.baseVal;
    const { left, right, top, bottom } = state.frame ?? { left: 0, right: 1, top: 0, bottom: 1 };
    const [x, y] = [((event.clientX - box.left) / box.width) * width, ((event.clientY - box.top) / box.height) * height];
    return [-3 + (6 * (x - left)) / (right - left), 3 - (6 * (y - top)) / (bottom - top)];
  }

  async function show({ losses, map, kl }) {
    const { turn } = state;
    state.losses = losses;
    await draw(map);
    if (turn !== state.turn) return;
    at("toy").dataset.state = JSON.stringify({ losses, kl });
    await curveAt(state.x);
  }

  /** Draws the map, its axes and its points. */
  async function draw(map) {
    const { turn } = state;
    const url = map ? await heat(map.columns, upright(map), () => 1) : "";
    if (turn !== state.turn) return;
    URL.revokeObjectURL(state.url);
    state.url = url;
    const plot = at("toy-map");
    const frame = axes(plot, [-3, 3], [-3, 3], "x");
    state.frame = frame;
    const inner = { x: frame.left, y: frame.top, width: frame.right - frame.left, height: frame.bottom - frame.top };
    plot.append(svg("rect", { class: "ground", ...inner }));
    if (map) plot.append(svg("image", { href: url, ...inner, preserveAspectRatio: "none" }));
    plot.append(svg("g", { id: "toy-points" }), svg("line", { id: "toy-x", y1: frame.top, y2: frame.bottom }));
    drawPoints();
    drawX();
  }

  /** Returns the rows from the highest y down; square roots make small values visible. */
  function upright({ columns, rows, p }) {
    return Array.from({ length: rows }, (_, row) => p.slice((rows - 1 - row) * columns, (rows - row) * columns)).flat().map(Math.sqrt);
  }

  function drawPoints() {
    const { frame, points: [xs, ys], added } = state;
    const dots = xs.map((x, i) => `M${frame.x(x).toFixed(1)} ${frame.y(ys[i]).toFixed(1)}h0`);
    const own = dots.length > 0 ? dots.splice(dots.length - added.length) : [];
    at("toy-points").replaceChildren(svg("path", { class: "dots", d: dots.join("") }), svg("path", { class: "dots own", d: own.join("") }));
  }

  function drawX() {
    for (const end of ["x1", "x2"]) at("toy-x")?.setAttribute(end, String(state.frame.x(state.x)));
  }

  const curveAt = newest(async (x) => {
    const { training } = state;
    if (training < 0) return;
    const curve = await ask("toy/curve", { training, x });
    if (training !== state.training) return;
    drawDensity("toy-curve", curve, "y");
    tell("toy-numbers", { ...curve, x }, 2);
  });

  onOpen("toy", () => { if (!state.model) attempt("toy", load); });
  at("toy-controls").addEventListener("submit", (event) => {
    event.preventDefault();
    if (state.isTraining) state.isTraining = false;
    else attempt("toy", train);
  });
  at("toy-anew").addEventListener("click", () => {
    state.added = [];
    attempt("toy", begin);
  });
  at("toy-problem").addEventListener("change", () => attempt("toy", fill));
  at("toy-method").addEventListener("change", () => attempt("toy", begin));
  at("toy-map").addEventListener("pointermove", (event) => {
    state.x = Math.min(3, Math.max(-3, place(event)[0]));
    drawX();
    attempt("toy", () => curveAt(state.x));
  });
  at("toy-map").addEventListener("click", (event) => attempt("toy", () => add(place(event))));
}
