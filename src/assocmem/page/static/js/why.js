import { clean } from "./bars.js";
import { chart } from "./chart.js";
import { byId, element, leading } from "./controls.js";
import { load } from "./data.js";
import { declared } from "./state.js";

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

export async function why() {
  const data = await load("why");
  for (const item of data.derivations) {
    const steps = item.steps.map((step) => {
      const line = element("li", {}, typeset(step.text));
      if (step.check) line.append(element("div", { class: "check" }, "Check: ", typeset(step.check), ...(step.bars ? [leading("show these bars", { ...clean(), ...step.bars }, "bars", "m")] : [])));
      if (step.picture) line.append(element("div", { class: "chart small", id: `why-${step.picture}`, role: "img", "aria-label": "The gradient's size against the sharpness β: it rises up to about 8, which is orange, and vanishes beyond." }));
      return line;
    });
    byId("why-list").append(element("details", {}, element("summary", {}, typeset(item.title)), element("div", {}, element("ol", {}, ...steps))));
  }
  // A folded chart has no width: it is drawn when it is unfolded.
  const holder = byId("why-gradient");
  holder.closest("details").addEventListener("toggle", async () => {
    const picture = await chart(holder, declared.charts.gradient);
    await picture.show(data.gradient.rows, { top: data.gradient.top });
  }, { once: true });
}
