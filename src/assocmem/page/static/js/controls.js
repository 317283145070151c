// Sliders that step through a list of values, and groups of buttons that say which one is pressed.
import { listen, set, state } from "./state.js";

export const byId = (id) => document.getElementById(id);

const RAISED = "⁻⁰¹²³⁴⁵⁶⁷⁸⁹";

export function figure(x, digits = 3) {
  if (x === null || x === undefined) return "–";
  if (x === 0) return "0";
  const size = Math.abs(x);
  if (size >= 1e9) return power(x);
  if (size >= 1000) return Math.round(x).toLocaleString("en-US");
  return size < 0.001 ? power(x) : Number(x.toPrecision(digits)).toString();
}

function power(x) {
  const [digits, exponent] = x.toExponential(2).split("e");
  return `${digits} × 10${[...exponent.replace("+", "")].map((sign) => RAISED["-0123456789".indexOf(sign)]).join("")}`;
}

export const whole = (n) => n.toLocaleString("en-US");

// What changed, in one sentence, for those who listen: said once the dragging rests.
const spoken = later(500, (text) => (byId("announcer").textContent = text));
let quiet = true;
export const announce = (text) => quiet || spoken(text);
export const listenersReady = () => (quiet = false);

export function slider(id, key, values, { say = String, show = say, note = "" } = {}) {
  const input = byId(id);
  const output = byId(`${id}-out`);
  Object.assign(input, { min: 0, max: values.length - 1, step: 1 });
  if (note) {
    const words = element("p", { class: "note", id: `${id}-note` }, note);
    input.after(words);
    input.setAttribute("aria-describedby", words.id);
    input.title = note;
  }
  let waiting = false;
  const paint = () => {
    input.value = values.indexOf(state[key]);
    input.setAttribute("aria-valuetext", say(state[key]));
    output.textContent = show(state[key]);
  };
  input.addEventListener("input", () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      set({ [key]: values[Number(input.value)] }, { commit: false });
    });
  });
  input.addEventListener("change", () => set({ [key]: values[Number(input.value)] }));
  listen([key], paint);
  paint();
  return input;
}

// A slider that has no part in what is shown says why.
export function enable(input, on, reason) {
  input.disabled = !on;
  input.title = on ? "" : reason;
  input.closest(".control").classList.toggle("off", !on);
}

export function buttons(id, key, choices, { colours = {} } = {}) {
  const box = byId(id);
  const made = choices.map(({ id: value, label, title }) => {
    const button = element("button", { type: "button", "data-value": value });
    if (colours[value]) button.append(swatch(colours[value]));
    button.append(label);
    if (title) button.title = title;
    button.addEventListener("click", () => set({ [key]: value }));
    box.append(button);
    return button;
  });
  const paint = () => made.forEach((b, i) => b.setAttribute("aria-pressed", String(choices[i].id === state[key])));
  listen([key], paint);
  paint();
  return made;
}

export const swatch = (colour) => element("span", { class: "swatch", style: { background: colour } });

export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "class") made.className = value;
    else if (name === "style") Object.assign(made.style, value);
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

// A table of text: heads, then rows of cells; a cell may be a node, and a class "n" sets a column flush right.
export function table(heads, rows, numeric = []) {
  const kind = (i) => (numeric.includes(i) ? { class: "n" } : {});
  const top = element("tr", {}, ...heads.map((text, i) => element("th", { scope: "col", ...kind(i) }, text)));
  const body = rows.map((row) =>
    element("tr", {}, element("th", { scope: "row" }, row[0]), ...row.slice(1).map((cell, i) => element("td", kind(i + 1), cell))),
  );
  return [element("thead", {}, top), element("tbody", {}, ...body)];
}

// A grid of numbers as { rows } with, where it has them, labels of its lines, columns, a line to mark, and a role.
export function numbers({ rows, labels, columns, mark, role }) {
  const body = element("tbody");
  rows.forEach((row, i) => {
    const line = element("tr");
    if (i === mark) line.classList.add("target");
    if (labels) line.append(element("th", { scope: "row" }, labels[i]));
    if (labels?.[i] === "sum") line.classList.add("sum");
    row.forEach((x) => line.append(element("td", {}, figure(x))));
    body.append(line);
  });
  const made = element("table", { class: `numbers ${role ?? ""}` });
  if (columns) {
    const heads = columns.map((text) => element("th", { scope: "col" }, text));
    if (labels) heads.unshift(element("td"));
    made.append(element("thead", {}, element("tr", {}, ...heads)));
  }
  made.append(body);
  return made;
}

// Acts at once while the element is on the screen, else when the dragging rests: what nobody sees takes no time.
export function following(element, act, wait = 120) {
  let seen = false;
  const note = (entries) => (seen = entries.at(-1).intersectionRatio > 0.25);
  new IntersectionObserver(note, { threshold: 0.25 }).observe(element);
  const rested = later(wait, act);
  return () => (seen ? act() : rested());
}

export function later(wait, act) {
  let timer;
  return (...words) => {
    clearTimeout(timer);
    timer = setTimeout(() => act(...words), wait);
  };
}
