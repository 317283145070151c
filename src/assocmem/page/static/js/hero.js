import { announce, buttons, byId, element, figure, sliders, verdict, whole } from "./controls.js";
import { bytesOf, load, newest } from "./data.js";
import { drawing, inkOfText } from "./drawing.js";
import { chosen, control, declared, listen, pathOf, set, state } from "./state.js";

const SIDE = 16;
const CELLS = 1024;
const dark = matchMedia("(prefers-color-scheme: dark)");
const still = matchMedia("(prefers-reduced-motion: reduce)");
const narrow = matchMedia("(max-width: 700px)");

function colour(name) {
  const text = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  return [1, 3, 5].map((i) => parseInt(text.slice(i, i + 2), 16));
}

// Ink (0..1) between the colour of paper and the colour of ink.
function paint(canvas, ink) {
  const [from, to] = [colour("--card"), colour("--ink")];
  const image = new ImageData(SIDE, SIDE);
  ink.forEach((x, i) => image.data.set([...from.map((a, c) => a + (to[c] - a) * Math.min(1, Math.max(0, x))), 255], 4 * i));
  canvas.getContext("2d").putImageData(image, 0, 0);
}

// The pictures by memory, the reader's own before the others: their ink, and the mean of all that is taken off to store.
function memory({ bits, chars }) {
  const bytes = bytesOf(bits);
  const stored = Array.from({ length: CELLS }, (_, at) =>
    Float32Array.from({ length: SIDE * SIDE }, (_, i) => (bytes[32 * at + (i >> 3)] >> (7 - (i & 7))) & 1));
  const mean = new Float32Array(SIDE * SIDE);
  for (const ink of stored) ink.forEach((x, i) => (mean[i] += x / CELLS));
  const own = () => (state.own ? [inkOfText(state.own)] : []);
  return {
    pictures: () => [...own(), ...stored].slice(0, CELLS),
    name: (at) => (state.own ? ["your picture", ...chars] : [...chars])[at],
    // What comes back: every picture times its weight, added up; the weights are the store's.
    recalled(weights, m) {
      const pictures = this.pictures();
      const sum = Float32Array.from(mean);
      for (let at = 0; at < m; at++) {
        const [weight, ink] = [weights[at], pictures[at]];
        for (let i = 0; i < sum.length; i++) sum[i] += weight * (ink[i] - mean[i]);
      }
      return sum;
    },
  };
}

// The wall of all pictures, drawn once for each memory and colour scheme; the first M of them are in it.
function wall(canvas, held) {
  let drawn = { key: "" };
  const columns = () => (narrow.matches ? 32 : 64);
  const placed = (at) => [(at % columns()) * SIDE, Math.floor(at / columns()) * SIDE];
  const whole = () => {
    const full = new OffscreenCanvas(columns() * SIDE, (CELLS / columns()) * SIDE);
    const [r, g, b] = colour("--soft");
    held.pictures().forEach((ink, at) => {
      const image = new ImageData(SIDE, SIDE);
      ink.forEach((x, i) => image.data.set([r, g, b, 255 * x], 4 * i));
      full.getContext("2d").putImageData(image, ...placed(at));
    });
    return full;
  };
  canvas.addEventListener("click", ({ offsetX, offsetY }) => {
    const cell = canvas.clientWidth / columns();
    const top = parseFloat(getComputedStyle(canvas).paddingTop);
    const at = Math.floor((offsetY - top) / cell) * columns() + Math.floor(offsetX / cell);
    if (at < control("picked").values.length) set({ picked: Math.max(0, at) + 1 });
  });
  return () => {
    const key = `${state.own} ${columns()} ${dark.matches}`;
    if (drawn.key !== key) drawn = { key, full: whole() };
    const width = columns() * SIDE;
    if (canvas.width !== width) Object.assign(canvas, { width, height: (CELLS / columns()) * SIDE });
    const context = canvas.getContext("2d");
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.globalAlpha = 0.13;
    context.drawImage(drawn.full, 0, 0);
    context.globalAlpha = 1;
    const lines = Math.floor(state.count / columns()) * SIDE;
    const rest = (state.count % columns()) * SIDE;
    if (lines) context.drawImage(drawn.full, 0, 0, width, lines, 0, 0, width, lines);
    if (rest) context.drawImage(drawn.full, 0, lines, rest, SIDE, 0, lines, rest, SIDE);
    const [r, g, b] = colour("--red");
    const [x, y] = placed(state.picked - 1);
    context.strokeStyle = `rgb(${r} ${g} ${b})`;
    context.lineWidth = 2;
    context.strokeRect(x + 1, y + 1, SIDE - 2, SIDE - 2);
  };
}

