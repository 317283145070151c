import { buttons, byId, element, numbers } from "./controls.js";
import { asset, load, newest } from "./data.js";
import { run } from "./python.js";
import { listen, set, state } from "./state.js";

export async function hand() {
  buttons("hand-stores", "hand", [
    { id: "outer-product", label: "one grid of numbers" },
    { id: "softmax", label: "a list, read by softmax" },
  ]);
  buttons("hand-asked", "asked", [0, 1, 2].map((i) => ({ id: i, label: `ask with key ${i + 1}` })));
  let steps = [];
  const go = (by) => set({ step: Math.max(0, Math.min(steps.length - 1, state.step + by)) });
  byId("hand-back").addEventListener("click", () => go(-1));
  byId("hand-next").addEventListener("click", () => go(1));

  const update = newest(
    () => load(`hand/${state.hand}/${state.asked}`),
    (data) => {
      steps = data.steps;
      const at = Math.min(state.step, steps.length - 1);
      const step = steps[at];
      byId("hand-where").textContent = `${at + 1} of ${steps.length}`;
      byId("hand-back").disabled = at === 0;
      byId("hand-next").disabled = at === steps.length - 1;
      const parts = step.tables.flatMap((t) => [element("p", { class: "grid-name" }, t.name), numbers(t.rows, t.mark)]);
      byId("hand-step").replaceChildren(element("h3", {}, step.title), element("p", {}, step.text), ...parts);
    },
    (error) => byId("hand-step").replaceChildren(error.message),
  );
  listen(["hand", "asked", "step"], update);

  const original = async () => {
    const name = state.hand === "softmax" ? "softmax" : "outer";
    byId("code").value = new TextDecoder().decode(await asset(`teach/${name}.py`));
    byId("code-output").textContent = "";
  };
  listen(["hand"], original);
  byId("code-reset").addEventListener("click", original);
  byId("code-run").addEventListener("click", async () => {
    const button = byId("code-run");
    button.disabled = true;
    byId("code-output").textContent = "running…";
    byId("code-output").textContent = await run(byId("code").value);
    button.disabled = false;
  });
  await Promise.all([update(), original()]);
}
