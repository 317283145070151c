// One loader for three homes: the live server, the static site and the single file that holds everything inside.
const holder = document.getElementById("assocmem-data");
const inside = holder ? unpacked(holder.textContent) : null;
const kept = new Map();

// What the single file holds: JSON, compressed with gzip, in base64.
async function unpacked(base64) {
  const stream = new Blob([bytesOf(base64)]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}

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
  const { data } = await inside;
  if (!(path in data)) throw new Missing(`This file does not hold ${path}.`);
  return data[path];
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
  if (inside) return bytesOf((await inside).assets[path]);
  const response = await fetch(path);
  if (!response.ok) throw new Missing(await reason(response));
  return new Uint8Array(await response.arrayBuffer());
}

export function bytesOf(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
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
