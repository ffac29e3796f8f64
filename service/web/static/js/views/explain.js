// At an answer: which rules almost fire, why another one is not given, and which facts it would not stand without.
import { post } from "../api.js";
import { combobox } from "../combobox.js";
import { h, name, problem, show } from "../dom.js";
import { score } from "../format.js";
import { drawProof } from "../proof.js";
import { fact, plain, steps } from "../tree.js";
import { entitiesOf } from "./kb.js";

const THRESHOLD = 0.5, NEAR_MISSES = 5;
const REASONS = {
  rests_on_no_facts: "The score rests on no facts: nothing that could be left out changes it.",
  rests_on_more: "The score stays above the threshold even without all facts of its proofs.",
  out_of_time: "Time was over before such a set was found.",
};
const three = (one) => [one.subject, one.predicate, one.object];
const shown = (one) => name(fact(one));

export function explainTools(question, one, signal) {
  const place = h("div", { "aria-live": "polite" });
  const tell = async (asked, draw) => {
    show(place, h("p", { class: "note" }, "Looking…"));
    try {
      const threshold = one.score >= THRESHOLD ? THRESHOLD : one.score / 2;
      const found = await post("/explain", { model: question.model, fact: asked, threshold, facts: question.facts, near_misses: NEAR_MISSES, proofs: 1 }, signal);
      show(place, draw(found), found.truncated ? h("p", { class: "note" }, "Time was over: there may be more.") : null);
    } catch (error) { if (!signal.aborted) show(place, problem(error)); }
  };
  const button = (text, onclick) => h("button", { type: "button", class: "small", onclick }, text);
  const open = ["subject", "object"].find((part) => !question.goal[part]);
  return h("div", { class: "proof-text explain" }, h("div", { class: "actions" },
    button("Which rules almost fire?", () => tell(three(one), (found) => misses(found))),
    button("What would change this?", () => tell(three(one), (found) => change(found, question, signal)))),
  open ? other(question, one, open, (asked) => tell(asked, (found) => [absent(found), misses(found)])) : null, place);
}

// "Why not …?": another entity in the open place.
function other(question, one, open, ask) {
  const box = combobox({ label: "Why not …?", placeholder: "another answer", suggest: entitiesOf(question.kb) });
  const form = h("form", { class: "actions" }, box.element, h("button", { type: "submit", class: "small" }, "Explain"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (box.input.value) ask(three({ ...one, [open]: box.input.value }));
  });
  return form;
}

const absent = ({ why }) => (why ? h("p", {}, shown(why), ` scores ${score(why.score)}${why.known ? ", and the KB states it" : ""}.`) : null);

function misses({ why_not: found }) {
  if (!found.length) return h("p", { class: "note" }, "No rule lacks just one fact.");
  return h("ol", { class: "misses" }, found.map((miss) => h("li", {},
    h("div", {}, "missing: ", h("strong", {}, shown(miss.missing)), ` (with it ${score(miss.score_then)})`),
    h("div", { class: "note" }, name(miss.rule.text), miss.stated.length ? ["; there: ", miss.stated.map((one, at) => [at ? ", " : "", shown(one)])] : null))));
}

function change({ what_would_change_it: found, threshold }, question, signal) {
  if (!found.facts.length) return h("p", { class: "note" }, REASONS[found.reason] ?? `The score is below ${score(threshold)} already.`);
  const place = h("div");
  return h("div", {}, h("p", {}, `Without ${found.smallest ? "" : "(a set that is perhaps not the smallest) "}`, found.facts.map((one, at) => [at ? ", " : "", h("strong", {}, shown(one))]), ` it would score ${score(found.score_then)}.`),
    h("button", { type: "button", class: "small", onclick: () => redraw(place, question, found.facts.map(three), signal) }, "Ask again without them"), place);
}

async function redraw(place, question, without, signal) {
  try {
    const goal = Object.fromEntries(Object.entries(question.goal).map(([key, value]) => [key, value || null]));
    const found = await post("/query", { model: question.model, goal, facts: question.facts, without, top_k: 5, proofs: 1 }, signal);
    const first = found.answers[0], proof = first?.proofs[0];
    const list = h("ol", {}, found.answers.map((one) => h("li", {}, shown(one), ` ${score(one.score)}`)));
    const frame = h("div", { class: "proof" });
    show(place, h("p", {}, "Without these facts:"), list, proof ? [frame, h("pre", { tabindex: "0", "aria-label": "The proof without these facts" }, name(plain(steps(proof.tree))))] : null);
    if (proof) drawProof(frame, proof, signal);
  } catch (error) { if (!signal.aborted) show(place, problem(error)); }
}
