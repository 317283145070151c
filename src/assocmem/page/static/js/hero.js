import { announce, buttons, byId, figure, sliders, whole } from "./controls.js";
import { bytesOf, load, newest } from "./data.js";
import { ask, chosen, control, listen, set, state } from "./state.js";

const SIDE = 16;
const verdicts = [[2, "The picture has drowned."], [1, "It is going under."], [0.5, "It is getting hard to read."], [0, "The picture comes back."]];
const CELLS = 1024;
const dark = matchMedia("(prefers-color-scheme: dark)");
const still = matchMedia("(prefers-reduced-motion: reduce)");
const narrow = matchMedia("(max-width: 700px)");

function colour(name) {
  const text = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  return [1, 3, 5].map((i) => parseInt(text.slice(i, i + 2), 16));
}

// Ink (0..255) between the colour of paper and the colour of ink.
function paint(canvas, ink) {
  const [from, to] = [colour("--card"), colour("--ink")];
  const image = new ImageData(SIDE, SIDE);
  ink.forEach((x, i) => image.data.set([...from.map((a, c) => a + ((to[c] - a) * x) / 255), 255], 4 * i));
  canvas.getContext("2d").putImageData(image, 0, 0);
}

const inkOf = (bits, at) => Uint8Array.from({ length: SIDE * SIDE }, (_, i) => ((bits[32 * at + (i >> 3)] >> (7 - (i & 7))) & 1) * 255);

// All pictures of the memory, drawn once for each letter and colour scheme; the slider shows the first M of them.
function sheet(canvas, data) {
  const bits = bytesOf(data.bits);
  let drawn = { key: "" };
  const whole = (letter, columns) => {
    const first = data.first[letter];
    const order = [first, ...Array.from({ length: CELLS }, (_, i) => i).filter((i) => i !== first)];
    const full = new OffscreenCanvas(columns * SIDE, (CELLS / columns) * SIDE);
    const context = full.getContext("2d");
    const [ink, red] = [colour("--soft"), colour("--red")];
    order.forEach((at, place) => {
      const image = new ImageData(SIDE, SIDE);
      const [r, g, b] = place === 0 ? red : ink;
      inkOf(bits, at).forEach((x, i) => image.data.set([r, g, b, x], 4 * i));
      context.putImageData(image, (place % columns) * SIDE, Math.floor(place / columns) * SIDE);
    });
    return full;
  };
  return () => {
    const columns = narrow.matches ? 32 : 64;
    const key = `${state.letter} ${columns} ${dark.matches}`;
    if (drawn.key !== key) drawn = { key, full: whole(state.letter, columns) };
    if (canvas.width !== columns * SIDE) Object.assign(canvas, { width: columns * SIDE, height: (CELLS / columns) * SIDE });
    const context = canvas.getContext("2d");
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.globalAlpha = 0.13;
    context.drawImage(drawn.full, 0, 0);
    context.globalAlpha = 1;
    const lines = Math.floor(state.count / columns) * SIDE;
    const rest = (state.count % columns) * SIDE;
    if (lines) context.drawImage(drawn.full, 0, 0, canvas.width, lines, 0, 0, canvas.width, lines);
    if (rest) context.drawImage(drawn.full, 0, lines, rest, SIDE, 0, lines, rest, SIDE);
    const [r, g, b] = colour("--red");
    context.strokeStyle = `rgb(${r} ${g} ${b})`;
    context.strokeRect(0.5, 0.5, SIDE - 1, SIDE - 1);
  };
}

// Steps M through the slider's values; anything the reader touches takes over.
function player(counts) {
  let timer = null;
  const button = byId("hero-play");
  const stop = () => {
    clearInterval(timer);
    timer = null;
    button.textContent = "Fill it up";
  };
  const play = (from, to, wait) => {
    stop();
    const steps = counts.filter((m) => m >= from && m <= to);
    button.textContent = "Stop";
    timer = setInterval(() => {
      const last = steps.length <= 1;
      if (last) stop();
      set({ count: steps.shift() }, { commit: last });
    }, wait);
  };
  const playing = () => timer !== null;
  button.addEventListener("click", () => {
    if (playing()) return stop();
    if (still.matches) return set({ count: counts.at(-1) });
    play(1, counts.at(-1), 170);
  });
  for (const kind of ["pointerdown", "keydown"]) addEventListener(kind, ({ target }) => target !== button && playing() && stop(), true);
  return play;
}

export async function hero() {
  buttons("hero-stores", "picture");
  buttons("hero-letters", "letter");
  sliders("hero");
  const glyphs = await load("glyphs");
  const bits = bytesOf(glyphs.bits);
  const drawSheet = sheet(byId("hero-sheet"), glyphs);
  const update = newest(
    () => ask("pictures"),
    (data) => {
      const at = data.counts.indexOf(state.count);
      const ratio = data.ratio[at];
      paint(byId("hero-recalled"), bytesOf(data.frames[at]));
      paint(byId("hero-true"), inkOf(bits, glyphs.first[state.letter]));
      byId("hero-recalled").dataset.letter = state.letter;
      drawSheet();
      byId("hero-count").textContent = whole(state.count);
      const words = (verdicts.find(([least]) => ratio > least) ?? verdicts.at(-1))[1];
      const sentence = `${words} With the store “${chosen("picture").label}”, interference is ${figure(ratio)} times the signal.`;
      byId("hero-readout").textContent = sentence;
      announce(`${state.count} pictures. ${sentence}`);
    },
    (error) => (byId("hero-readout").textContent = error.message),
  );
  listen(["count", "picture", "letter"], update);
  for (const query of [dark, narrow]) query.addEventListener("change", update);
  const play = player(control("count").values);
  await update();
  if (!location.hash && !still.matches && document.visibilityState === "visible") play(1, state.count, 90);
}
