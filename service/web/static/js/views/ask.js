// Ask: a model, a goal with one place left open, the answers, and the proof of the one that was chosen.
import { all, get, path, post } from "../api.js";
import { combobox } from "../combobox.js";
import { copy, h, name, problem, show } from "../dom.js";
import { meter, plural, score } from "../format.js";
import { drawProof } from "../proof.js";
import { go, note, to } from "../route.js";
import { plain, steps } from "../tree.js";
import { waterfall } from "../waterfall.js";
import { graphQuestion } from "./ask_graph.js";
import { explainTools } from "./explain.js";
import { answerWhere, rowsOf, whereQuestion } from "./ask_where.js";
import { entitiesOf, predicatesOf } from "./kb.js";

const PLACES = [["s", "subject", "Subject"], ["p", "predicate", "Predicate"], ["o", "object", "Object"]];
const TOP = 10, PROOFS = 5, WEAK = 0.1;
const STATED = "The KB states this; the score says how well the other facts support it.";
const TOO_OPEN = "Fill at least two of the three places.";

export async function ask(root, { params, signal }) {
  const ready = (await all("/models", {}, 1000, signal)).filter((model) => model.status === "ready");
  if (!ready.length) {
    show(root, h("div", { class: "card empty" }, h("h1", {}, "No model to ask yet"), h("p", {}, "Train one first: the family example takes a few seconds."), h("a", { class: "button primary", href: "#/" }, "Begin")));
    return;
  }
  const wanted = params.get("model");
  const model = wanted ? await get(path("models", wanted), {}, signal) : ready.find((one) => one.explainable) ?? ready[0];
  const reference = wanted ?? `${model.name}@${model.version}`;
  const question = { model: reference, kb: model.lineage.kb_id, explains: model.kind === "facts", goal: {}, facts: [], params };
  for (const [short, long] of PLACES) question.goal[long] = params.get(short);
  try { question.facts = JSON.parse(params.get("facts") ?? "[]"); } catch { question.facts = []; }
  const results = h("div", { "aria-live": "polite" });
  const chooser = h("select", { "aria-label": "Model", onchange: () => go(to("ask", { model: chooser.value })) },
    options(ready, reference, model).map(([value, label]) => h("option", { value, selected: value === reference }, label)));
  const rows = model.kind === "graphs" ? null : rowsOf(params);
  const form = rows ? whereQuestion(model, reference, rows) : (model.kind === "graphs" ? graphQuestion : factsQuestion)(model, question, signal);
  show(root,
    h("header", { class: "head" }, h("div", {}, h("h1", {}, "Ask"), h("p", {}, rows ? "Rows of atoms that must all hold. A variable, such as ?x, is asked for; what the KB does not state is filled in with probabilities." : model.kind === "graphs" ? "Draw or paste a small graph and ask how two of its nodes are related." : "Leave one place empty: that is what you ask for. Fill all three to ask how certain a fact is.")),
      h("div", { class: "model" }, chooser, h("a", { class: "button", href: to(["models", reference]) }, "Its rules"))),
    model.kind === "graphs" ? null : ways(reference, rows),
    h("section", { class: "card question" }, form),
    results);
  if (rows) {
    if (params.has("run")) await answerWhere(results, reference, rows, signal);
    return;
  }
  const given = PLACES.filter(([, long]) => question.goal[long]).length;
  if (given >= 2) await answer(results, question, signal);
  else if (model.kind !== "graphs") show(results, await hints(model, reference, signal));
}

// One atom with an open place, or several with variables.
function ways(reference, rows) {
  const way = (href, label, current) => h("a", { href, "aria-current": current ? "page" : null }, label);
  return h("nav", { class: "segmented", "aria-label": "Kind of question" },
    way(to("ask", { model: reference }), "One atom", !rows), way(to("ask", { model: reference, where: "[]" }), "Several atoms", rows));
}

function options(ready, reference, model) {
  const known = ready.map((one) => [`${one.name}@${one.version}`, `${one.name}, version ${one.version}${one.aliases.length ? ` (${one.aliases.join(", ")})` : ""}`]);
  return known.some(([value]) => value === reference) ? known : [[reference, `${reference} (${model.name}, version ${model.version})`], ...known];
}

