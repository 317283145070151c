import { chart } from "./chart.js";
import { byId, element, figure, later } from "./controls.js";
import { load, newest } from "./data.js";
import { listen, set, state } from "./state.js";

export async function curves(choices) {
  const hidden = () => new Set(state.hidden ? state.hidden.split(".") : []);
  const toggles = choices.stores.map((store) => {
    const dot = element("span", { class: "swatch", style: { background: choices.colours[store.id] } });
    const button = element("button", { type: "button", "data-value": store.id }, dot, store.label);
    button.addEventListener("click", () => {
      const now = hidden();
      now.has(store.id) ? now.delete(store.id) : now.add(store.id);
      set({ hidden: [...now].join(".") });
    });
    byId("curves-shown").append(button);
    return button;
  });
  const paint = () => toggles.forEach((b) => b.setAttribute("aria-pressed", String(!hidden().has(b.dataset.value))));
  const picture = await chart(byId("curves-chart"), choices.specs.curves, "svg");
  const announce = later(300, (text) => (byId("curves-text").textContent = text));

  const update = newest(
    () => load(`curves/${state.width}/${state.beta}`),
    async (data) => {
      paint();
      const gone = new Set(choices.stores.filter((s) => hidden().has(s.id)).map((s) => s.label));
      const seen = (rows) => rows.filter((row) => !gone.has(row.label));
      await picture.show({ theory: seen(data.theory), measured: seen(data.measured), spans: seen(data.spans), marker: [{ n_memories: state.m }] });
      const ends = choices.stores
        .filter((s) => !gone.has(s.label) && data.capacity[s.id])
        .map((s) => `${s.label} ${figure(data.capacity[s.id])}`);
      announce(`At d_k = ${state.width} and β = ${state.beta} the ratio reaches 1 at: ${ends.join(", ")}. Points: ${data.about}.`);
    },
    (error) => (byId("curves-text").textContent = error.message),
  );
  const move = () => picture.show({ marker: [{ n_memories: state.m }] });
  listen(["width", "beta", "hidden"], update);
  listen(["m"], move);
  paint();
  await update();
}
