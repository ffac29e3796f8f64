// A question with several atoms and variables: rows of atoms, and the bindings as a table whose rows open into proofs.
import { post } from "../api.js";
import { combobox } from "../combobox.js";
import { field, h, name, problem, show } from "../dom.js";
import { meter, plural, score } from "../format.js";
import { drawProof } from "../proof.js";
import { go, to } from "../route.js";
import { fact, plain, steps } from "../tree.js";
import { entitiesOf, predicatesOf } from "./kb.js";

const TOP = 20, PROOFS = 1, MOST_ROWS = 16;
const VARIABLE = /^\?[\p{L}_][\p{L}\p{N}_]*$/u;
const JOINS = [["and", "and"], ["not", "and not"], ["or", "or"]];
const START = [["and", "?x", "", ""], ["and", "?x", "", "?y"]];

/** The rows of an address: [join, subject, predicate, object] each; null where there are none. */
export function rowsOf(params) {
  try {
    const rows = JSON.parse(params.get("where"));
    const good = Array.isArray(rows) && rows.length && rows.every((row) => Array.isArray(row) && row.length === 4 && row.every((part) => typeof part === "string"));
    return good ? rows.slice(0, MOST_ROWS) : params.has("where") ? START : null;
  } catch { return START; }
}

/** The rows as the service takes them: an "or" joins a row to the one before it. */
export function whereOf(rows) {
  const found = [];
  for (const [join, subject, predicate, object] of rows) {
    const atom = { subject, predicate, object };
    if (join === "or" && found.length) {
      const before = found.pop();
      found.push({ or: [...(before.or ?? [[before]]), [atom]] });
    } else found.push(join === "not" ? { not: atom } : atom);
  }
  return found;
}

const variables = (rows) => [...new Set(rows.flatMap(([, subject, , object]) => [subject, object]).filter((term) => VARIABLE.test(term)))];
const colour = (all, variable) => `${(all.indexOf(variable) * 137 + 210) % 360}deg`;

export function whereQuestion(model, reference, rows) {
  const kb = model.lineage.kb_id;
  const list = h("div", { class: "stack" }), message = h("p", { class: "note", role: "status" });
  let atoms = [];
  const values = () => atoms.map(({ join, boxes }) => [join.value, ...boxes.map((box) => box.input.value.trim())]);
  const paint = () => {
    const all = variables(values());
    for (const { boxes } of atoms) for (const { input } of boxes) {
      input.classList.toggle("variable", all.includes(input.value.trim()));
      input.style.setProperty("--hue", colour(all, input.value.trim()));
    }
  };
  const terms = async (text, signal) => (text.startsWith("?") ? variables(values()).filter((one) => one.startsWith(text) && one !== text).map((one) => ({ name: one })) : entitiesOf(kb)(text, signal));
  const add = (row) => {
    const [join, ...parts] = row;
    const suggest = [terms, predicatesOf(kb), terms];
    const boxes = ["Subject", "Predicate", "Object"].map((label, at) => combobox({ label, value: parts[at], placeholder: at === 1 ? "predicate" : "?x or a name", suggest: suggest[at], oninput: paint }));
    const choice = h("select", {}, JOINS.map(([value, label]) => h("option", { value, selected: value === join }, label)));
    const remove = h("button", { type: "button", class: "small", "aria-label": "Remove this atom", onclick: () => { atoms = atoms.filter((one) => one.join !== choice); atom.remove(); number(); } }, "×");
    const atom = h("div", { class: "atom", role: "group" }, field("Join", choice), boxes.map((box) => box.element), remove);
    atoms.push({ join: choice, boxes, atom });
    list.append(atom);
    number();
  };
  const number = () => {
    atoms.forEach(({ atom, join }, at) => { atom.setAttribute("aria-label", `Atom ${at + 1}`); if (!at && join.value === "or") join.value = "and"; });
    paint();
  };
  for (const row of rows) add(row);
  const form = h("form", { class: "stack where" }, list, h("div", { class: "actions" },
    h("button", { type: "button", onclick: () => { if (atoms.length < MOST_ROWS) add(["and", "", "", ""]); } }, "Add an atom"),
    h("button", { type: "submit", class: "primary" }, "Ask")), message);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (!values().every((row) => row.every(Boolean))) { message.textContent = "Fill all places of every atom, or remove it. A variable is a question mark and a word, such as ?drug."; return; }
    const address = to("ask", { model: reference, where: JSON.stringify(values()), run: "1" });
    if (location.hash === address) dispatchEvent(new HashChangeEvent("hashchange"));
    else go(address);
  });
  return form;
}