function factsQuestion(model, question, signal) {
  const kb = model.lineage.kb_id;
  const suggest = { subject: entitiesOf(kb), predicate: predicatesOf(kb), object: entitiesOf(kb) };
  const message = h("p", { class: "note", role: "status" });
  const boxes = PLACES.map(([short, long, label]) => ({ short, ...combobox({ label, value: question.goal[long] ?? "", placeholder: "?", suggest: suggest[long], oninput: () => mark() }) }));
  const mark = () => {
    const empty = boxes.filter((box) => !box.input.value);
    for (const box of boxes) box.input.classList.toggle("asked", empty.length === 1 && empty[0] === box);
  };
  const form = h("form", { class: "sentence" }, boxes.map((box) => box.element), h("button", { type: "submit", class: "primary" }, "Ask"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (boxes.filter((box) => !box.input.value).length > 1) { message.textContent = TOO_OPEN; return; }
    const address = to("ask", { model: question.model, ...Object.fromEntries(boxes.map((box) => [box.short, box.input.value])) });
    if (location.hash === address) dispatchEvent(new HashChangeEvent("hashchange"));
    else go(address);
  });
  mark();
  // A link that leaves two places open asks nothing yet.
  if (boxes.filter((box) => box.input.value).length === 1) message.textContent = TOO_OPEN;
  return h("div", { class: "stack" }, form, message);
}

/** A few questions to begin with: of the predicates that the model has rules for, or else of any of its KB. */
async function hints(model, reference, signal) {
  const kb = model.lineage.kb_id;
  if (kb == null) return "";
  const rules = await get(path("models", model.id, "rules"), { limit: 40 }, signal).catch(() => ({ items: [] }));
  const longest = [...rules.items].sort((a, b) => b.body.length - a.body.length);
  const any = rules.items.length ? [] : (await get(path("kbs", kb, "predicates"), { limit: 3 }, signal)).items;
  const heads = [...new Set([...longest.map((rule) => rule.head.predicate), ...any.map((predicate) => predicate.name)])].slice(0, 3);
  const facts = await Promise.all(heads.map((predicate) => get(path("kbs", kb, "facts"), { predicate, limit: 1 }, signal).then((page) => page.items[0]).catch(() => null)));
  const asked = facts.filter(Boolean);
  return asked.length ? h("section", { class: "card" }, h("div", { class: "card-head" }, h("h2", {}, "For example")), h("div", { class: "actions" }, asked.map((f) =>
    h("a", { class: "button", href: to("ask", { model: reference, p: f.predicate, o: f.object }) }, "? ", name(f.predicate), " ", name(f.object))))) : "";
}

async function answer(place, question, signal) {
  show(place, h("p", { class: "note" }, "Looking for proofs…"));
  let found;
  try {
    const goal = Object.fromEntries(Object.entries(question.goal).map(([key, value]) => [key, value || null]));
    found = await post("/query", { model: question.model, goal, facts: question.facts, top_k: TOP, proofs: PROOFS }, signal);
  } catch (error) {
    if (!signal.aborted) show(place, problem(error));
    return;
  }
  if (!found.answers.length) {
    show(place, cautions(found), h("div", { class: "card empty" }, "No proof leads to an answer."));
    return;
  }
  const panel = h("section", { class: "card flush", "aria-label": "Proof" });
  const buttons = found.answers.map((one, at) => entry(one, question.goal, () => {
    choose(at);
    // On a phone the proof is under the answers, out of sight.
    if (panel.getBoundingClientRect().top > innerHeight * 0.6) panel.scrollIntoView({ block: "start", behavior: "smooth" });
  }));
  const list = h("ol", { class: "answers" }, buttons.map((button) => h("li", {}, button)));
  // What a model gives to almost anything is out of the way, but not gone; what the KB states is always in sight.
  const weak = [...list.children].filter((_, at) => at > 0 && !found.answers[at].known && found.answers[at].score < WEAK && at + 1 !== Number(question.params.get("answer")));
  if (weak.length) {
    const more = h("li", {}, h("button", { type: "button", class: "weaker", onclick: () => { weak.forEach((item) => { item.hidden = false; }); more.remove(); } }, `Show ${plural(weak.length, "answer")} below ${WEAK}`));
    weak.forEach((item) => { item.hidden = true; });
    list.append(more);
  }
  let drawn = new AbortController();
  const choose = (at, which = 0) => {
    buttons.forEach((button, place) => button.setAttribute("aria-pressed", String(place === at)));
    drawn.abort();
    drawn = new AbortController();
    signal.addEventListener("abort", () => drawn.abort(), { once: true });
    drawAnswer(panel, found, found.answers[at], which, drawn.signal, (next) => choose(at, next));
    if (question.explains) panel.append(explainTools(question, found.answers[at], drawn.signal));
    const address = new URLSearchParams(question.params);
    at ? address.set("answer", at + 1) : address.delete("answer");
    which ? address.set("proof", which + 1) : address.delete("proof");
    if (!address.has("model")) address.set("model", question.model);
    note(`#/ask?${address}`);
  };
  show(place, cautions(found), h("div", { class: "results" },
    h("section", { class: "card flush", "aria-label": "Answers" },
      h("div", { class: "card-head" }, h("h2", {}, plural(found.answers.length, "answer")), h("span", { class: "note" }, `${Math.round(found.elapsed_ms)} ms${found.truncated ? ", cut short" : ""}`)),
      list),
    panel));
  const at = Math.min(Math.max(1, Number(question.params.get("answer")) || 1), found.answers.length) - 1;
  choose(at, Math.max(0, (Number(question.params.get("proof")) || 1) - 1));
}

