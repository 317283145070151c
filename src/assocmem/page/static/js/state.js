// The state of all controls, kept in the address behind '#', so that a case can be shared and 'back' works. What there
// is to choose, what is usual and where an answer lies comes from the page's declaration.
import { load } from "./data.js";

export const state = {};
export let declared = { controls: {}, endpoints: {}, sections: {}, charts: {} };
const listeners = [];

export const control = (name) => declared.controls[name];
export const chosen = (name) => control(name).options.find(({ id }) => id === state[name]);

export function declare(offer) {
  declared = offer;
  read();
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

export function set(changes, { commit = true } = {}) {
  const changed = Object.keys(changes).filter((key) => state[key] !== changes[key]);
  Object.assign(state, changes);
  if (changed.length) tell(changed);
  if (commit) write();
}

function tell(changed) {
  for (const { keys, react } of listeners) if (keys.some((key) => changed.includes(key))) react();
}

function address() {
  const parts = Object.entries(declared.controls)
    .filter(([key, { usual }]) => state[key] !== usual)
    .map(([key]) => `${key}=${encodeURIComponent(state[key])}`);
  return parts.length ? `#${parts.join("&")}` : "#";
}

function write() {
  if (address() !== (location.hash || "#")) history.pushState(null, "", address());
}

const fits = ({ values, many }, value) =>
  many ? value === "" || value.split(".").every((id) => values.includes(id)) : values.includes(value);

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

function reread() {
  const changed = read();
  if (changed.length) tell(changed);
}
addEventListener("popstate", reread);
addEventListener("hashchange", reread);
