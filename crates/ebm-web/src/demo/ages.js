// The tab "Ages": p(age | face) of a face in a photograph.
"use strict";
{
  const state = { image: -1, crop: 1, url: "", box: null };

  /** Sends a photograph, and places a box whose crop fills it. */
  async function look(file) {
    const { image, width, height, crop } = await ask(`ages/look?name=${encodeURIComponent(file.name)}`, file);
    URL.revokeObjectURL(state.url);
    Object.assign(state, { image, crop, url: URL.createObjectURL(file) });
    const side = Math.min(width, height) / crop;
    drawPhotograph(at("ages-picture"), state.url, [width, height]);
    const bbox = [(width - side) / 2, (height - side) / 2, side, side];
    state.box = new MovableBox(at("ages-picture"), [width, height], bbox, "the face", { moved });
    state.box.pick(true);
    say("ages", `${file.name}: ${width} × ${height} pixels`);
    moved();
  }

  /** Shows the square that the network sees, and requests its age. */
  function moved() {
    const { box, crop } = state;
    const [x, y, across, down] = box.bbox;
    const side = crop * Math.max(across, down);
    put(box.before, [x + across / 2 - side / 2, y + down / 2 - side / 2, side, side]);
    attempt("ages", () => estimate(box.bbox));
  }

  const estimate = newest(async (bbox) => {
    const { image } = state;
    const found = await ask("ages/estimate", { image, bbox });
    if (image !== state.image) return;
    const frame = drawDensity("ages-curve", found, "years");
    const marks = { mean: [found.mean], median: [found.median], mode: found.modes };
    for (const [kind, values] of Object.entries(marks)) {
      at("ages-curve").append(...values.map(frame.x).map((x) => svg("line", { class: `mark ${kind}`, x1: x, x2: x, y1: frame.top, y2: frame.bottom })));
    }
    tell("ages-numbers", { ...found, bbox }, 1);
  });

  takeFiles("ages", look);
}