// What of the question was ignored.
function cautions(found) {
  return found.warnings.length ? h("div", { class: "caution" }, found.warnings.map((warning) => h("div", {}, name(warning)))) : null;
}

function entry(one, goal, onclick) {
  const open = PLACES.map(([, long]) => long).filter((long) => !goal[long]);
  const what = open.length === 1 ? name(one[open[0]]) : [name(one.subject), " ", name(one.predicate), " ", name(one.object)];
  return h("button", { type: "button", "aria-pressed": "false", onclick },
    h("span", { class: "rank" }, String(one.rank)), h("span", { class: "what" }, what, one.known ? h("span", { class: "badge", title: STATED }, "known") : null),
    h("span", { class: "strength value", "--s": one.score }, score(one.score)), meter(one.score, `score ${score(one.score)}`),
    one.probability == null || one.probability === one.score ? null : h("span", { class: "note", title: "The chance that this is true: of answers like this one, so many were" }, `probability ${score(one.probability)}`));
}

function drawAnswer(panel, found, one, which, signal, turn) {
  const proof = one.proofs[Math.min(which, one.proofs.length - 1)];
  const head = h("div", { class: "proof-tools" }, h("h2", {}, name(one.subject), " ", name(one.predicate, { class: "pred" }), " ", name(one.object)),
    one.proofs.length > 1 ? h("div", { class: "segmented", role: "group", "aria-label": "Proofs" }, one.proofs.map((each, at) => h("a", { href: location.hash, role: "button", "aria-current": each === proof ? "true" : null, onclick: (event) => { event.preventDefault(); turn(at); } }, `Proof ${at + 1}`))) : null);
  const stated = one.known ? h("p", { class: "note stated" }, found.scoring === "evidence" ? STATED : "The KB states this.") : null;
  if (!proof) {
    show(panel, head, stated, h("div", { class: "empty" }, found.explainable ? "No proof was found for this answer within the limits." : "This model cannot explain its answers: there is no proof to show."));
    return;
  }
  const frame = h("div", { class: "proof" });
  const written = plain(steps(proof.tree));
  show(panel, head, stated, frame,
    h("div", { class: "proof-text" },
      h("div", { class: "key" }, h("span", { class: "scale" }, "weak", h("span", { class: "ramp" }), "strong unification")),
      h("pre", { tabindex: "0", "aria-label": "The proof as text" }, name(written)),
      // Models that add evidence say how the score comes together; others take the best proof.
      one.score_parts ? waterfall(one, one.proofs.indexOf(proof)) : null,
      h("div", { class: "actions" },
        h("button", { type: "button", class: "small", onclick: () => copy(written, "The proof") }, "Copy as text"),
        h("button", { type: "button", class: "small", onclick: () => copy(location.href, "The link") }, "Copy link"))));
  drawProof(frame, proof, signal);
}
