// One loader for three homes: the live server, the static site and the single file that holds everything inside.
const holder = document.getElementById("assocmem-data");
const inside = holder ? JSON.parse(holder.textContent) : null;
const kept = new Map();

export class Missing extends Error {}

export function load(path) {
  if (!kept.has(path)) {
    const answer = inside ? fromInside(path) : fromServer(path);
    answer.catch(() => kept.delete(path));
    kept.set(path, answer);
    if (kept.size > 400) kept.delete(kept.keys().next().value);
  }
  return kept.get(path);
}

async function fromInside(path) {
  if (!(path in inside.data)) throw new Missing(`This file does not hold ${path}.`);
  return inside.data[path];
}

async function fromServer(path) {
  const response = await fetch(`data/${path}.json`);
  if (!response.ok) throw new Missing(await reason(response));
  return response.json();
}

async function reason(response) {
  try {
    return (await response.json()).error;
  } catch {
    return `The server answered ${response.status}.`;
  }
}

export async function asset(path) {
  if (inside) return bytesOf(inside.assets[path]);
  const response = await fetch(path);
  if (!response.ok) throw new Missing(await reason(response));
  return new Uint8Array(await response.arrayBuffer());
}

export function bytesOf(base64) {
  return Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
}

// Wraps a function that answers later: only the answer to the newest question is passed on.
export function newest(ask, show, fail) {
  let number = 0;
  return async (...question) => {
    const mine = ++number;
    try {
      const answer = await ask(...question);
      if (mine === number) await show(answer, ...question);
    } catch (error) {
      if (mine === number) fail(error);
    }
  };
}
