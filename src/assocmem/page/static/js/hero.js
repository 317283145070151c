import { buttons, byId, figure, slider } from "./controls.js";
import { bytesOf, load, newest } from "./data.js";
import { listen, state } from "./state.js";

function paint(canvas, bytes) {
  const image = new ImageData(16, 16);
  bytes.forEach((ink, i) => image.data.set([255 - ink, 255 - ink, 255 - ink, 255], 4 * i));
  canvas.getContext("2d").putImageData(image, 0, 0);
}

export function hero(choices) {
  const shown = choices.stores.filter((store) => choices.pictures.includes(store.id));
  buttons("hero-stores", "picture", shown);
  buttons("hero-letters", "letter", choices.letters.map((letter) => ({ id: letter, label: letter, title: `Ask for ${letter}` })));
  slider("hero-m", "count", choices.picture_counts, { say: (m) => `${m} pictures` });
  const name = (id) => shown.find((store) => store.id === id).label;
  const update = newest(
    () => load(`pictures/${state.picture}/${choices.letters.indexOf(state.letter)}`),
    (data) => {
      const at = data.counts.indexOf(state.count);
      const ratio = data.ratio[at];
      paint(byId("hero-recalled"), bytesOf(data.frames[at]));
      paint(byId("hero-true"), bytesOf(data.truth));
      byId("hero-count").textContent = state.count.toLocaleString("en-US");
      const words = ratio > 1 ? "The picture has drowned." : ratio > 0.5 ? "It is getting hard to read." : "The picture comes back.";
      byId("hero-readout").textContent = `${name(state.picture)}: interference is ${figure(ratio)} times the signal. ${words}`;
    },
    (error) => (byId("hero-readout").textContent = error.message),
  );
  listen(["count", "picture", "letter"], update);
  return update();
}
