import { bars } from "./bars.js";
import { calculator, contexts } from "./contexts.js";
import { byId, listenersReady } from "./controls.js";
import { curves } from "./curves.js";
import { load } from "./data.js";
import { hand, shownCode } from "./hand.js";
import { glossary } from "./glossary.js";
import { hero, limits } from "./hero.js";
import { model } from "./model.js";
import { place, section } from "./section.js";
import { short } from "./short.js";
import { declare, declared, given, inView, named, set, show, visit } from "./state.js";
import { stores } from "./stores.js";
import { why } from "./why.js";

function anchors() {
  document.addEventListener("click", (event) => {
    const link = event.target.closest("header a[href^='#'], a.skip");
    if (!link) return;
    event.preventDefault();
    visit(link.getAttribute("href").slice(1));
  });
}

// The menu marks the section that is read.
function reading() {
  let waiting = false;
  const mark = () => {
    waiting = false;
    const now = inView();
    for (const link of document.querySelectorAll("header nav a")) {
      const here = link.getAttribute("href") === `#${now}`;
      if (here === link.hasAttribute("aria-current")) continue;
      if (!here) link.removeAttribute("aria-current");
      else {
        link.setAttribute("aria-current", "true");
        const nav = link.parentElement;
        nav.scrollLeft = link.offsetLeft - nav.offsetLeft - (nav.clientWidth - link.offsetWidth) / 2;
      }
    }
  };
  addEventListener("scroll", () => waiting || (waiting = requestAnimationFrame(mark)), { passive: true });
  mark();
}

function sharing() {
  const button = byId("share");
  button.addEventListener("click", async () => {
    set({ code: await shownCode() }, { commit: false });
    const link = named();
    try {
      await navigator.clipboard.writeText(link);
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
  byId("copy-note").textContent = declared.note;
  const wanted = given();
  await hero();
  await drawing;
  await bars();
  document.documentElement.dataset.ready = "bars";
  const plain = Object.keys(declared.sections).filter((name) => declared.sections[name].title);
  plain.forEach(place);
  const rest = [short(), limits(), curves(), contexts(), calculator(), hand(), model(), why(), stores(), ...plain.map(section)];
  await Promise.all(rest);
  glossary();
  reading();
  if (wanted && scrollY === 0) show(wanted);
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
