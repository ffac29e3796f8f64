// The proof tree as a picture: cards that the browser measures, links as curves, colour and number for their strength.
import { h, name, show, svg } from "./dom.js";
import { score } from "./format.js";
import { panzoom } from "./panzoom.js";
import { fact, steps, telling, weakest } from "./tree.js";

const GAP_X = 28, GAP_Y = 74, LABEL_ROOM = 24, LEAST_HEIGHT = 340;

/** Draws a proof into `frame` and fits it. */
export function drawProof(frame, proof, signal) {
  const root = steps(proof.tree);
  const mark = weakest(root);
  const lines = svg("svg", { "aria-hidden": "true" });
  const stage = h("div", { class: "stage" }, lines);
  frame.setAttribute("tabindex", "0");
  frame.setAttribute("role", "group");
  frame.setAttribute("aria-label", `Proof of ${fact(proof.tree.goal)}: arrow keys move it, plus and minus zoom, 0 fits`);
  show(frame, stage);
  const every = [];
  const build = (step) => {
    step.card = card(step, step === root);
    step.label = label(step, mark);
    stage.append(step.card);
    if (step.label) stage.append(step.label);
    every.push(step);
    step.children.forEach(build);
  };
  build(root);
  measure(root);
  const width = place(root, 0, 0), height = Math.max(...every.map((step) => step.y + step.height));
  for (const step of every) {
    step.card.style.left = `${step.x - step.width / 2}px`;
    step.card.style.top = `${step.y}px`;
    for (const child of step.children) connect(lines, step, child, mark);
  }
  // As high as the proof needs, and never higher than what the window can show.
  frame.style.height = `${Math.round(Math.min(Math.max(LEAST_HEIGHT, height + 72), innerHeight * 0.8))}px`;
  stage.style.width = `${width}px`;
  stage.style.height = `${height}px`;
  panzoom(frame, stage, () => ({ width, height }), signal).fit();
  return root;
}

function card(step, root) {
  const { node } = step;
  if (step.kind === "rule") {
    const bound = step.bindings.map(([variable, value], at) => [at ? ", " : "", `${variable} = `, name(value)]);
    return h("div", { class: "node rule" },
      h("small", {}, `by rule${node.rule.confidence == null ? "" : `, confidence ${score(node.rule.confidence)}`}`),
      h("code", {}, name(node.rule.text)),
      bound.length ? h("small", { class: "bindings" }, bound) : null);
  }
  const shown = step.kind === "fact" && node.fact ? node.fact : node.goal;
  return h("div", { class: `node ${step.kind}` },
    h("small", {}, step.kind === "fact" ? "fact" : `goal, ${root ? "by this proof " : ""}${score(node.score)}`),
    name(shown.subject, { class: "end" }), " ", name(shown.predicate, { class: "pred" }), " ", name(shown.object, { class: "end" }),
    fact(shown) === fact(node.goal) ? null : h("small", {}, "for ", name(fact(node.goal))));
}

function label(step, mark) {
  if (!step.links.length) return null;
  const links = telling(step.links);
  const marked = links.includes(mark);
  const lowest = Math.min(...links.map((link) => link.score));
  return h("div", { class: `link strength${marked ? " weakest" : ""}`, "--s": lowest },
    marked ? "weakest link " : null,
    links.map((link, at) => [at ? " · " : "", score(link.score)]),
    links.filter((link) => link.left !== link.right).map((link) => h("span", { class: "names" }, name(link.left), link.approximate ? " ≈ " : " ~ ", name(link.right))));
}

function measure(step) {
  step.width = Math.max(step.card.offsetWidth, step.label ? step.label.offsetWidth : 0);
  step.height = step.card.offsetHeight;
  step.children.forEach(measure);
}

/** A tidy tree: children side by side, their parent over their middle. Returns the right edge that was used. */
function place(step, left, top) {
  step.y = top;
  if (!step.children.length) {
    step.x = left + step.width / 2;
    return left + step.width;
  }
  let right = left;
  const below = top + step.height + GAP_Y + (step.children.some((child) => child.label) ? LABEL_ROOM : 0);
  step.children.forEach((child, at) => { right = place(child, at ? right + GAP_X : left, below); });
  const [first, last] = [step.children[0], step.children.at(-1)];
  step.x = (first.x + last.x) / 2;
  const overhang = left - (step.x - step.width / 2);
  if (overhang > 0) shift(step, overhang);
  return Math.max(right + Math.max(0, overhang), step.x + step.width / 2);
}

function shift(step, by) {
  step.x += by;
  step.children.forEach((child) => shift(child, by));
}

function connect(lines, parent, child, mark) {
  const from = parent.y + parent.height, middle = (from + child.y) / 2;
  const lowest = child.links.length ? Math.min(...child.links.map((link) => link.score)) : null;
  lines.append(svg("path", {
    d: `M${parent.x} ${from} C${parent.x} ${middle}, ${child.x} ${middle}, ${child.x} ${child.y}`,
    class: `${lowest == null ? "" : "strength"}${child.links.includes(mark) ? " weakest" : ""}`,
    "--s": lowest ?? 1, "--w": lowest == null ? "1.5px" : `${1.5 + 2.5 * lowest}px`,
  }));
  if (child.label) {
    child.label.style.left = `${child.x}px`;
    child.label.style.top = `${child.y - GAP_Y / 2}px`;
  }
}
