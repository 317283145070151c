import { chart, endLabels, narrow } from "./chart.js";
import { announce, byId, element, figure, slider, swatch, table, whole } from "./controls.js";
import { load, newest } from "./data.js";
import { listen, state } from "./state.js";

export async function contexts(choices) {
  const { notes } = choices;
  slider("reference", "reference", choices.references, { say: (l) => `${l} memories`, show: whole });
  slider("long-beta", "longbeta", choices.betas, { say: (b) => `sharpness ${b}`, show: String });
  slider("long-width", "longwidth", choices.widths, { say: (d) => `${d} numbers`, show: String, note: notes.width });
  await Promise.all([rules(choices), calculator(choices)]);
}

async function rules(choices) {
  const { largest } = choices.need;
  const picture = await chart(byId("long-chart"), choices.specs.contexts, { renderer: "svg", room: [largest * 45, largest] });
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
    () => load(`contexts/${state.longwidth}/${state.longbeta}/${state.reference}`),
    (data) => draw((latest = data)),
    (error) => (byId("long-text").textContent = error.message),
  );
  listen(["longwidth", "longbeta", "reference"], update);
  narrow.addEventListener("change", () => latest && draw(latest));
  await update();
}

async function calculator(choices) {
  const { need, notes } = choices;
  slider("need-m", "needm", need.counts, { say: (m) => `${m} memories`, show: whole });
  slider("need-ratio", "needratio", need.ratios, { say: String });
  slider("need-cosine", "needcosine", choices.cosines, { say: (c) => (c === 1 ? "1, a clean query" : `${c}, a noisy query`), show: (c) => (c === 1 ? "1 (clean)" : `${c}`) });
  slider("need-width", "needwidth", choices.widths, { say: (d) => `${d} numbers`, show: String, note: notes.width });
  const update = newest(
    () => load(`calculator/${state.needwidth}/${state.needcosine}`),
    (data) => {
      const cell = data.table[need.counts.indexOf(state.needm)][need.ratios.indexOf(state.needratio)];
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
