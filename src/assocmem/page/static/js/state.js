// The section and the state of all controls, kept in the address behind '#' ("#bars&m=64"), so that a case can be shared
// and 'back' works. What there is to choose, what is usual and where an answer lies comes from the page's declaration.
import { load } from "./data.js";

export const state = {};
export let declared = { controls: {}, endpoints: {}, sections: {}, charts: {} };
const listeners = [];
const TOGETHER = 2000;
let last = { key: "", time: 0 };

export const control = (name) => declared.controls[name];
export const chosen = (name) => control(name).options.find(({ id }) => id === state[name]);

export function declare(offer) {
  declared = offer;
  read();
  history.replaceState({}, "");
}

// The path of an endpoint's answer in this state: a part without which its first option does is left out, or at rest.
export function pathOf(endpoint, changes = {}) {
  const asked = { ...state, ...changes };
  const parts = declared.endpoints[endpoint];
  const first = control(parts[0].control).options.find(({ id }) => id === asked[parts[0].control]);
  const words = parts.map(({ control: name, needs, rest, index }) => {
    if (needs && !first[needs]) return rest;
    return index ? control(name).values.indexOf(asked[name]) : asked[name];
  });
  return [endpoint, ...words.filter((word) => word !== null)].join("/");
}

export const ask = (endpoint) => load(pathOf(endpoint));

export function listen(keys, react) {
  listeners.push({ keys, react });
}

// together: changes of one name that follow each other soon, a drag or presses of an arrow key, are one step back.
export function set(changes, { commit = true, together = "" } = {}) {
  const changed = Object.keys(changes).filter((key) => state[key] !== changes[key]);
  Object.assign(state, changes);
  if (changed.length) tell(changed);
  if (commit) write(inView(), together);
}

function tell(changed) {
  for (const { keys, react } of listeners) if (keys.some((key) => changed.includes(key))) react();
}

const sections = () => [...document.querySelectorAll("main > section")];

// The section that is read now: the last one that begins in the upper part of the window; "" for the first.
export function inView() {
  const begun = sections().filter((one) => one.getBoundingClientRect().top < innerHeight * 0.4);
  return begun.length > 1 ? begun.at(-1).id : "";
}

function address(section) {
  const parts = Object.entries(declared.controls)
    .filter(([key, { usual }]) => state[key] !== usual)
    .map(([key]) => `${key}=${encodeURIComponent(state[key])}`);
  return `#${[section, ...parts].filter(Boolean).join("&")}`;
}

function write(section, together = "") {
  const now = performance.now();
  const same = together && together === last.key && now - last.time < TOGETHER;
  last = { key: together, time: now };
  if (address(section) !== (location.hash || "#")) history[same ? "replaceState" : "pushState"]({}, "", address(section));
}

// Shows a section and names it in the address: a step of its own, which changes no setting.
export function visit(section) {
  write(section);
  show(section);
}

// The address of exactly what is seen.
export function named() {
  history.replaceState({}, "", address(inView()));
  return location.href;
}

export function show(section) {
  const target = document.getElementById(section || "hero");
  target.scrollIntoView();
  target.setAttribute("tabindex", "-1");
  target.focus({ preventScroll: true });
}

export const given = () => sections().find(({ id }) => id === location.hash.slice(1).split("&")[0])?.id ?? "";

const fits = ({ values, many, pattern }, value) =>
  pattern ? value === "" || new RegExp(`^${pattern}$`).test(value) : many ? value === "" || value.split(".").every((id) => values.includes(id)) : values.includes(value);

// What the address says, as far as the controls offer it; anything else falls back to what is usual.
function read() {
  const given = new Map(location.hash.slice(1).split("&").map((part) => part.split("=").map(decoded)));
  const next = {};
  for (const [key, one] of Object.entries(declared.controls)) {
    const text = given.get(key);
    const value = text === undefined ? one.usual : typeof one.usual === "number" ? Number(text) : text;
    next[key] = fits(one, value) ? value : one.usual;
  }
  const changed = Object.keys(next).filter((key) => state[key] !== next[key]);
  Object.assign(state, next);
  return changed;
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return "";
  }
}

// An address that was typed or followed carries no mark of ours, and leads to its section; 'back' leaves the page where it is.
function reread({ state: mark }) {
  const changed = read();
  last.key = "";
  if (changed.length) tell(changed);
  if (!mark) {
    history.replaceState({}, "");
    if (given()) show(given());
  }
}
addEventListener("popstate", reread);
