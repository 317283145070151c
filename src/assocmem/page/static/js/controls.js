// Sliders that step through a list of values, and groups of buttons that say which one is pressed: as declared.
import { chosen, control, declared, listen, set, state, visit } from "./state.js";

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

// What a ratio is called, in the words of all sections.
export const verdict = (ratio) => declared.verdicts.find(({ above }) => ratio > above);

export const whole = (n) => n.toLocaleString("en-US");

// What changed, in one sentence, for those who listen: said once the dragging rests.
const spoken = later(500, (text) => (byId("announcer").textContent = text));
let quiet = true;
export const announce = (text) => quiet || spoken(text);
export const listenersReady = () => (quiet = false);

// The sliders of a section, before whatever its box of controls holds already.
export function sliders(section) {
  byId(`${section}-controls`).prepend(...declared.sections[section].sliders.map(slider));
}

function slider(name) {
  const { values, label, say, special } = control(name);
  const input = element("input", { id: name, type: "range", min: 0, max: values.length - 1, step: 1 });
  const output = element("span", { id: `${name}-out`, class: "out" });
  const box = element("div", { class: "control" }, element("label", { for: name }, maths(label, "label")), output, input);
  let waiting = false;
  const paint = () => {
    const [shown, said] = special[state[name]] ?? [whole(state[name]), say.replace("{}", state[name])];
    input.value = values.indexOf(state[name]);
    input.setAttribute("aria-valuetext", said);
    output.textContent = shown;
  };
  input.addEventListener("input", () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      set({ [name]: values[Number(input.value)] }, { commit: false });
    });
  });
  input.addEventListener("change", () => set({ [name]: values[Number(input.value)] }, { together: name }));
  listen([name], paint);
  paint();
  return box;
}

// A button that shows what a sentence says: settings, and the section where they are seen.
export function leading(label, settings, section, focus) {
  const button = element("button", { type: "button" }, label);
  button.addEventListener("click", () => {
    set(settings);
    visit(section);
    byId(focus)?.focus({ preventScroll: true });
  });
  return button;
}

// A slider that has no part in what is shown says why.
export function enable(input, on, reason) {
  input.disabled = !on;
  input.title = on ? "" : reason;
  input.closest(".control").classList.toggle("off", !on);
}

// about: where the line of the choice stands, in one sentence.
export function buttons(id, name, { swatches = false, about = "" } = {}) {
  const { options } = control(name);
  const made = options.map(({ id: value, label, about: line, colour }) => {
    const button = element("button", { type: "button", "data-value": value });
    if (swatches) button.append(swatch(colour));
    button.append(label);
    if (line) button.title = line;
    button.addEventListener("click", () => set({ [name]: value }));
    byId(id).append(button);
    return button;
  });
  const paint = () => {
    made.forEach((b, i) => b.setAttribute("aria-pressed", String(options[i].id === state[name])));
    if (about) byId(about).textContent = `${chosen(name).label}: ${chosen(name).about}`;
  };
  listen([name], paint);
  paint();
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

// An equation as the library writes it ("sum_i v_i k_i^T") with its signs, sub- and superscripts.
const SIGNS = [[/<-/g, "←"], [/\bsum_/g, "Σ_"], [/\bbeta\b/g, "β"], [/\bphi\b/g, "φ"], [/\bPhi\b/g, "Φ"], [/\bsigma\b/g, "σ"], [/\balpha\b/g, "α"], [/\beta\b/g, "η"], [/\btheta\b/g, "θ"], [/\bsqrt\b/g, "√"], [/ \* /g, " ∘ "], [/ - /g, " − "], [/<=/g, "≤"]];

export function maths(text, kind = "maths") {
  const plain = SIGNS.reduce((words, [sign, better]) => words.replace(sign, better), text);
  const line = element("span", { class: kind });
  for (const part of plain.split(/([_^](?:\{[^}]*\}|\([^)]*\)|-?[\p{L}\p{N}]+))/u)) {
    if (!/^[_^]/.test(part)) line.append(part);
    else line.append(element(part[0] === "_" ? "sub" : "sup", {}, part.slice(1).replace(/^[{(]|[})]$/g, "")));
  }
  return line;
}

// A table of text: heads, then rows of cells; a cell may be a node, and a class "n" sets a column flush right.
export function table(heads, rows, numeric = []) {
  const kind = (i) => (numeric.includes(i) ? { class: "n" } : {});
  const top = element("tr", {}, ...heads.map((text, i) => element("th", { scope: "col", ...kind(i) }, text)));
  const body = rows.map((row) =>
    element("tr", {}, element("th", { scope: "row" }, row[0]), ...row.slice(1).map((cell, i) => element("td", { ...kind(i + 1), "data-head": heads[i + 1] }, cell))),
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
