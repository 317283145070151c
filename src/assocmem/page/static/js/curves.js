import { chart, endLabels, narrow } from "./chart.js";
import { announce, byId, element, figure, following, swatch, table, whole } from "./controls.js";
import { newest } from "./data.js";
import { ask, chosen, control, declared, listen, set, state } from "./state.js";

const LARGEST = 2 ** 20;
const rowsOf = (label, columns, name) => columns.m.map((m, i) => ({ label, n_memories: m, [name]: columns.ratio[i] }));

function measuredRows(label, columns) {
  return rowsOf(label, columns, "value").map((row, i) => ({
    ...row, low: columns.low[i], high: columns.high[i], n_trials: columns.trials[i], theory: columns.theory[i], sampler: columns.sampler[i],
  }));
}

function toggles(stores, hidden) {
  const made = stores.map((store) => {
    const button = element("button", { type: "button", "data-value": store.id }, swatch(store.colour), store.label);
    button.addEventListener("click", () => {
      const now = hidden();
      now.has(store.id) ? now.delete(store.id) : now.add(store.id);
      set({ hidden: stores.map((s) => s.id).filter((id) => now.has(id)).join(".") });
    });
    byId("curves-shown").append(button);
    return button;
  });
  return () => made.forEach((b) => b.setAttribute("aria-pressed", String(!hidden().has(b.dataset.value))));
}

export async function curves() {
  const stores = control("store").options;
  const hidden = () => new Set(state.hidden ? state.hidden.split(".") : []);
  const shown = () => stores.filter((store) => !hidden().has(store.id));
  const paint = toggles(stores, hidden);
  const picture = await chart(byId("curves-chart"), declared.charts.curves, { renderer: "svg", room: [2 ** 23.7, LARGEST] });
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
    async () => [chosen("store"), await ask("bars")],
    async ([store, bars]) => {
      const at = control("m").values.indexOf(state.m);
      const here = bars.ratio[at] > 0 ? [{ label: store.label, n_memories: state.m, value: bars.ratio[at] }] : [];
      await picture.show({ marker: [{ n_memories: state.m }], here });
      const { data } = latest;
      const rows = shown().map(({ id, label, colour }) => [element("span", {}, swatch(colour), label), figure(data.at[id][at]), figure(data.capacity[id])]);
      byId("curves-table").replaceChildren(...table(["store", `expected ratio at M = ${whole(state.m)}`, "capacity"], rows, [1, 2]));
    },
    (error) => (byId("curves-text").textContent = error.message),
  );
  const update = newest(
    async () => ({ data: await ask("curves"), optimal: await ask("optimal") }),
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
