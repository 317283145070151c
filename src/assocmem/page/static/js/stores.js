import { byId, element, figure, maths, whole } from "./controls.js";
import { load } from "./data.js";

const HEADS = ["store", "what it does", "recall f(x)", "capacity", "numbers held", "size"];

function card(s) {
  const list = element("dl");
  for (const [name, text] of Object.entries(s.card)) {
    const said = name === "equation" ? maths(text) : name === "rule" ? maths(text, "words") : text;
    const link = name === "source" && s.paper ? element("a", { href: s.paper, rel: "noreferrer" }, text) : said;
    list.append(element("dt", {}, name), element("dd", {}, link));
  }
  const code = element("pre", { tabindex: 0, role: "region", "aria-label": `Code with ${s.key}` }, s.code);
  return element("div", { class: "card" }, list, code);
}

// A store's line, and under it the line of its card, which is made when it is first opened.
function lines(s) {
  const id = `card-${s.key}`;
  const button = element("button", { type: "button", class: "link", "aria-expanded": "false", "aria-controls": id }, s.key);
  const cell = (i, inside, more = {}) => element("td", { "data-head": HEADS[i], ...more }, inside);
  const line = element("tr", {}, element("th", { scope: "row" }, button), cell(1, maths(s.summary, "words")), cell(2, maths(s.equation)),
    cell(3, figure(s.capacity), { class: "n" }), cell(4, whole(s.held), { class: "n" }), cell(5, s.state));
  const under = element("tr", { id, class: "under" }, element("td", { colspan: HEADS.length }));
  under.hidden = true;
  button.addEventListener("click", () => {
    if (!under.firstChild.firstChild) under.firstChild.append(card(s));
    under.hidden = !under.hidden;
    button.setAttribute("aria-expanded", String(!under.hidden));
  });
  return [line, under];
}

export async function stores() {
  const data = await load("stores");
  const top = element("tr", {}, ...HEADS.map((text, i) => element("th", { scope: "col", ...(i === 3 || i === 4 ? { class: "n" } : {}) }, text)));
  const group = (title, listed) => [element("tr", { class: "group" }, element("th", { colspan: HEADS.length, scope: "colgroup" }, title)), ...listed.flatMap(lines)];
  const of = (article) => data.stores.filter((s) => s.article === article);
  byId("stores-table").append(element("thead", {}, top), element("tbody", {}, ...group("In the sections above", of(true)), ...group("Neighbours", of(false))));
  byId("stores-about").textContent = data.about;
}
