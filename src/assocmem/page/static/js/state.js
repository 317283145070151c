// The state of all controls, kept in the address behind '#', so that a case can be shared and 'back' works.
export const defaults = {
  count: 64, picture: "outer", letter: "A",
  hand: "outer-product", asked: 0, step: 0,
  store: "outer", m: 32, beta: 8, cosine: 1, width: 64, draw: 0, hidden: "",
  reference: 1024, longbeta: 8, longwidth: 64,
  needm: 1048576, needratio: 1, needcosine: 1, needwidth: 64,
  token: 6, rule: "delta-net", decay: 0.99, strength: 1,
};
export const state = { ...defaults };
const listeners = [];
let checks = {};

export function listen(keys, react) {
  listeners.push({ keys, react });
}

export function offer(choices) {
  checks = choices;
  read();
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
  const parts = Object.keys(defaults)
    .filter((key) => state[key] !== defaults[key])
    .map((key) => `${key}=${encodeURIComponent(state[key])}`);
  return parts.length ? `#${parts.join("&")}` : "#";
}

function write() {
  if (address() !== (location.hash || "#")) history.pushState(null, "", address());
}

// What the address says, as far as the controls offer it; anything else falls back to the default.
function read() {
  const given = new Map(location.hash.slice(1).split("&").map((part) => part.split("=").map(decoded)));
  const next = {};
  for (const [key, usual] of Object.entries(defaults)) {
    const text = given.get(key);
    const value = text === undefined ? usual : typeof usual === "number" ? Number(text) : text;
    const fits = checks[key] ? checks[key](value) : true;
    next[key] = fits ? value : usual;
  }
  const changed = Object.keys(defaults).filter((key) => state[key] !== next[key]);
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
