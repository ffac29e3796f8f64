// How a score comes together: where it starts, what each proof adds, and where it ends.
import { h } from "./dom.js";
import { score } from "./format.js";
import { meaning } from "./meanings.js";

const START = "Before any proof", REST = "All other proofs", SUM = "Score";

/** Rows of {label, from, to} on the logit scale: the start, a step for each proof that is shown, the rest. */
export function stepsOf({ score_parts: parts, proofs }) {
  const { bias, rest = 0, shown: _shown, num_proofs: _number, ...others } = parts;
  const rows = [{ label: START, title: meaning("bias"), from: 0, to: bias, start: true }];
  const add = (row, share) => {
    const from = rows.at(-1).to;
    rows.push({ ...row, from, to: from + share });
  };
  proofs.forEach((proof, at) => { if (proof.share != null) add({ label: `Proof ${at + 1}`, title: proof.text, proof: at }, proof.share); });
  for (const [key, share] of Object.entries(others)) if (typeof share === "number" && share) add({ label: key.replaceAll("_", " ") }, share);
  if (Math.abs(rest) >= 0.005) add({ label: REST, title: meaning("rest") }, rest);
  return rows;
}

/** The steps as bars; each says the score that is reached so far. */
export function waterfall(answer, chosen) {
  const steps = stepsOf(answer);
  const ends = [...steps.flatMap((step) => (step.start ? [step.to] : [step.from, step.to])), 0];
  const least = Math.min(...ends), width = Math.max(...ends) - least || 1;
  const at = (logit) => (logit - least) / width;
  const row = ({ label, title, from, to, start, proof }) => h("li", { class: proof === chosen ? "chosen" : null, title },
    h("span", {}, label), h("span", { class: "track", "aria-hidden": "true" }, bar(start ? at(to) : Math.min(at(from), at(to)), start ? 0 : Math.abs(at(to) - at(from)), start ? "start" : to < from ? "less" : "more")),
    h("span", { class: "number right" }, start ? "" : signed(to - from)), h("span", { class: "number right" }, score(sigmoid(to))));
  return h("div", { class: "waterfall" },
    h("p", { class: "note" }, sentence(answer)),
    h("ol", { "aria-label": "How the score comes together" }, steps.map(row),
      h("li", { class: "sum" }, h("span", {}, SUM), h("span"), h("span"), h("span", { class: "number right" }, score(answer.score)))));
}

const sigmoid = (x) => 1 / (1 + Math.exp(-x));
const signed = (x) => (x >= 0 ? "+" : "−") + Math.abs(x).toFixed(2);
const bar = (from, width, kind) => h("i", { "data-kind": kind, "--from": from.toFixed(4), "--width": width.toFixed(4) });

function sentence({ score: reached, score_parts: { bias }, proofs }) {
  const before = `Without a proof this would score ${score(sigmoid(bias))}`;
  return proofs.length ? `${before}; the evidence brings it to ${score(reached)}.` : `${before}; there is no proof.`;
}
