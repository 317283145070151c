// Vega views whose datasets are swapped; a change of the colour scheme draws them again.
const dark = matchMedia("(prefers-color-scheme: dark)");

function colours() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(name).trim();
  const [ink, soft, line] = [of("--ink"), of("--soft"), of("--line")];
  return {
    background: null,
    font: "system-ui, sans-serif",
    view: { stroke: line },
    axis: { labelColor: soft, titleColor: soft, gridColor: line, domainColor: soft, tickColor: line, labelFontSize: 12, titleFontSize: 13 },
    legend: { labelColor: ink, titleColor: ink },
  };
}

export async function chart(holder, spec, renderer = "canvas") {
  let view = null;
  const rows = {};
  const draw = async () => {
    const own = { ...spec, config: undefined, datasets: { ...spec.datasets, ...rows } };
    const made = await globalThis.vegaEmbed(holder, own, { ast: true, actions: false, renderer, config: colours(), tooltip: { theme: dark.matches ? "dark" : "light" } });
    view?.finalize();
    view = made.view;
    holder.querySelectorAll("[role='graphics-document']").forEach((part) => part.setAttribute("aria-hidden", "true"));
  };
  await draw();
  dark.addEventListener("change", draw);
  return {
    async show(changes) {
      Object.assign(rows, changes);
      for (const [name, data] of Object.entries(changes)) view.data(name, data);
      await view.runAsync();
    },
  };
}
