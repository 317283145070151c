import { buttons, byId, element, numbers } from "./controls.js";
import { asset, load, newest } from "./data.js";
import { run } from "./python.js";
import { listen, set, state } from "./state.js";

const RUNNING = "Running…";

export async function hand() {
  buttons("hand-stores", "hand", [
    { id: "outer-product", label: "one grid of numbers" },
    { id: "softmax", label: "a list, read by softmax" },
  ]);
  buttons("hand-asked", "asked", [0, 1, 2].map((i) => ({ id: i, label: `ask with key ${i + 1}` })));
  let steps = [];
  const go = (by) => set({ step: Math.max(0, Math.min(steps.length - 1, Math.min(state.step, steps.length - 1) + by)) });
  byId("hand-back").addEventListener("click", () => go(-1));
  byId("hand-next").addEventListener("click", () => go(1));

  const update = newest(
    () => load(`hand/${state.hand}/${state.asked}`),
    (data) => {
      steps = data.steps;
      const at = Math.min(state.step, steps.length - 1);
      const step = steps[at];
      byId("hand-where").textContent = `step ${at + 1} of ${steps.length}`;
      byId("hand-back").disabled = at === 0;
      byId("hand-next").disabled = at === steps.length - 1;
      const parts = step.tables.map((t) => element("div", {}, element("p", { class: "grid-name" }, t.name), numbers(t)));
      byId("hand-step").replaceChildren(element("h3", {}, step.title), element("p", {}, step.text), element("div", { class: "tables" }, ...parts));
    },
    (error) => byId("hand-step").replaceChildren(error.message),
  );
  listen(["hand", "asked", "step"], update);
  await Promise.all([update(), editor()]);
}

async function editor() {
  const code = byId("code");
  const output = byId("code-output");
  const button = byId("code-run");
  const greeting = output.textContent;
  const original = async () => {
    code.value = new TextDecoder().decode(await asset(`teach/${state.hand === "softmax" ? "softmax" : "outer"}.py`));
    output.textContent = greeting;
  };
  const start = async () => {
    if (button.disabled) return;
    button.disabled = true;
    output.textContent = RUNNING;
    output.textContent = await run(code.value);
    button.disabled = false;
  };
  listen(["hand"], original);
  byId("code-reset").addEventListener("click", original);
  button.addEventListener("click", start);
  code.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) start();
  });
  await original();
}
