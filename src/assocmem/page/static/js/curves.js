import { pathOf } from "./bars.js";
import { chart, endLabels, narrow } from "./chart.js";
import { announce, byId, element, figure, following, swatch, table, whole } from "./controls.js";
import { load, newest } from "./data.js";
import { listen, set, state } from "./state.js";

const LARGEST = 2 ** 20;
const rowsOf = (label, columns, name) => columns.m.map((m, i) => ({ label, n_memories: m, [name]: columns.ratio[i] }));

function measuredRows(label, columns) {
  return rowsOf(label, columns, "value").map((row, i) => ({
    ...row, low: columns.low[i], high: columns.high[i], n_trials: columns.trials[i], theory: columns.theory[i], sampler: columns.sampler[i],
  }));
}

function toggles(choices, hidden) {
  const made = choices.stores.map((store) => {
    const button = element("button", { type: "button", "data-value": store.id }, swatch(choices.colours[store.id]), store.label);
    button.addEventListener("click", () => {
      const now = hidden();
      now.has(store.id) ? now.delete(store.id) : now.add(store.id);
      set({ hidden: choices.stores.map((s) => s.id).filter((id) => now.has(id)).join(".") });
    });
    byId("curves-shown").append(button);
    return button;
  });
  return () => made.forEach((b) => b.setAttribute("aria-pressed", String(!hidden().has(b.dataset.value))));
}

export async function curves(choices) {
  const hidden = () => new Set(state.hidden ? state.hidden.split(".") : []);
  const shown = () => choices.stores.filter((store) => !hidden().has(store.id));
  const paint = toggles(choices, hidden);
  const picture = await chart(byId("curves-chart"), choices.specs.curves, { renderer: "svg", room: [2 ** 23.7, LARGEST] });
  let latest = null;

  const draw = async () => {
    const { data, optimal } = latest;
    const measured = { ...data.measured, optimal };
    const rows = shown().flatMap(({ id, label }) => measuredRows(label, measured[id]));
    const ends = shown().map(({ id, label }) => ({ label, n_memories: LARGEST, value: data.theory[id].ratio.at(-1) }));
    await picture.show({
      theory: shown().flatMap(({ id, label }) => rowsOf(label, data.theory[id], "theory")),
      measured: rows,
      spans: rows.filter((row) => row.low > 0 && row.high !== null),
      labels: endLabels(picture, ends),
    });
    const reach = shown().filter(({ id }) => data.capacity[id]).map(({ id, label }) => `${label} ${figure(data.capacity[id])}`);
    const noisy = state.cosine === 1 ? "" : " The curves are for a clean query; the bars' query is noisy.";
    byId("curves-text").textContent =
      `With dₖ = ${state.width} and β = ${state.beta} the ratio reaches 1 at: ${reach.join(", ") || "no M"}. ${data.about}${noisy}`;
  };
  const move = newest(
    async () => {
      const store = choices.stores.find(({ id }) => id === state.store);
      return [store, await load(pathOf(store))];
    },
    async ([store, bars]) => {
      const at = choices.counts.indexOf(state.m);
      const here = bars.ratio[at] > 0 ? [{ label: store.label, n_memories: state.m, value: bars.ratio[at] }] : [];
      await picture.show({ marker: [{ n_memories: state.m }], here });
      const { data } = latest;
      const rows = shown().map(({ id, label }) => [element("span", {}, swatch(choices.colours[id]), label), figure(data.at[id][at]), figure(data.capacity[id])]);
      byId("curves-table").replaceChildren(...table(["store", `expected ratio at M = ${whole(state.m)}`, "capacity"], rows, [1, 2]));
    },
    (error) => (byId("curves-text").textContent = error.message),
  );
  const update = newest(
    async () => ({ data: await load(`curves/${state.width}/${state.beta}`), optimal: await load(`optimal/${state.width}`) }),
    async (answer) => {
      latest = answer;
      await draw();
      await move();
    },
    (error) => (byId("curves-text").textContent = error.message),
  );
  listen(["width", "beta", "hidden"], following(byId("curves-chart"), update));
  listen(["hidden"], paint);
  listen(["hidden"], () => announce(`${shown().length} curves shown.`));
  listen(["m", "store", "cosine", "draw"], following(byId("curves-chart"), () => latest && move()));
  narrow.addEventListener("change", () => latest && draw());
  paint();
  await update();
}
