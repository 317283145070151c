import { clean } from "./bars.js";
import { byId, element, leading } from "./controls.js";
import { load } from "./data.js";

export async function short() {
  const sentences = await load("short");
  const first = { bars: "m", contexts: "longm" };
  byId("short-list").append(...sentences.map(({ text, set, to, button }) =>
    element("li", {}, element("p", {}, text), leading(button, { ...(to === "bars" ? clean() : {}), ...set }, to, first[to]))));
}