// The story as steps {wait, set, say}: what is filled up becomes a step for each number of the slider.
function stepsOf(story) {
  let from = 1;
  return story.flatMap(({ fill, seconds, ...step }) => {
    if (!fill) return [step];
    const counts = control("count").values.filter((m) => m > from && m <= fill);
    from = fill;
    return counts.map((count) => ({ set: { count }, wait: seconds / counts.length }));
  });
}

// Plays the story; anything the reader touches takes over.
function player(answer) {
  const { story } = declared.sections.hero.words;
  let timer = null;
  const [button, words] = [byId("hero-play"), byId("hero-story")];
  const stop = () => {
    clearTimeout(timer);
    timer = null;
    button.textContent = "Play the story";
  };
  const step = ([now, ...rest]) => {
    if (now.say) words.textContent = now.say;
    set(now.set, { commit: false });
    if (now.answer) answer();
    if (!rest.length) return stop();
    timer = setTimeout(() => step(rest), 1000 * now.wait);
  };
  const end = () => {
    stop();
    words.textContent = story.at(-1).say;
    set(Object.assign({}, ...story.map((one) => one.set)), { commit: false });
    answer();
  };
  const play = () => {
    stop();
    if (still.matches) return end();
    button.textContent = "Skip";
    step(stepsOf(story).map((one, i) => (i ? one : { ...one, set: { picked: 1, beside: "", ...one.set } })));
  };
  button.addEventListener("click", () => (timer === null ? play() : end()));
  const taken = ({ target }) => timer !== null && target !== button && !byId("hero-guess").contains(target) && stop();
  for (const kind of ["pointerdown", "keydown"]) addEventListener(kind, taken, true);
  return play;
}

// A guess before it plays; the answer is the first count of the outer product at which the others outweigh A.
function guessing(first) {
  const { guesses } = declared.sections.hero.words;
  const box = byId("hero-guess");
  let guess = null;
  let play = () => null;
  const answer = async () => {
    if (guess === null) return;
    const { counts, ratio } = await load(first);
    const [larger, twice] = [1, 2].map((limit) => whole(counts[ratio.findIndex((x) => x > limit)]));
    byId("hero-answer").textContent = `You guessed ${whole(guess)}. Interference is larger than the signal from ${larger} pictures on, twice as large from ${twice} on.`;
  };
  const made = guesses.map((number) => {
    const button = element("button", { type: "button", "data-value": number, "aria-pressed": "false" }, whole(number));
    button.addEventListener("click", () => {
      guess = number;
      made.forEach((one) => one.setAttribute("aria-pressed", String(one === button)));
      byId("hero-answer").textContent = "";
      play();
    });
    return button;
  });
  box.append(...made);
  return { answer, then: (next) => (play = next), made: () => guess !== null };
}

// By itself, once the reader had time to guess and touched nothing.
function begin(play, guess) {
  if (location.hash || still.matches || document.visibilityState !== "visible") return;
  const timer = setTimeout(() => guess.made() || scrollY > innerHeight / 2 || play(), 5000);
  for (const kind of ["pointerdown", "keydown"]) addEventListener(kind, () => clearTimeout(timer), { once: true, capture: true });
}

const stored = ({ counts }) => counts.indexOf(state.count);

