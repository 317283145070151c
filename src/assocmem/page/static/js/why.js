import { clean } from "./bars.js";
import { byId, element } from "./controls.js";
import { load } from "./data.js";
import { set } from "./state.js";

// Text between $ signs is mathematics.
function typeset(text) {
  const line = element("span");
  text.split("$").forEach((part, i) => {
    if (i % 2 === 0) return line.append(part);
    const maths = element("span");
    globalThis.katex.render(part, maths, { throwOnError: false, output: "htmlAndMathml" });
    line.append(maths);
  });
  return line;
}

function shown(settings) {
  const button = element("button", { type: "button" }, "show these bars");
  button.addEventListener("click", () => {
    set({ ...clean(), ...settings });
    byId("bars").scrollIntoView();
    byId("m").focus({ preventScroll: true });
  });
  return button;
}

export async function why() {
  const data = await load("why");
  for (const item of data.derivations) {
    const steps = item.steps.map((step) => {
      const line = element("li", {}, typeset(step.text));
      if (step.check) line.append(element("div", { class: "check" }, "Check: ", typeset(step.check), ...(step.bars ? [shown(step.bars)] : [])));
      return line;
    });
    byId("why-list").append(element("details", {}, element("summary", {}, typeset(item.title)), element("div", {}, element("ol", {}, ...steps))));
  }
}
