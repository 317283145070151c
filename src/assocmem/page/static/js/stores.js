import { byId, element, figure, maths, whole } from "./controls.js";
import { load } from "./data.js";

function link(key) {
  const made = element("a", { href: `#card-${key}` }, key);
  made.addEventListener("click", (event) => {
    event.preventDefault();
    const card = byId(`card-${key}`);
    card.open = true;
    card.scrollIntoView();
    card.querySelector("summary").focus();
  });
  return made;
}

function row(s) {
  return element("tr", {},
    element("th", { scope: "row" }, link(s.key)),
    element("td", {}, maths(s.summary, "words")),
    element("td", {}, maths(s.equation)),
    element("td", { class: "n" }, figure(s.capacity)),
    element("td", { class: "n" }, whole(s.held)),
    element("td", {}, s.state));
}

function card(s) {
  const list = element("dl");
  for (const [name, text] of Object.entries(s.card)) {
    list.append(element("dt", {}, name), element("dd", {}, name === "equation" ? maths(text) : name === "rule" ? maths(text, "words") : text));
  }
  const code = element("pre", { tabindex: 0, role: "region", "aria-label": `Code of ${s.key}` }, s.code);
  return element("details", { id: `card-${s.key}` }, element("summary", {}, s.key), element("div", {}, list, code));
}

export async function stores() {
  const data = await load("stores");
  const heads = ["store", "what it does", "recall f(x)", "capacity", "numbers held", "size"];
  const top = element("tr", {}, ...heads.map((text, i) => element("th", { scope: "col", ...(i === 3 || i === 4 ? { class: "n" } : {}) }, text)));
  const group = (title, listed) => [element("tr", { class: "group" }, element("th", { colspan: 6, scope: "colgroup" }, title)), ...listed.map(row)];
  const of = (article) => data.stores.filter((s) => s.article === article);
  byId("stores-table").append(
    element("thead", {}, top),
    element("tbody", {}, ...group("From the article", of(true)), ...group("Neighbours", of(false))),
  );
  byId("stores-table").closest(".scroll").after(element("p", { class: "note" }, data.about));
  byId("cards").append(...data.stores.map(card));
}
