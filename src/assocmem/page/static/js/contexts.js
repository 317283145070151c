import { chart, endLabels, narrow } from "./chart.js";
import { announce, byId, element, figure, maths, sliders, swatch, table, verdict, whole } from "./controls.js";
import { newest } from "./data.js";
import { ask, control, declared, listen, state } from "./state.js";

export async function contexts() {
  sliders("contexts");
  const { largest, vague, rules: words } = declared.sections.contexts.words;
  const picture = await chart(byId("long-chart"), declared.charts.contexts, { renderer: "svg", room: [largest * 45, largest * 900] });
  const value = (x) => (x === null ? "less than a float can say" : figure(x));
  const draw = async ({ m, rules }) => {
    const theory = Object.entries(rules).flatMap(([label, { ratio }]) => m.map((n, i) => ({ label, n_memories: n, theory: ratio[i] })));
    const ends = Object.entries(rules).map(([label, { ratio }]) => ({ label, n_memories: largest, value: ratio.at(-1) }));
    await picture.show({ theory: theory.filter((row) => row.theory), measured: [], spans: [], labels: endLabels(picture, ends.filter((e) => e.value)) });
    await move({ m, rules });
  };
  const move = async ({ m, rules }) => {
    const at = m.indexOf(state.longm);
    const here = Object.entries(rules).map(([label, { ratio }]) => ({ label, n_memories: state.longm, value: ratio[at] })).filter((row) => row.value);
    await picture.show({ marker: [{ n_memories: state.longm }], here });
    const colour = picture.scale("color");
    const rows = Object.entries(rules).map(([label, found]) => [
      element("span", {}, swatch(colour(label)), label),
      element("span", {}, `${words[label][0]}: `, maths(words[label][1])),
      figure(found.beta[at]), value(found.ratio[at]), found.ratio[at] === null ? "recall is clear" : verdict(found.ratio[at]).words, value(found.vague[at]),
    ]);
    const heads = ["rule", "what β does", `β at M = ${whole(state.longm)}`, "ratio there", "so", `with a vague query (likeness ${vague})`];
    byId("long-table").replaceChildren(...table(heads, rows, [2, 3, 5]));
    byId("long-text").textContent = `Expected ratio of softmax for M up to ${whole(largest)}, with β = ${state.longbeta} at L = ${whole(state.reference)} and dₖ = ${state.longwidth}. The line stands at M = ${whole(state.longm)}. Where lines lie on one another, the dashes of one leave the other to be seen. A vague query's target weighs e^(${vague} β) in place of e^β: the sharper the rule, the larger the step to the last ratio.`;
    announce(rows.map(([label, , beta, ratio]) => `${label.textContent} β ${beta}, ratio ${ratio}`).join("; "));
  };
  let latest = null;
  const update = newest(
    () => ask("contexts"),
    (data) => draw((latest = data)),
    (error) => (byId("long-text").textContent = error.message),
  );
  listen(["longwidth", "longbeta", "reference"], update);
  listen(["longm"], () => latest && move(latest));
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
