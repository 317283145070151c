import { chart } from "./chart.js";
import { announce, buttons, byId, element, enable, figure, later, slider, whole } from "./controls.js";
import { load, newest } from "./data.js";
import { defaults, listen, set, state } from "./state.js";

const presets = [
  ["32 memories in a grid", { store: "outer", m: 32 }],
  ["Past 64 the grid fails", { store: "outer", m: 128 }],
  ["Least squares: nothing leaks at 64", { store: "optimal", m: 64 }],
  ["Squaring turns 0.1 into 0.01", { store: "squared", m: 768 }],
  ["Two terms of exp lose to a straight line", { store: "exp2", m: 48 }],
  ["Softmax at β 2 fails after a few dozen", { store: "softmax", m: 64, beta: 2 }],
  ["Softmax at β 8 doesn't", { store: "softmax", m: 1024, beta: 8 }],
  ["A vague query makes softmax fail again", { store: "softmax", m: 1024, beta: 8, cosine: 0.5 }],
];

export function pathOf(store, changes = {}) {
  const { width, cosine, draw, beta } = { ...state, ...changes };
  return `bars/${store.id}/${width}/${cosine}/${draw}${store.sharp ? `/${beta}` : ""}`;
}

// Asks for what the next step of a slider will show, so that it is there.
function ahead(choices, store) {
  const near = (key, values, reach) => {
    const at = values.indexOf(state[key]);
    return values.slice(Math.max(0, at - reach), at + reach + 1).map((value) => pathOf(store, { [key]: value }));
  };
  const paths = [...(store.sharp ? near("beta", choices.betas, 3) : []), ...near("cosine", choices.cosines, 1)];
  for (const path of new Set(paths)) load(path).catch(() => null);
}

function controls(choices) {
  const { notes } = choices;
  buttons("bars-stores", "store", choices.stores, { colours: choices.colours });
  slider("m", "m", choices.counts, { say: (m) => `${m} memories`, show: whole });
  slider("beta", "beta", choices.betas, { say: (b) => `sharpness ${b}`, show: String });
  slider("cosine", "cosine", choices.cosines, { say: (c) => (c === 1 ? "1, a clean query" : `${c}, a noisy query`), show: (c) => (c === 1 ? "1 (clean)" : `${c}`) });
  slider("width", "width", choices.widths, { say: (d) => `${d} numbers`, show: String, note: notes.width });
  const clean = { beta: defaults.beta, cosine: 1, width: 64, draw: 0 };
  for (const [label, settings] of presets) {
    const button = element("button", { type: "button" }, label);
    button.addEventListener("click", () => set({ ...clean, ...settings }));
    byId("presets").append(button);
  }
  const draw = byId("draw");
  draw.disabled = choices.draws < 2;
  byId("draw-note").textContent = notes.draw ?? "";
  if (notes.draw) draw.title = notes.draw;
  draw.addEventListener("click", () => set({ draw: (state.draw + 1) % choices.draws }));
}

function lengths(signal, interference) {
  const longest = Math.max(signal, interference) || 1;
  for (const [id, length] of [["signal", signal], ["interference", interference]]) {
    byId(`${id}-length`).style.width = `calc((100% - 5em) * ${(length / longest).toFixed(4)})`;
    byId(id).textContent = figure(length);
  }
}

function readOut(store, data, at) {
  const [ratio, expected] = [data.ratio[at], data.expected[at]];
  const verdict = ratio > 1 ? "fails" : "works";
  byId("verdict").textContent = `recall ${verdict}`;
  byId("verdict").className = `verdict ${verdict}`;
  byId("ratio").textContent = figure(ratio);
  byId("expected").textContent = figure(expected);
  byId("expected-name").textContent = data.statistic === "median" ? "expected median" : "expected";
  byId("expected").title = expected === null ? data.expected_reason : "";
  byId("capacity").textContent = figure(data.capacity);
  lengths(data.signal[at], data.interference[at]);
  const none = expected === null && data.expected_reason ? ` Expected: none (${data.expected_reason}).` : "";
  const sentence =
    `${store.label}, ${whole(state.m)} memories: relative to the target's weight, the other ${whole(state.m - 1)} together weigh ` +
    `${figure(ratio)} (root of the sum of their squares). Recall ${verdict}.${none}`;
  byId("bars-text").textContent = sentence;
  announce(sentence);
}

export async function bars(choices) {
  controls(choices);
  const picture = await chart(byId("bars-chart"), choices.specs.bars);
  const info = (id) => choices.stores.find((store) => store.id === id);
  let prepared = { key: null, rows: [] };

  const rowsOf = (data, at, path) => {
    const key = data.rows ? `${path}@${at}` : path;
    if (prepared.key !== key) {
      const weights = data.rows ? data.rows[at] : data.row;
      prepared = { key, rows: weights.map((weight, index) => ({ index, end: index + 0.9, weight })) };
    }
    return prepared.rows.slice(0, state.m);
  };
  const prepare = later(200, () => ahead(choices, info(state.store)));
  const update = newest(
    async () => {
      const where = pathOf(info(state.store));
      return [where, await load(where)];
    },
    async ([where, data]) => {
      const at = choices.counts.indexOf(state.m);
      const rows = rowsOf(data, at, where);
      const store = info(state.store);
      enable(byId("beta"), store.sharp, `β has no part in the ${store.label} store.`);
      readOut(store, data, at);
      await picture.show({ bars: rows.slice(1), target: rows.slice(0, 1) });
      prepare();
    },
    (error) => (byId("bars-text").textContent = error.message),
  );
  listen(["store", "m", "beta", "cosine", "width", "draw"], update);
  await update();
}
