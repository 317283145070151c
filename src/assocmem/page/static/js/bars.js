import { chart } from "./chart.js";
import { announce, buttons, byId, element, enable, figure, later, sliders, verdict, whole } from "./controls.js";
import { load, newest } from "./data.js";
import { chosen, control, declared, listen, pathOf, set, state } from "./state.js";

// Asks for what the next step of a slider will show, so that it is there.
function ahead() {
  const near = (name, reach) => {
    const { values } = control(name);
    const at = values.indexOf(state[name]);
    return values.slice(Math.max(0, at - reach), at + reach + 1).map((value) => pathOf("bars", { [name]: value }));
  };
  const paths = [...(chosen("store").sharp ? near("beta", 3) : []), ...near("cosine", 1)];
  for (const path of new Set(paths)) load(path).catch(() => null);
}

// What a preset does not name is as it is usual.
export const clean = () => Object.fromEntries(["beta", "cosine", "width", "draw"].map((name) => [name, control(name).usual]));

function controls() {
  buttons("bars-stores", "store", { swatches: true, about: "bars-about" });
  sliders("bars");
  for (const { label, set: settings } of declared.sections.bars.words.presets) {
    const button = element("button", { type: "button" }, label);
    button.addEventListener("click", () => set({ ...clean(), ...settings }));
    byId("presets").append(button);
  }
  const [draw, { values }] = [byId("draw"), control("draw")];
  draw.hidden = values.length < 2;
  draw.addEventListener("click", () => set({ draw: (state.draw + 1) % values.length }));
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
  const { id, words } = verdict(ratio);
  byId("verdict").textContent = words;
  byId("verdict").className = `verdict ${id}`;
  byId("ratio").textContent = figure(ratio);
  byId("expected").textContent = figure(expected);
  byId("expected-name").textContent = data.statistic === "median" ? "expected median" : "expected";
  byId("expected").title = expected === null ? data.expected_reason : "";
  byId("capacity").textContent = figure(data.capacity);
  lengths(data.signal[at], data.interference[at]);
  const none = expected === null && data.expected_reason ? ` Expected: none (${data.expected_reason}).` : "";
  const sentence =
    `${store.label}, ${whole(state.m)} memories: relative to the target's weight, the other ${whole(state.m - 1)} together weigh ` +
    `${figure(ratio)} (root of the sum of their squares): ${words}.${none}`;
  byId("bars-text").textContent = sentence;
  announce(sentence);
}

export async function bars() {
  controls();
  const picture = await chart(byId("bars-chart"), declared.charts.bars);
  let prepared = { key: null, rows: [] };

  const rowsOf = (data, at, path) => {
    const key = data.rows ? `${path}@${at}` : path;
    if (prepared.key !== key) {
      const weights = data.rows ? data.rows[at] : data.row;
      prepared = { key, rows: weights.map((weight, index) => ({ index, end: index + 0.9, weight })) };
    }
    return prepared.rows.slice(0, state.m);
  };
  const prepare = later(200, ahead);
  const update = newest(
    async () => {
      const where = pathOf("bars");
      return [where, await load(where)];
    },
    async ([where, data]) => {
      const at = control("m").values.indexOf(state.m);
      const rows = rowsOf(data, at, where);
      const store = chosen("store");
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
