import { chart } from "./chart.js";
import { byId, figure, slider } from "./controls.js";
import { load, newest } from "./data.js";
import { listen, state } from "./state.js";

export async function contexts(choices) {
  slider("reference", "reference", choices.references, { say: (l) => `${l} memories`, show: (l) => l.toLocaleString("en-US") });
  slider("long-beta", "longbeta", choices.betas, { say: String });
  slider("long-width", "longwidth", choices.widths, { say: (d) => `${d} numbers`, show: String });
  slider("need-m", "needm", choices.need.counts, { say: (m) => `${m} memories`, show: (m) => m.toLocaleString("en-US") });
  slider("need-ratio", "needratio", choices.need.ratios, { say: String });
  slider("need-cosine", "needcosine", choices.cosines, { say: String });
  slider("need-width", "needwidth", choices.widths, { say: String });

  const picture = await chart(byId("long-chart"), choices.specs.contexts, "svg");
  const longer = newest(
    () => load(`contexts/${state.longwidth}/${state.longbeta}/${state.reference}`),
    async (data) => {
      await picture.show({ theory: data.rows, measured: [], spans: [], marker: [] });
      const largest = choices.need.largest;
      const ends = data.rows.filter((row) => row.n_memories === largest);
      byId("long-text").textContent =
        `At ${largest.toLocaleString("en-US")} memories: ` +
        ends.map((row) => `${row.label} ${figure(row.theory)} (β ${figure(row.beta)})`).join("; ") + ".";
      byId("long-note").textContent = `All four rules agree at M = L. Qwen's and YaRN's stay at β below L.`;
    },
    (error) => (byId("long-text").textContent = error.message),
  );
  const need = newest(
    () => load(`calculator/${state.needwidth}/${state.needcosine}`),
    (data) => {
      const cell = data.table[choices.need.counts.indexOf(state.needm)][choices.need.ratios.indexOf(state.needratio)];
      byId("need-answer").textContent =
        cell.beta === null
          ? "No sharpness is enough."
          : `β ≥ ${figure(cell.beta, 4)}, that is a scale of ${figure(cell.scale, 4)} on q·k when both have length √d_k.`;
      byId("need-sentence").textContent = cell.sentence;
    },
    (error) => (byId("need-answer").textContent = error.message),
  );
  listen(["longwidth", "longbeta", "reference"], longer);
  listen(["needm", "needratio", "needcosine", "needwidth"], need);
  await Promise.all([longer(), need()]);
}
