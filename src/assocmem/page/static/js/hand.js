import { buttons, byId, element, numbers } from "./controls.js";
import { asset, newest } from "./data.js";
import { run } from "./python.js";
import { ask, chosen, listen, set, state } from "./state.js";

const RUNNING = "Running…";

export async function hand() {
  buttons("hand-stores", "hand");
  buttons("hand-asked", "asked");
  let steps = [];
  const go = (by) => set({ step: Math.max(0, Math.min(steps.length - 1, Math.min(state.step, steps.length - 1) + by)) });
  byId("hand-back").addEventListener("click", () => go(-1));
  byId("hand-next").addEventListener("click", () => go(1));

  const update = newest(
    () => ask("hand"),
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
    code.value = new TextDecoder().decode(await asset(`teach/${chosen("hand").code}.py`));
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
