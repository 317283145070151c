import { byId, element, figure } from "./controls.js";
import { load } from "./data.js";

export async function stores() {
  const data = await load("stores");
  const top = element("tr", {}, ...["store", "what it does", "recall", "capacity at 64", "numbers held"].map((t) => element("th", { scope: "col" }, t)));
  const rows = data.stores.map((s) => {
    const link = element("a", { href: `#card-${s.key}` }, s.key);
    link.addEventListener("click", (event) => {
      event.preventDefault();
      const card = byId(`card-${s.key}`);
      card.open = true;
      card.scrollIntoView();
      card.querySelector("summary").focus();
    });
    return element("tr", {}, element("th", { scope: "row" }, link), element("td", {}, s.summary), element("td", {}, s.equation), element("td", { class: "n" }, s.capacity === null ? "–" : figure(s.capacity)), element("td", {}, s.state));
  });
  byId("stores-table").append(element("thead", {}, top), element("tbody", {}, ...rows));
  for (const s of data.stores) {
    const list = element("dl");
    for (const [name, text] of Object.entries(s.card)) list.append(element("dt", {}, name), element("dd", {}, text));
    const code = element("pre", { tabindex: 0, "aria-label": `Code for ${s.key}` }, s.code);
    byId("cards").append(element("details", { id: `card-${s.key}` }, element("summary", {}, s.key), element("div", {}, list, code)));
  }
}
