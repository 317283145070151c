import { chart } from "./chart.js";
import { buttons, byId, element, figure, later, slider } from "./controls.js";
import { load, newest } from "./data.js";
import { defaults, listen, set, state } from "./state.js";

const presets = [
  ["The first picture: 32 memories", { store: "outer", m: 32 }],
  ["Past 64 the outer product fails", { store: "outer", m: 128 }],
  ["Least squares: nothing leaks at 64", { store: "optimal", m: 64 }],
  ["Squaring turns 0.1 into 0.01", { store: "squared", m: 768 }],
  ["Two terms of exp lose to a straight line", { store: "exp2", m: 48 }],
  ["Softmax at β 2 fails after a few dozen", { store: "softmax", m: 64, beta: 2 }],
  ["Softmax at β 8 doesn't", { store: "softmax", m: 1024, beta: 8 }],
  ["A noisy query costs softmax most", { store: "softmax", m: 1024, beta: 16, cosine: 0.5 }],
];

export async function bars(choices) {
  buttons("bars-stores", "store", choices.stores, { colours: choices.colours });
  slider("m", "m", choices.counts, { say: (m) => `${m} memories`, show: String });
  slider("beta", "beta", choices.betas, { say: (b) => `sharpness ${b}`, show: String });
  slider("cosine", "cosine", choices.cosines, { say: (c) => (c === 1 ? "1, a clean query" : `${c}`), show: (c) => (c === 1 ? "1 (clean)" : `${c}`) });
  slider("width", "width", choices.widths, { say: (d) => `${d} numbers`, show: String });
  const clean = { beta: defaults.beta, cosine: 1, width: choices.widths.includes(64) ? 64 : choices.widths[0], draw: 0 };
  for (const [label, settings] of presets) {
    const button = element("button", { type: "button" }, label);
    button.addEventListener("click", () => set({ ...clean, ...settings }));
    byId("presets").append(button);
  }
  const draw = byId("draw");
  draw.disabled = choices.draws < 2;
  if (draw.disabled) draw.title = "This file holds one draw; the live page offers more.";
  draw.addEventListener("click", () => set({ draw: (state.draw + 1) % choices.draws }));

  const picture = await chart(byId("bars-chart"), choices.specs.bars);
  const info = (id) => choices.stores.find((store) => store.id === id);
  const announce = later(250, (text) => (byId("bars-text").textContent = text));
  let prepared = { key: null, rows: [] };

  const rowsOf = (data, at, path) => {
    const key = data.rows ? `${path}@${at}` : path;
    if (prepared.key !== key) {
      const weights = data.rows ? data.rows[at] : data.row;
      prepared = { key, rows: weights.map((weight, index) => ({ index, end: index + 0.9, weight })) };
    }
    return prepared.rows.slice(0, state.m);
  };
  const path = () => {
    const store = info(state.store);
    const tail = store.sharp ? `/${state.beta}` : "";
    return `bars/${state.store}/${state.width}/${state.cosine}/${state.draw}${tail}`;
  };
  const update = newest(
    async () => {
      const where = path();
      return [where, await load(where)];
    },
    async ([where, data]) => {
      const at = choices.counts.indexOf(state.m);
      const rows = rowsOf(data, at, where);
      await picture.show({ bars: rows.slice(1), target: rows.slice(0, 1) });
      const [ratio, expected] = [data.ratio[at], data.expected[at]];
      const fails = ratio > 1;
      byId("verdict").textContent = fails ? "recall fails" : "recall works";
      byId("verdict").className = `verdict ${fails ? "fails" : "works"}`;
      byId("ratio").textContent = figure(ratio);
      byId("expected").textContent = figure(expected);
      byId("expected").title = expected === null ? data.expected_reason : "";
      byId("signal").textContent = figure(data.signal[at]);
      byId("interference").textContent = figure(data.interference[at]);
      byId("capacity").textContent = figure(data.capacity);
      const store = info(state.store);
      byId("bars-note").textContent = store.sharp ? "" : `β has no part in the ${store.label} store.`;
      byId("beta").disabled = !store.sharp;
      announce(
        `${store.label}, ${state.m} memories: the red target has weight 1, the other ${state.m - 1} together ` +
          `${figure(ratio)} (root of the sum of squares). Recall ${fails ? "fails" : "works"}.` +
          (expected === null ? ` Expected: none, ${data.expected_reason}.` : ""),
      );
    },
    (error) => (byId("bars-text").textContent = error.message),
  );
  listen(["store", "m", "beta", "cosine", "width", "draw"], update);
  await update();
}
