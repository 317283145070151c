// Vega views whose datasets are swapped; a change of the colour scheme or of a phone's width draws them again.
const dark = matchMedia("(prefers-color-scheme: dark)");
export const narrow = matchMedia("(max-width: 700px)");

function colours() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(name).trim();
  const [ink, soft, line] = [of("--ink"), of("--soft"), of("--line")];
  const axis = { labelColor: soft, titleColor: soft, gridColor: line, domainColor: soft, tickColor: line, labelFontSize: 12, titleFontSize: 13, titleFontWeight: "normal", labelOverlap: true };
  return { background: null, font: "system-ui, sans-serif", view: { stroke: line }, axis, text: { color: ink } };
}

// spec: a Vega-Lite specification with named datasets; room: where the x axis ends, wide and narrow.
export async function chart(holder, spec, { renderer = "canvas", room = null } = {}) {
  let view = null;
  const rows = {};
  const made = () => {
    const style = getComputedStyle(document.documentElement);
    const [ink, memory, target] = ["--ink", "--blue", "--red"].map((name) => style.getPropertyValue(name).trim());
    const own = { ink, memory, target, ...(room ? { room: narrow.matches ? room[1] : room[0] } : {}) };
    const params = spec.params?.map((p) => ({ ...p, value: own[p.name] ?? p.value }));
    const height = narrow.matches ? Math.max(160, Math.round(0.72 * spec.height)) : spec.height; // a phone has little room beside it
    return { ...spec, height, ...(params ? { params } : {}), config: undefined, datasets: { ...spec.datasets, ...rows } };
  };
  const draw = async () => {
    const old = view;
    const options = { ast: true, actions: false, renderer, config: colours(), tooltip: { theme: dark.matches ? "dark" : "light" } };
    view = (await globalThis.vegaEmbed(holder, made(), options)).view;
    old?.finalize();
    // The holder is the figure and has its text; what is drawn inside says nothing more.
    for (const part of holder.children) part.setAttribute("aria-hidden", "true");
  };
  await draw();
  for (const query of [dark, narrow]) query.addEventListener("change", draw);
  return {
    async show(changes, signals = {}) {
      Object.assign(rows, changes);
      for (const [name, value] of Object.entries(signals)) view.signal(name, value);
      for (const [name, data] of Object.entries(changes)) view.data(name, data);
      await view.runAsync();
      holder.dataset.rows = Object.entries(rows).map(([name, data]) => `${name} ${data.length}`).join(", ");
    },
    scale: (name) => view.scale(name),
    // The number on the x axis under a pointer.
    under: ({ clientX }) => view.scale("x").invert(clientX - holder.getBoundingClientRect().left - view.origin()[0]),
  };
}

// Words beside the ends of lines, moved apart so that they don't touch: rows {label, n_memories, at}.
export function endLabels(picture, ends, { apart = 15 } = {}) {
  const y = picture.scale("y");
  const [low, high] = y.range()[0] > y.range()[1] ? [y.range()[1], y.range()[0]] : y.range();
  const placed = ends
    .map((end) => ({ ...end, pixel: Math.min(high, Math.max(low, y(end.value))) })) // off the axis: at its edge
    .sort((a, b) => a.pixel - b.pixel);
  placed.forEach((end, i) => i && (end.pixel = Math.max(end.pixel, placed[i - 1].pixel + apart)));
  let floor = high;
  for (const end of placed.toReversed()) {
    end.pixel = Math.min(end.pixel, floor);
    floor = end.pixel - apart;
  }
  return placed.map(({ label, n_memories, pixel }) => ({ label, n_memories: n_memories * 1.25, at: y.invert(pixel) }));
}
