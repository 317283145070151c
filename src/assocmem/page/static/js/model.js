import { buttons, byId, element, figure, numbers } from "./controls.js";
import { load } from "./data.js";
import { listen, state } from "./state.js";

function bar(weight, most) {
  return element("span", { class: weight === most ? "weight most" : "weight", style: { width: `${Math.round(110 * Math.max(0, weight))}px` } });
}

const list = (row) => `[${row.map((x) => figure(x, 2)).join(", ")}]`;

export async function model() {
  const [head, mlp] = await Promise.all([load("head"), load("mlp")]);
  buttons("head-tokens", "token", head.tokens.map((token, i) => ({ id: i, label: token })));
  const update = () => {
    const now = head.at[state.token];
    const most = Math.max(...now.weights);
    const rows = now.weights.map((weight, i) =>
      element("tr", i === state.token ? { class: "current" } : {},
        element("th", { scope: "row" }, head.tokens[i]),
        element("td", {}, list(head.keys[i])),
        element("td", {}, list(head.values[i])),
        element("td", { class: "n" }, figure(now.likeness[i])),
        element("td", {}, bar(weight, most), figure(weight))),
    );
    const top = element("tr", {}, ...["token", "key: found by [thing, colour]", "value: handed over", "query · key", `weight, softmax of ${head.beta} × that`].map((t) => element("th", { scope: "col" }, t)));
    const table = element("table", { class: "plain" }, element("thead", {}, top), element("tbody", {}, ...rows));
    const winner = head.tokens[now.weights.indexOf(most)];
    byId("head-picture").replaceChildren(
      element("p", {}, `The token “${head.tokens[state.token]}” asks ${list(now.query)}: how much it wants a thing, how much it wants a colour.`),
      element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Keys, values and weights of the head" }, table),
      element("p", {}, `What comes back is ${list(now.recalled)}, mostly the value of “${winner}” (weight ${figure(most)}). The rest is interference.`),
      element("p", { class: "note" }, `Shapes: each token is a list of ${head.features.length} numbers (${head.features.join(", ")}). W_K and W_Q are 2 × 6, so keys and queries are lists of 2 numbers; W_V is 3 × 6, so values are lists of 3. After ${head.tokens.length} tokens the head holds ${head.tokens.length} keys and ${head.tokens.length} values; a token sees itself and what came before.`),
    );
  };
  listen(["token"], update);
  update();
  const most = Math.max(...mlp.weights);
  const rows = mlp.keys.map((key, i) =>
    element("tr", {},
      element("th", { scope: "row" }, `memory ${i + 1}`),
      element("td", {}, list(key)),
      element("td", { class: "n" }, figure(mlp.likeness[i])),
      element("td", {}, bar(mlp.weights[i] / (most || 1), 1), figure(mlp.weights[i])),
      element("td", {}, list(mlp.values[i]))),
  );
  const top = element("tr", {}, ...["hidden unit", "key: row of the first matrix", "row · input", "after ReLU: the weight", "value: column of the second matrix"].map((t) => element("th", { scope: "col" }, t)));
  byId("mlp-picture").replaceChildren(
    element("p", {}, `The input ${list(mlp.input)} is the query.`),
    element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Keys, weights and values of the layer" }, element("table", { class: "plain" }, element("thead", {}, top), element("tbody", {}, ...rows))),
    element("p", {}, `The layer's output is the weighted sum of the values, ${list(mlp.recalled)}.`),
    element("p", { class: "note" }, "Shapes: 4 hidden units, inputs of 4 numbers, outputs of 3: the first matrix is 4 × 4 (one key a row), the second 3 × 4 (one value a column)."),
  );
}