export async function answerWhere(place, reference, rows, signal) {
  show(place, h("p", { class: "note" }, "Looking for bindings…"));
  let found;
  try {
    found = await post("/query", { model: reference, where: whereOf(rows), top_k: TOP, proofs: PROOFS }, signal);
  } catch (error) {
    if (!signal.aborted) show(place, problem(error));
    return;
  }
  const warnings = found.warnings.length ? h("div", { class: "caution" }, found.warnings.map((warning) => h("div", {}, name(warning)))) : null;
  if (!found.answers.length) {
    show(place, warnings, h("div", { class: "card empty" }, found.truncated ? "Time was over before an answer was found." : "Nothing answers this question."));
    return;
  }
  const all = variables(rows), listed = Object.keys(found.answers[0].bindings);
  const head = listed.map((one) => h("th", { scope: "col" }, h("span", { class: "variable", "--hue": colour(all, one) }, one)));
  const body = h("tbody", {}, found.answers.map((one) => binding(one, listed, signal)));
  const limits = found.truncated ? ", cut short: there may be better ones" : found.exact ? "" : `, from the ${found.width} best candidates of each variable`;
  show(place, warnings, h("section", { class: "card flush bindings", "aria-label": "Answers" },
    h("div", { class: "card-head" }, h("h2", {}, plural(found.answers.length, "answer")), h("span", { class: "note" }, `${Math.round(found.elapsed_ms)} ms${limits}`)),
    h("div", { class: "scroll" }, h("table", {}, h("caption", { class: "visually-hidden" }, "Bindings of the variables; each opens into its proofs"),
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, h("span", { class: "visually-hidden" }, "Proofs")), head, h("th", { scope: "col", class: "right" }, "Score"))), body))));
}

// A row, and a second one below it that is filled when it is first opened.
function binding(one, listed, signal) {
  const proofs = h("tr", { hidden: true }, h("td", { colspan: String(listed.length + 2) }));
  const button = h("button", { type: "button", class: "small", "aria-expanded": "false", "aria-label": `Proofs of answer ${one.rank}`, onclick: () => {
    proofs.hidden = !proofs.hidden;
    button.setAttribute("aria-expanded", String(!proofs.hidden));
    button.textContent = proofs.hidden ? "▸" : "▾";
    if (!proofs.firstChild.childElementCount) fill(proofs.firstChild, one.atoms, signal);
  } }, "▸");
  return [h("tr", {}, h("td", {}, button), listed.map((variable) => h("td", {}, name(one.bindings[variable]))),
    h("td", { class: "right" }, h("span", { class: "strength value", "--s": one.score }, score(one.score)), meter(one.score, `score ${score(one.score)}`))), proofs];
}

function fill(cell, atoms, signal) {
  show(cell, atoms.map((atom) => h("div", { class: "proved" },
    h("p", {}, atom.negated ? "not " : null, name(fact(atom.fact)), " ", h("span", { class: "strength value", "--s": atom.score }, score(atom.score)), " ", atom.stated ? h("span", { class: "badge" }, "stated") : null),
    atom.stated ? null : atom.proofs.map((proof) => {
      const frame = h("div", { class: "proof" });
      queueMicrotask(() => drawProof(frame, proof, signal));
      return [frame, h("pre", { tabindex: "0", "aria-label": "The proof as text" }, name(plain(steps(proof.tree))))];
    }),
    !atom.stated && !atom.negated && !atom.proofs.length ? h("p", { class: "note" }, "The model gives no proof for this.") : null)));
}
