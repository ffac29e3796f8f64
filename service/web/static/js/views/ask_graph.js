// A question to a model of graphs: the small graph, drawn or pasted, and the two nodes in question.
import { field, h, show, uid } from "../dom.js";
import { graph } from "../graph.js";
import { go, to } from "../route.js";
import { predicatesOf } from "./kb.js";

const EXAMPLE = "ann, daughter, beth\nbeth, mother, carl";

/** Lines of `subject, predicate, object` (commas or tabs) as facts; a line that does not fit is told by its number. */
export function readFacts(text) {
  const facts = [], wrong = [];
  text.split("\n").forEach((line, at) => {
    if (!line.trim()) return;
    const parts = line.split(line.includes("\t") ? "\t" : ",").map((part) => part.trim());
    if (parts.length === 3 && parts.every(Boolean)) facts.push(parts);
    else wrong.push(at + 1);
  });
  return { facts, wrong };
}

const written = (facts) => facts.map((fact) => fact.join(fact.some((part) => part.includes(",")) ? "\t" : ", ")).join("\n");

export function graphQuestion(model, question, signal) {
  const list = uid("predicates");
  const predicate = h("input", { list, placeholder: "predicate", spellcheck: "false" });
  const options = h("datalist", { id: list });
  predicatesOf(model.lineage.kb_id)("").then((all) => show(options, all.map((one) => h("option", { value: one.name }))));
  const text = h("textarea", { rows: 7, spellcheck: "false", placeholder: EXAMPLE }, question.facts.length ? written(question.facts) : "");
  const from = h("select"), towards = h("select"), message = h("p", { class: "note", role: "status" });
  const canvas = h("div", { class: "canvas", role: "application", "aria-label": "Drawing of the graph; the text field beside it says the same" }, h("span", { class: "tip" }, "Tap an empty place to add a node; tap one node and then another to join them."));
  const form = h("form", { class: "stack" },
    h("div", { class: "drawing" }, canvas, h("div", { class: "stack" },
      field("Facts, one per line", text, "subject, predicate, object"),
      field("Predicate of the next edge you draw", predicate), options)),
    h("div", { class: "sentence" }, field("How is", from), field("related to", towards), h("span"), h("button", { type: "submit", class: "primary" }, "Ask")), message);

  let picture = null, first = null;
  const entities = () => [...new Set(readFacts(text.value).facts.flatMap(([subject, , object]) => [subject, object]))];
  const choose = (select, wanted) => {
    const kept = wanted ?? select.value, all = entities();
    show(select, all.map((entity) => h("option", { value: entity, selected: entity === kept }, entity)));
  };
  const sync = (s = null, o = null) => {
    const { facts, wrong } = readFacts(text.value);
    message.textContent = wrong.length ? `Line ${wrong.join(", ")}: not subject, predicate, object.` : "";
    choose(from, s);
    choose(towards, o);
    if (!o && towards.value === from.value && towards.options.length > 1) towards.value = towards.options[towards.options.length - 1].value;
    if (!picture) return;
    const lone = picture.cy.nodes().filter((node) => node.data("lone") && !entities().includes(node.id())).map((node) => ({ data: { ...node.data() }, position: { ...node.position() } }));
    picture.cy.elements().remove();
    picture.add(facts.map(([subject, predicate_, object]) => ({ subject, predicate: predicate_, object })));
    picture.arrange();
    picture.cy.add(lone);
  };
  const draw = () => {
    picture = graph(canvas, signal);
    picture.cy.on("tap", (event) => {
      if (event.target !== picture.cy) return;
      let number = picture.cy.nodes().length + 1;
      while (picture.cy.getElementById(`n${number}`).nonempty()) number += 1;
      picture.cy.add({ data: { id: `n${number}`, label: `n${number}`, lone: true }, position: { ...event.position } });
    });
    picture.cy.on("tap", "node", ({ target }) => {
      if (!first) { first = target; target.addClass("picked"); return; }
      const source = first.id();
      first.removeClass("picked");
      first = null;
      if (source === target.id()) return;
      if (!predicate.value.trim()) { message.textContent = "Name the predicate of the edge first."; predicate.focus(); return; }
      text.value = `${text.value.trimEnd()}\n${written([[source, predicate.value.trim(), target.id()]])}`.trimStart();
      sync();
    });
    sync(question.goal.subject, question.goal.object);
  };
  text.addEventListener("input", () => sync());
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const { facts } = readFacts(text.value);
    if (!facts.length) { message.textContent = "Give the graph at least one fact."; return; }
    go(to("ask", { model: question.model, s: from.value, o: towards.value, facts: JSON.stringify(facts) }));
  });
  // The canvas has a size only once it is on the page.
  requestAnimationFrame(() => { if (!signal.aborted) draw(); });
  return form;
}
