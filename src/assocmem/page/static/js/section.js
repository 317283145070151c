// A section that is a chart with controls, made from its declaration alone.
import { chart } from "./chart.js";
import { announce, buttons, byId, element, enable, sliders } from "./controls.js";
import { newest } from "./data.js";
import { ask, chosen, control, declared, listen } from "./state.js";

// Makes a section of its declaration, in its place among the others.
export function place(name) {
  const { title, text, link, buttons: groups, place: turn } = declared.sections[name];
  const boxes = groups.map((group) =>
    element("div", { class: "buttons", id: `${name}-${group}`, role: "group", "aria-label": control(group).label }));
  const view = element("div", { id: `${name}-chart`, class: "chart", role: "img", "aria-labelledby": `${name}-text`, style: { minHeight: `${declared.charts[name].height}px` } });
  const section = element("section", { id: name, "aria-labelledby": `${name}-title` },
    element("h2", { id: `${name}-title` }, title), element("p", {}, text), ...boxes,
    element("div", { class: "panel" },
      element("div", { class: "controls", id: `${name}-controls` }, element("p", { class: "note", id: `${name}-note` })),
      element("div", { class: "picture" }, element("div", { class: "stage" }, view), element("p", { class: "note", id: `${name}-text` }))));
  const later = [...document.querySelectorAll("main > section")].find(({ id }) => declared.sections[id].place > turn);
  later.before(section);
  document.querySelector(`header nav a[href='#${later.id}']`).before(element("a", { href: `#${name}` }, link));
  groups.forEach((group) => buttons(`${name}-${group}`, group));
  sliders(name);
}

export async function section(name) {
  const own = declared.sections[name];
  const [endpoint] = own.endpoints;
  const parts = declared.endpoints[endpoint];
  const picture = await chart(byId(`${name}-chart`), declared.charts[name]);
  const update = newest(
    () => ask(endpoint),
    async (data) => {
      const first = chosen(parts[0].control);
      for (const part of parts.filter(({ needs }) => needs)) enable(byId(part.control), first[part.needs], `${first.label} ${part.without}.`);
      byId(`${name}-note`).textContent = data.note ?? "";
      byId(`${name}-text`).textContent = data.text;
      announce(data.said ?? data.text);
      await picture.show(data.rows, data.signals ?? {});
    },
    (error) => (byId(`${name}-text`).textContent = error.message),
  );
  listen(parts.map((part) => part.control), update);
  await update();
}
