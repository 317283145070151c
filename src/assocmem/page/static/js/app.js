import { bars } from "./bars.js";
import { contexts } from "./contexts.js";
import { byId, listenersReady } from "./controls.js";
import { curves } from "./curves.js";
import { load } from "./data.js";
import { hand } from "./hand.js";
import { hero } from "./hero.js";
import { model } from "./model.js";
import { offer } from "./state.js";
import { stores } from "./stores.js";
import { streams } from "./streams.js";
import { why } from "./why.js";

function among(values) {
  return (value) => values.includes(value);
}

function checksFor(choices) {
  const ids = choices.stores.map((store) => store.id);
  return {
    count: among(choices.picture_counts), picture: among(choices.pictures), letter: among(choices.letters),
    hand: among(["outer-product", "softmax"]), asked: among([0, 1, 2]), step: (n) => Number.isInteger(n) && n >= 0 && n < 10,
    store: among(ids), m: among(choices.counts), beta: among(choices.betas), cosine: among(choices.cosines),
    width: among(choices.widths), draw: (n) => Number.isInteger(n) && n >= 0 && n < choices.draws,
    hidden: (text) => text === "" || text.split(".").every((id) => ids.includes(id)),
    reference: among(choices.references), longbeta: among(choices.betas), longwidth: among(choices.widths),
    needm: among(choices.need.counts), needratio: among(choices.need.ratios), needcosine: among(choices.cosines), needwidth: among(choices.widths),
    token: (n) => Number.isInteger(n) && n >= 0 && n < choices.tokens,
    rule: among(choices.streams.rules.map((r) => r.id)), decay: among(choices.streams.decays), strength: among(choices.streams.strengths),
  };
}

// Links within the page scroll without replacing the state in the address.
function anchors() {
  for (const link of document.querySelectorAll("header a[href^='#'], a.skip")) {
    link.addEventListener("click", (event) => {
      event.preventDefault();
      const target = byId(link.getAttribute("href").slice(1));
      target.scrollIntoView();
      target.setAttribute("tabindex", "-1");
      target.focus({ preventScroll: true });
    });
  }
}

function sharing() {
  const button = byId("share");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(location.href);
      button.textContent = "Copied";
    } catch {
      button.textContent = "It is in the address bar";
    }
    setTimeout(() => (button.textContent = "Copy link"), 2500);
  });
}

async function start() {
  anchors();
  sharing();
  const drawing = globalThis.vegaEmbed ? null : vega();
  drawing?.catch(() => null); // awaited below, after the opening picture
  const choices = await load("offer");
  offer(checksFor(choices));
  await hero(choices);
  await drawing;
  await bars(choices);
  document.documentElement.dataset.ready = "bars";
  await Promise.all([curves(choices), contexts(choices), hand(), model(), why(), stores(), streams(choices)]);
  listenersReady();
  document.documentElement.dataset.ready = "all";
}

function vega() {
  return new Promise((settle, fail) => {
    const script = document.createElement("script");
    script.src = "vendor/vega.js";
    script.onload = settle;
    script.onerror = () => fail(new Error("the charts' script could not be loaded"));
    document.head.append(script);
  });
}

start().catch((error) => {
  const note = document.createElement("p");
  note.className = "card";
  note.setAttribute("role", "alert");
  note.textContent = `The page could not start: ${error.message}`;
  byId("main").prepend(note);
  console.error(error);
});
