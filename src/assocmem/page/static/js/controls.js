// Sliders that step through a list of values, and groups of buttons that say which one is pressed.
import { set, state, listen } from "./state.js";

export const byId = (id) => document.getElementById(id);

export function figure(x, digits = 3) {
  if (x === null || x === undefined) return "–";
  if (x === 0) return "0";
  const size = Math.abs(x);
  if (size >= 1000) return Math.round(x).toLocaleString("en-US");
  if (size < 0.001) {
    const [digitsPart, power] = x.toExponential(2).split("e");
    return `${digitsPart} × 10${[...power.replace("+", "")].map((sign) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(sign)]).join("")}`;
  }
  return Number(x.toPrecision(digits)).toString();
}

export function slider(id, key, values, { say = String, show = say } = {}) {
  const input = byId(id);
  const output = byId(`${id}-out`);
  Object.assign(input, { min: 0, max: values.length - 1, step: 1 });
  let waiting = false;
  const paint = () => {
    input.value = values.indexOf(state[key]);
    input.setAttribute("aria-valuetext", say(state[key]));
    if (output) output.textContent = show(state[key]);
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

export function buttons(id, key, choices, { colours = {} } = {}) {
  const box = byId(id);
  const made = choices.map(({ id: value, label, title }) => {
    const button = document.createElement("button");
    button.type = "button";
    if (colours[value]) {
      const dot = document.createElement("span");
      dot.className = "swatch";
      dot.style.background = colours[value];
      button.append(dot);
    }
    button.append(label);
    if (title) button.title = title;
    button.dataset.value = value;
    button.addEventListener("click", () => set({ [key]: value }));
    box.append(button);
    return button;
  });
  const paint = () => made.forEach((b, i) => b.setAttribute("aria-pressed", String(choices[i].id === state[key])));
  listen([key], paint);
  paint();
  return made;
}

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

export function numbers(rows, mark = null) {
  const body = element("tbody");
  rows.forEach((row, i) => {
    const line = element("tr", i === mark ? { class: "target" } : {});
    row.forEach((x) => line.append(element("td", {}, figure(x))));
    body.append(line);
  });
  return element("table", { class: "numbers" }, body);
}

export function later(wait, act) {
  let timer;
  return (...words) => {
    clearTimeout(timer);
    timer = setTimeout(() => act(...words), wait);
  };
}
