import { chart } from "./chart.js";
import { announce, buttons, byId, enable, figure, slider, whole } from "./controls.js";
import { load, newest } from "./data.js";
import { listen, state } from "./state.js";

export async function streams(choices) {
  const { rules, decays, strengths, draws } = choices.streams;
  byId("streams").hidden = false;
  buttons("streams-rules", "rule", rules);
  slider("decay", "decay", decays, { say: (a) => (a === 1 ? "1, all of it" : `${a}`), show: String });
  slider("strength", "strength", strengths, { say: String });
  const picture = await chart(byId("streams-chart"), choices.specs.streams);
  const info = (id) => rules.find((rule) => rule.id === id);
  const update = newest(
    () => {
      const rule = info(state.rule);
      return load(`streams/${rule.id}/${rule.decays ? state.decay : 1}/${rule.strengths ? state.strength : 1}`);
    },
    async (data) => {
      const rule = info(state.rule);
      enable(byId("decay"), rule.decays, `${rule.label} doesn't fade.`);
      enable(byId("strength"), rule.strengths, `${rule.label} writes every pair alike.`);
      byId("streams-note").textContent = rule.about;
      const bars = data.bars.map((weight, index) => ({ index, end: index + 0.8, weight }));
      const fading = data.half_life === null ? `The oldest keeps more than half of that` : `Half of that is left after ${data.half_life} writes`;
      const sentence = `${rule.label}: ${figure(100 * data.newest)} % of the newest value comes back. ${fading}. `;
      const rest =
        `Interference is ${figure(data.ratio_newest)} times the signal for the newest pair, ${figure(data.ratio_64)} for the one 64 writes earlier. ` +
        `The state holds ${whole(data.state)} numbers, however many pairs are written. Mean of ${draws} draws, dₖ = 64.`;
      byId("streams-text").textContent = sentence + rest;
      announce(sentence);
      await picture.show({ bars: bars.slice(1), target: bars.slice(0, 1) }, { top: Math.max(1.05, ...data.bars) });
    },
    (error) => (byId("streams-text").textContent = error.message),
  );
  listen(["rule", "decay", "strength"], update);
  await update();
}