function sides(held) {
  return (id, data, m) => {
    const at = stored(data);
    if (at < 0) return paint(byId(id), new Float32Array(SIDE * SIDE));
    paint(byId(id), held.recalled(data.row ?? data.rows[at], m));
  };
}

export async function hero() {
  buttons("hero-stores", "picture", { about: "hero-about" });
  sliders("hero");
  const held = memory(await load("glyphs"));
  const drawWall = wall(byId("hero-sheet"), held);
  const side = sides(held);
  const { letters } = declared.sections.hero.words;
  const asks = letters.map((letter, i) => {
    const button = element("button", { type: "button", "data-value": letter, title: `Ask for ${letter}` }, letter);
    button.addEventListener("click", () => set({ picked: i + 1 + (state.own ? 1 : 0) }));
    byId("hero-letters").append(button);
    return button;
  });
  const choice = byId("hero-beside");
  choice.append(...control("beside").options.map(({ id, label }) => element("option", { value: id }, label)));
  choice.addEventListener("change", () => set({ beside: choice.value }));
  drawing(held);

  const update = newest(
    () => Promise.all([load(pathOf("pictures")), state.beside ? load(pathOf("pictures", { picture: state.beside })) : null]),
    ([data, other]) => {
      side("hero-recalled", data, state.count);
      if (other) side("hero-second", other, state.count);
      byId("hero-pair").hidden = !other;
      byId("hero-first-name").textContent = other ? chosen("picture").label : "what comes back";
      byId("hero-second-name").textContent = chosen("beside").label;
      choice.value = state.beside;
      paint(byId("hero-true"), held.pictures()[state.picked - 1]);
      byId("hero-true").setAttribute("aria-label", `The picture as it was stored: ${held.name(state.picked - 1)}`);
      byId("hero-recalled").dataset.picked = state.picked;
      asks.forEach((b, i) => b.setAttribute("aria-pressed", String(i + 1 + (state.own ? 1 : 0) === state.picked)));
      drawWall();
      byId("hero-count").textContent = whole(state.count);
      const says = (store, { ratio, ...found }) => {
        const x = ratio[stored(found)];
        return `${verdict(x).picture} With the ${store.label} store, interference is ${figure(x)} times the signal.`;
      };
      const sentence = stored(data) < 0
        ? `Picture ${whole(state.picked)} is not stored yet: there are ${whole(state.count)} in the memory.`
        : [`${says(chosen("picture"), data)}`, ...(other ? [`Beside it: ${says(chosen("beside"), other)}`] : [])].join(" ");
      byId("hero-readout").textContent = sentence;
      announce(`${state.count} pictures. ${sentence}`);
    },
    (error) => (byId("hero-readout").textContent = error.message),
  );
  listen(["count", "picture", "picked", "beside", "own"], update);
  for (const query of [dark, narrow]) query.addEventListener("change", update);
  const guess = guessing(pathOf("pictures", { picture: "outer", picked: 1 }));
  const play = player(guess.answer);
  guess.then(play);
  await update();
  begin(play, guess);
}

// The letter at four ratios, beside the words on why 1 is the limit.
export async function limits() {
  const held = memory(await load("glyphs"));
  const data = await load(pathOf("pictures", { picture: "outer", picked: 1 }));
  const draw = () => {
    byId("limit-pictures").replaceChildren(...[0.25, 0.5, 1, 2].map((wanted) => {
      const far = (x) => Math.abs(Math.log(x / wanted));
      const at = data.ratio.reduce((best, x, i) => (x > 0 && far(x) < far(data.ratio[best] || 1e-9) ? i : best), 1);
      const ratio = data.ratio[at];
      const canvas = element("canvas", { width: SIDE, height: SIDE, role: "img", "aria-label": `${held.name(0)} at ratio ${figure(ratio)}` });
      paint(canvas, held.recalled(data.row, data.counts[at]));
      return element("div", {}, canvas, element("span", {}, `ratio ${figure(ratio)}, ${data.counts[at]} pictures: ${verdict(ratio).words}`));
    }));
  };
  draw();
  listen(["own"], draw);
  dark.addEventListener("change", draw);
}
