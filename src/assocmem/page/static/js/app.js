import { bars } from "./bars.js";
import { calculator, contexts } from "./contexts.js";
import { byId, listenersReady } from "./controls.js";
import { curves } from "./curves.js";
import { load } from "./data.js";
import { hand } from "./hand.js";
import { hero } from "./hero.js";
import { model } from "./model.js";
import { section } from "./section.js";
import { declare, declared } from "./state.js";
import { stores } from "./stores.js";
import { why } from "./why.js";

// Links within the page scroll without replacing the state in the address.
function anchors() {
  document.addEventListener("click", (event) => {
    const link = event.target.closest("header a[href^='#'], a.skip");
    if (!link) return;
    event.preventDefault();
    const target = byId(link.getAttribute("href").slice(1));
    target.scrollIntoView();
    target.setAttribute("tabindex", "-1");
    target.focus({ preventScroll: true });
  });
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
  declare(await load("offer"));
  await hero();
  await drawing;
  await bars();
  document.documentElement.dataset.ready = "bars";
  const plain = Object.keys(declared.sections).filter((name) => declared.sections[name].title);
  await Promise.all([curves(), contexts(), calculator(), hand(), model(), why(), stores(), ...plain.map(section)]);
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
