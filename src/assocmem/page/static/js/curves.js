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

// The line of M follows the pointer that drags in the chart.
function dragged(picture) {
  const holder = byId("curves-chart");
  const to = (event, more) => {
    const [m, { values }] = [picture.under(event), control("m")];
    const far = (x) => Math.abs(Math.log(x / m));
    set({ m: values.reduce((best, x) => (far(x) < far(best) ? x : best)) }, more);
  };
  holder.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    holder.setPointerCapture(event.pointerId);
    to(event, { commit: false });
  });
  holder.addEventListener("pointermove", (event) => holder.hasPointerCapture(event.pointerId) && to(event, { commit: false }));
  holder.addEventListener("pointerup", (event) => to(event, { together: "m" }));
}

export async function curves() {
  const stores = control("store").options;
  const hidden = () => new Set(state.hidden ? state.hidden.split(".") : []);
  const shown = () => stores.filter((store) => !hidden().has(store.id));
  const paint = toggles(stores, hidden);
  const picture = await chart(byId("curves-chart"), declared.charts.curves, { renderer: "svg", room: [2 ** 23.7, 2 ** 31] });
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
    async () => latest,
    async ({ data }) => {
      const at = control("m").values.indexOf(state.m);
      const expected = data.at[state.store][at];
      const here = expected > 0 && !hidden().has(state.store) ? [{ label: chosen("store").label, n_memories: state.m, value: expected }] : [];
      await picture.show({ marker: [{ n_memories: state.m }], here });
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
  listen(["m", "store", "cosine"], following(byId("curves-chart"), () => latest && move()));
  dragged(picture);
  narrow.addEventListener("change", () => latest && draw());
  paint();
  await update();
}
