import { buttons, byId, element, numbers } from "./controls.js";
import { asset, bytesOf, newest } from "./data.js";
import { run } from "./python.js";
import { ask, chosen, declared, listen, set, state } from "./state.js";

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

// The program as text for an address, "" where it is as it stood.
export const shownCode = async () => (byId("code").value === (await original()) ? "" : packed(byId("code").value));

const original = async () => new TextDecoder().decode(await asset(`teach/${chosen("hand").code}.py`));
const through = async (bytes, stream) => new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(stream)).arrayBuffer());

async function packed(text) {
  const bytes = await through(new TextEncoder().encode(text), new CompressionStream("deflate-raw"));
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

async function unpacked(text) {
  const bytes = bytesOf(text.replaceAll("-", "+").replaceAll("_", "/"));
  return new TextDecoder().decode(await through(bytes, new DecompressionStream("deflate-raw")));
}

async function editor() {
  const [code, output, button] = [byId("code"), byId("code-output"), byId("code-run")];
  const greeting = output.textContent;
  const edited = new Map(); // by kind of memory
  let kind = state.hand;
  let running = null;

  const changes = () => {
    const fit = declared.sections.hand.words.changes.filter((one) => [undefined, state.hand].includes(one.kind));
    byId("code-changes").replaceChildren(...fit.map(({ label, replace }) => {
      const made = element("button", { type: "button" }, label);
      made.addEventListener("click", () => {
        const before = code.value;
        code.value = replace.reduce((text, [old, now]) => text.replace(old, now), before);
        if (code.value !== before) return start();
        output.textContent = "There is nothing left to change so; undo the changes first.";
      });
      return made;
    }));
  };
  const open = async () => {
    edited.set(kind, code.value);
    kind = state.hand;
    code.value = edited.get(kind) ?? (await original());
    output.textContent = greeting;
    changes();
  };
  const reset = async () => {
    code.value = await original();
    output.textContent = greeting;
    set({ code: "" });
  };
  const start = async () => {
    if (running) return;
    running = run(code.value);
    button.textContent = "Stop";
    output.textContent = RUNNING;
    output.textContent = await running.answer;
    running = null;
    button.textContent = "Run";
  };
  const linked = async () => {
    if (!state.code) return;
    try {
      code.value = await unpacked(state.code);
      output.textContent = "This program came with the link. Read it, then run it.";
    } catch {
      output.textContent = "The link's program is not whole, so this is the one that belongs here.";
    }
  };
  listen(["hand"], open);
  listen(["code"], linked);
  byId("code-reset").addEventListener("click", reset);
  button.addEventListener("click", () => (running ? running.stop() : start()));
  code.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) start();
  });
  code.value = await original();
  changes();
  await linked();
}
