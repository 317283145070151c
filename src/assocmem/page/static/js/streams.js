import { chart } from "./chart.js";
import { buttons, byId, figure, slider } from "./controls.js";
import { load, newest } from "./data.js";
import { listen, state } from "./state.js";

export async function streams(choices) {
  if (!choices.streams) return;
  byId("streams").hidden = false;
  buttons("streams-rules", "rule", choices.streams.rules);
  const decay = slider("decay", "decay", choices.streams.decays, { say: String });
  const strength = slider("strength", "strength", choices.streams.strengths, { say: String });
  const picture = await chart(byId("streams-chart"), choices.specs.streams);
  const info = (id) => choices.streams.rules.find((rule) => rule.id === id);
  const update = newest(
    () => {
      const rule = info(state.rule);
      return load(`streams/${rule.id}/${rule.decays ? state.decay : 1}/${rule.strengths ? state.strength : 1}`);
    },
    async (data) => {
      const rule = info(state.rule);
      decay.disabled = !rule.decays;
      strength.disabled = !rule.strengths;
      byId("streams-note").textContent = rule.about;
      await picture.show({ bars: data.bars.slice(1), target: data.bars.slice(0, 1) });
      byId("streams-text").textContent =
        `Newest pair: share ${figure(data.newest)} of its value; half of that is left after ${data.half_life === null ? "more than " + data.bars.length : data.half_life} writes. ` +
        `Ratio of the newest ${figure(data.ratio_newest)}, of the pair 64 writes ago ${figure(data.ratio_64)}. The state holds ${data.state.toLocaleString("en-US")} numbers.`;
    },
    (error) => (byId("streams-text").textContent = error.message),
  );
  listen(["rule", "decay", "strength"], update);
  await update();
}
