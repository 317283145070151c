// A picture of the reader's own, 16 x 16: drawn by pointer or typed as a letter; kept in the address as 43 letters.
import { byId } from "./controls.js";
import { bytesOf } from "./data.js";
import { listen, set, state } from "./state.js";

const SIDE = 16;
const plain = (text) => text.replaceAll("-", "+").replaceAll("_", "/");

export function inkOfText(text) {
  const bytes = bytesOf(`${plain(text)}=`);
  return Float32Array.from({ length: SIDE * SIDE }, (_, i) => (bytes[i >> 3] >> (7 - (i & 7))) & 1);
}

function textOf(ink) {
  const bytes = new Uint8Array(32);
  ink.forEach((x, i) => x && (bytes[i >> 3] |= 128 >> (i & 7)));
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replace("=", "");
}

function typed(letter) {
  const context = new OffscreenCanvas(SIDE, SIDE).getContext("2d", { willReadFrequently: true });
  Object.assign(context, { font: "bold 15px sans-serif", textAlign: "center", textBaseline: "middle" });
  context.fillText(letter, SIDE / 2, SIDE / 2 + 1);
  const { data } = context.getImageData(0, 0, SIDE, SIDE);
  return Float32Array.from({ length: SIDE * SIDE }, (_, i) => Number(data[4 * i + 3] > 110));
}

export function drawing() {
  const [canvas, letter] = [byId("own-canvas"), byId("own-letter")];
  const context = canvas.getContext("2d");
  let ink = new Float32Array(SIDE * SIDE);
  const paint = () => {
    context.clearRect(0, 0, SIDE, SIDE);
    context.fillStyle = getComputedStyle(canvas).color;
    ink.forEach((x, i) => x && context.fillRect(i % SIDE, Math.floor(i / SIDE), 1, 1));
  };
  let pen = null;
  const mark = ({ offsetX, offsetY }) => {
    const [x, y] = [offsetX, offsetY].map((at) => Math.floor((at / canvas.clientWidth) * SIDE));
    if (Math.min(x, y) < 0 || Math.max(x, y) >= SIDE) return;
    pen ??= 1 - ink[SIDE * y + x];
    ink[SIDE * y + x] = pen;
    paint();
  };
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    pen = null;
    mark(event);
  });
  canvas.addEventListener("pointermove", (event) => event.buttons && mark(event));
  letter.addEventListener("input", () => {
    if (!letter.value) return;
    ink = typed([...letter.value].at(-1));
    paint();
  });
  byId("own-clear").addEventListener("click", () => {
    ink.fill(0);
    letter.value = "";
    paint();
    if (state.own) set({ own: "", picked: 1 });
  });
  byId("own-store").addEventListener("click", () => ink.some(Boolean) && set({ own: textOf(ink), picked: 1 }));
  const read = () => {
    ink = state.own ? inkOfText(state.own) : ink;
    paint();
  };
  listen(["own"], read);
  byId("hero-own").addEventListener("toggle", paint);
  read();
}
