// The rules of a model, grouped by what they conclude, with the facts behind each.
import { all, get, path, text } from "../api.js";
import { copy, field, h, name, notify, problem, show } from "../dom.js";
import { count, plural, score } from "../format.js";
import { meaning } from "../meanings.js";
import { note, to } from "../route.js";
import { table } from "../table.js";

const MOST_RULES = 5000, SHOWN_GROUNDINGS = 20, SHOWN_RULES = 3;

export async function rules(body, found, params, signal, reference) {
  if (found.status !== "ready") {
    const job = found.lineage.job_id;
    show(body, h("div", { class: "card empty" }, `This version is ${found.status}.`, job ? h("a", { class: "button", href: to(["jobs", job]) }, "See its training") : null));
    return;
  }
  const listed = () => all(path("models", found.id, "rules"), named.checked ? { constants: true } : {}, MOST_RULES, signal);
  const named = h("input", { type: "checkbox", checked: params.get("constants") === "true" });
  let items = await listed();
  const facts = await factsOf(found, signal);
  const search = h("input", { type: "search", value: params.get("q") ?? "", placeholder: "predicate or text", spellcheck: "false" });
  const least = h("input", { type: "number", min: 0, max: 1, step: 0.05, value: params.get("min") ?? "0" });
  const tally = h("span", { class: "note", role: "status" });
  const share = (value) => (value == null ? "–" : h("span", { class: "strength value", "--s": value }, score(value)));
  const list = table("Rules", [
    { title: "Rule", class: "rule", value: (r) => r.text, cell: (r) => h("button", { type: "button", class: "plain mono", "aria-expanded": "false", "data-rule": r.id }, name(r.text), r.approximate ? h("span", { class: "badge", title: "A predicate of the body is the nearest name to a generated vector" }, "≈") : null) },
    { title: "Confidence", hint: meaning("confidence"), right: true, value: (r) => r.confidence, cell: (r) => share(r.confidence) },
    { title: "Weight", hint: meaning("weight"), right: true, value: (r) => r.weight, cell: (r) => (r.weight == null ? "–" : r.weight.toFixed(2)) },
    { title: "Support", hint: meaning("support"), right: true, value: (r) => r.support, cell: (r) => count(r.support) },
    { title: "Precision", hint: meaning("precision"), right: true, value: (r) => r.precision, cell: (r) => share(r.precision) },
  ], { groups: { of: (r) => r.head.predicate, heading: (predicate, group) => heading(predicate, group, facts.get(predicate)), first: SHOWN_RULES } });
  const draw = () => {
    const words = search.value.toLowerCase(), from = Number(least.value) || 0;
    const shown = items.filter((rule) => rule.confidence >= from && rule.text.toLowerCase().includes(words));
    list.set(shown);
    tally.textContent = `${plural(shown.length, "rule")}${shown.length < items.length ? ` of ${count(items.length)}` : ""}`;
    note(to(["models", reference], { q: search.value, min: from || null, constants: named.checked || null }));
  };
  search.addEventListener("input", draw);
  least.addEventListener("input", draw);
  named.addEventListener("change", async () => {
    try { items = await listed(); draw(); } catch (error) { notify(error.message, true); }
  });
  list.element.addEventListener("click", (event) => {
    const button = event.target.closest("[data-rule]");
    if (button) toggle(button, items.find((rule) => rule.id === button.dataset.rule), found, signal);
  });
  draw();
  show(body, h("section", { class: "card flush rules" },
    h("div", { class: "filters", role: "search" }, field("Search", search), field("Confidence of at least", least), field("With named entities", named), h("div", { class: "actions" }, tally),
      h("button", { type: "button", onclick: () => prolog(found) }, "Copy as Prolog")),
    items.length ? list.element : h("div", { class: "empty" }, "This model has no rules to show.")));
}

/** How many facts each predicate has; nothing where the KB is not here, or has no one number for it. */
async function factsOf(found, signal) {
  const kb = found.lineage.kb_id;
  if (kb == null || found.kind === "graphs") return new Map();
  const predicates = await all(path("kbs", kb, "predicates"), {}, MOST_RULES, signal).catch(() => []);
  return new Map(predicates.map((one) => [one.name, one.num_facts]));
}

/** What is said of a head: how many rules it has, and how many of its facts the one with the most support explains. */
function heading(predicate, group, facts) {
  const best = Math.max(...group.map((rule) => rule.support ?? 0));
  const explains = facts && best ? `${group.length > 1 ? "one of them" : "it"} explains ${count(Math.min(best, facts))} of ${plural(facts, "fact")}` : null;
  return [name(predicate, { class: "mono" }), " ", h("span", { class: "note" }, [plural(group.length, "rule"), explains].filter(Boolean).join("; "))];
}

async function prolog(found) {
  try { await copy(await text(`${path("models", found.id, "rules")}?limit=1000`, "text/plain"), "The rules"); } catch (error) { notify(error.message, true); }
}

/** Opens the facts behind a rule in a row of their own, or closes it. */
async function toggle(button, rule, found, signal) {
  const line = button.closest("tr");
  if (button.getAttribute("aria-expanded") === "true") {
    button.setAttribute("aria-expanded", "false");
    line.nextElementSibling.remove();
    return;
  }
  button.setAttribute("aria-expanded", "true");
  const cell = h("td", { colspan: line.children.length }, h("span", { class: "note" }, "Looking for its facts…"));
  line.after(h("tr", { class: "open" }, cell));
  try {
    const page = await get(path("models", found.id, "rules", rule.id, "groundings"), { limit: SHOWN_GROUNDINGS }, signal);
    show(cell, page.items.length ? h("ul", { class: "groundings mono" }, page.items.map((item) => grounding(rule, item))) : "No facts of the KB fit the rule.",
      page.truncated ? h("span", { class: "note" }, "The search ran out of time: there may be more.")
        : page.next_cursor ? h("span", { class: "note" }, `The first ${SHOWN_GROUNDINGS}.`) : null);
  } catch (error) { if (!signal.aborted) show(cell, problem(error)); }
}

const written = (f) => `${f.predicate}(${f.subject}, ${f.object})`;

/** The facts of the body, and the head that follows from them. */
function grounding(rule, { facts, known }) {
  const bound = new Map(rule.body.flatMap((atom, at) => [[atom.subject, facts[at].subject], [atom.object, facts[at].object]]));
  const value = (variable) => bound.get(variable) ?? variable;
  const head = { predicate: rule.head.predicate, subject: value(rule.head.subject), object: value(rule.head.object) };
  return h("li", {}, name(written(head)), " ⇐ ", facts.map((f, at) => [at ? ", " : "", name(written(f))]), " ",
    known ? null : h("span", { class: "badge warn" }, "not in the KB"));
}
