import { announce, buttons, byId, element, figure, maths, numbers, table } from "./controls.js";
import { load } from "./data.js";
import { listen, state } from "./state.js";

const plain = (text) => maths(text, "words");

function bar(share, most) {
  return element("span", { class: most ? "weight most" : "weight", style: { width: `${Math.round(110 * Math.max(0, share))}px` } });
}

const list = (row) => element("span", { class: "list" }, `[${row.map((x) => figure(x, 2)).join(", ")}]`);
const words = (row) => `[${row.map((x) => figure(x, 2)).join(", ")}]`;

function scrolling(label, ...inside) {
  return element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label }, ...inside);
}

function folded(title, ...inside) {
  return element("details", {}, element("summary", {}, title), element("div", {}, ...inside));
}

function shapes(rows, label) {
  return element("table", { class: "plain shapes stacked", "aria-label": label }, ...table(rows[0], rows.slice(1).map(([name, ...cells]) => [plain(name), ...cells])));
}

// W x, number by number: the matrix with its columns named, and what comes out.
function product(name, matrix, x, out, columns) {
  const grid = (title, rows, heads) => element("div", {}, element("p", { class: "grid-name" }, plain(title)), numbers({ rows, columns: heads }));
  return element("div", { class: "path" }, grid(name[0], matrix, columns), grid("x", [x], columns), grid(name[1], [out]));
}

function pathOf(head, at) {
  const x = head.embedding[at];
  const short = head.features.map((_, i) => `x${i + 1}`);
  return folded(
    `The whole path of “${head.tokens[at]}”, number by number`,
    element("p", {}, `Its list x: ${head.features.map((f, i) => `x${i + 1} = ${f} (${figure(x[i], 2)})`).join(", ")}. Each row of a matrix is multiplied with x, number by number, and added up. Here the names are ours; a trained model's numbers have no names, but go the same way.`),
    scrolling(
      "The matrices of the head",
      product(["W_K", "key = W_K x: what it can be found by"], head.w_k, x, head.keys[at], short),
      product(["W_V", "value = W_V x: what it hands over"], head.w_v, x, head.values[at], short),
      product(["W_Q", "query = W_Q x: what it looks for"], head.w_q, x, head.at[at].query, short),
    ),
  );
}

function headRows(head, at, heads) {
  const now = head.at[at];
  const most = Math.max(...now.weights);
  const tied = now.weights.filter((w) => w === most).length > 1;
  return now.weights.map((weight, i) =>
    element("tr", i === at ? { class: "current" } : {},
      element("th", { scope: "row" }, head.tokens[i]),
      element("td", { "data-head": heads[1] }, list(head.keys[i])),
      element("td", { "data-head": heads[2] }, list(head.values[i])),
      element("td", { class: "n", "data-head": heads[3] }, figure(now.likeness[i])),
      element("td", { "data-head": heads[4] }, bar(weight, weight === most && !tied), figure(weight))),
  );
}

function asks([thing, colour]) {
  if (!thing && !colour) return "Its list is nearly empty: words such as “the” and “and” stand for no thing and ask for none. So every likeness is 0, and every memory gets the same weight.";
  return thing > colour ? "It looks for a thing." : "It looks for a colour.";
}

function comesBack(head, at) {
  const now = head.at[at];
  const most = Math.max(...now.weights);
  if (now.weights.filter((w) => w === most).length > 1) return `What comes back is the mean of the values, ${words(now.recalled)}.`;
  return `What comes back is ${words(now.recalled)}: mostly the value of “${head.tokens[now.weights.indexOf(most)]}” (weight ${figure(most)}), which is the signal. What the other values add is interference, ${figure(now.ratio)} times as much by weights.`;
}

export async function model() {
  const [head, mlp] = await Promise.all([load("head"), load("mlp")]);
  buttons("head-tokens", "token");
  const heads = ["token", "key: found by [thing, colour]", "value: handed over", "query · key", `weight: softmax of ${head.beta} × that`];
  const update = () => {
    const at = state.token;
    const top = element("tr", {}, ...heads.map((text, i) => element("th", { scope: "col", ...(i === 3 ? { class: "n" } : {}) }, text)));
    const grid = element("table", { class: "plain stacked" }, element("thead", {}, top), element("tbody", {}, ...headRows(head, at, heads)));
    const open = byId("head-picture").querySelector("details")?.open;
    const back = comesBack(head, at);
    byId("head-picture").replaceChildren(
      element("p", {}, `“${head.tokens[at]}” asks with the query ${words(head.at[at].query)}: how much it wants [a thing, a colour]. ${asks(head.at[at].query)} It sees itself and what came before.`),
      grid,
      element("p", {}, back),
      pathOf(head, at),
      folded("Shapes, here and in a real model", shapes(head.shapes, "Shapes of attention")),
    );
    byId("head-picture").querySelector("details").open = Boolean(open);
    announce(back);
  };
  listen(["token"], update);
  update();
  layer(mlp);
}

function layer(mlp) {
  const most = Math.max(...mlp.weights);
  const rows = mlp.keys.map((key, i) => [
    `unit ${i + 1}`,
    list(key),
    figure(mlp.likeness[i]),
    element("span", {}, bar(mlp.weights[i] / most, mlp.weights[i] === most), figure(mlp.weights[i])),
    list(mlp.values[i]),
  ]);
  const heads = ["hidden unit", "key: row of the first matrix", "row · input", "weight: after ReLU", "value: column of the second matrix"];
  byId("mlp-picture").replaceChildren(
    element("p", {}, `The input ${words(mlp.input)} is the query. It is multiplied with every row; ReLU sets what is negative to 0; each value is multiplied with what is left, and the sum is the output.`),
    element("table", { class: "plain stacked" }, ...table(heads, rows, [2])),
    element("p", {}, `Output: ${words(mlp.recalled)}: mostly value ${mlp.weights.indexOf(most) + 1}, whose key is most like the input. What the other units add is interference.`),
    folded("Shapes, here and in a real model", shapes(mlp.shapes, "Shapes of a feed-forward layer")),
  );
}
