import { chart, endLabels, narrow } from "./chart.js";
import { announce, byId, element, figure, sliders, swatch, table, whole } from "./controls.js";
import { newest } from "./data.js";
import { ask, control, declared, listen, state } from "./state.js";

export async function contexts() {
  sliders("contexts");
  const { largest } = declared.sections.contexts.words;
  const picture = await chart(byId("long-chart"), declared.charts.contexts, { renderer: "svg", room: [largest * 45, largest] });
  const draw = async ({ m, rules }) => {
    const theory = Object.entries(rules).flatMap(([label, { ratio }]) => m.map((n, i) => ({ label, n_memories: n, theory: ratio[i] })));
    const ends = Object.entries(rules).map(([label, { ratio }]) => ({ label, n_memories: largest, value: ratio.at(-1) }));
    await picture.show({ theory: theory.filter((row) => row.theory), measured: [], spans: [], here: [], marker: [{ n_memories: state.reference }], labels: endLabels(picture, ends.filter((e) => e.value)) });
    const colour = picture.scale("color");
    const rows = Object.entries(rules).map(([label, { ratio, beta }]) => [element("span", {}, swatch(colour(label)), label), figure(beta.at(-1)), ratio.at(-1) === null ? "less than a float can say" : figure(ratio.at(-1)), ratio.at(-1) > 1 ? "fails" : "works"]);
    byId("long-table").replaceChildren(...table(["rule", `β at M = ${whole(largest)}`, "ratio there", "recall"], rows, [1, 2]));
    byId("long-text").textContent = `Expected ratio of softmax for M up to ${whole(largest)}, with β = ${state.longbeta} at L = ${whole(state.reference)} (the vertical line) and dₖ = ${state.longwidth}.`;
    announce(rows.map(([label, , ratio]) => `${label.textContent} ${ratio}`).join(", "));
  };
  let latest = null;
  const update = newest(
    () => ask("contexts"),
    (data) => draw((latest = data)),
    (error) => (byId("long-text").textContent = error.message),
  );
  listen(["longwidth", "longbeta", "reference"], update);
  narrow.addEventListener("change", () => latest && draw(latest));
  await update();
}

export async function calculator() {
  sliders("calculator");
  const update = newest(
    () => ask("calculator"),
    (data) => {
      const cell = data.table[control("needm").values.indexOf(state.needm)][control("needratio").values.indexOf(state.needratio)];
      const answer =
        cell.beta === null
          ? "No sharpness is enough."
          : `β ≥ ${figure(cell.beta, 4)}: a factor of ${figure(cell.scale, 4)} on q·k when both have length √${state.needwidth}.`;
      byId("need-answer").textContent = answer;
      byId("need-sentence").textContent = cell.sentence;
      announce(`${answer} ${cell.sentence}`);
    },
    (error) => (byId("need-answer").textContent = error.message),
  );
  listen(["needm", "needratio", "needcosine", "needwidth"], update);
  await update();
}
