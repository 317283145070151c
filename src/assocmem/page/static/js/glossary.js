// Terms are explained where they first stand in a section: a dotted underline opens one sentence.
import { element } from "./controls.js";
import { declared } from "./state.js";

const SAID = "p:not([id]):not(.note):not(.check), li, dd:not([id])";
const OTHER = "button, a, label, .katex, .maths, .card, [aria-live]";
let number = 0;

function term(words, sentence) {
  const id = `term-${++number}`;
  const button = element("button", { type: "button", class: "term", "aria-expanded": "false", "aria-controls": id }, words);
  const meaning = element("span", { class: "meaning", id, role: "note" }, sentence);
  meaning.hidden = true;
  const turn = (open) => {
    meaning.hidden = !open;
    button.setAttribute("aria-expanded", String(open));
  };
  button.addEventListener("click", () => turn(meaning.hidden));
  button.addEventListener("keydown", ({ key }) => key === "Escape" && turn(false));
  return [button, meaning];
}

function explain(section, known) {
  const met = new Set();
  for (const block of section.querySelectorAll(SAID)) {
    const walker = document.createTreeWalker(block, NodeFilter.SHOW_TEXT);
    const texts = [];
    while (walker.nextNode()) if (!walker.currentNode.parentElement.closest(OTHER)) texts.push(walker.currentNode);
    for (const text of texts) {
      const parts = text.data.split(known.pattern);
      if (parts.length < 2) continue;
      const made = parts.flatMap((part, i) => {
        const name = i % 2 ? known.names.get(part.toLowerCase()) : undefined;
        if (!name || met.has(name)) return [part];
        met.add(name);
        return term(part, declared.glossary[name]);
      });
      if (made.length > parts.length) text.replaceWith(...made);
    }
  }
}

export function glossary() {
  const terms = Object.keys(declared.glossary).sort((a, b) => b.length - a.length);
  const names = new Map(terms.flatMap((name) => [[name.toLowerCase(), name], [`${name.toLowerCase()}s`, name]]));
  const known = { names, pattern: new RegExp(`\\b((?:${terms.join("|")})s?)\\b`, "gi") };
  document.querySelectorAll("main > section").forEach((section) => explain(section, known));
}
