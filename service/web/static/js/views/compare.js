// Several versions side by side: their curves in one picture, what differs between them, and who is right where.
import { all, get, path } from "../api.js";
import { chart, colour } from "../chart.js";
import { h, name, problem, show } from "../dom.js";
import { count, score, significant } from "../format.js";
import { to } from "../route.js";
import { curveOf } from "./model.js";

export async function compare(root, { params, signal }) {
  const ids = params.get("ids") ?? "";
  const { models, rules, num_rules, num_shared_rules } = await get("/models/compare", { ids, questions: 0 }, signal);
  const epochs = await Promise.all(models.map((model) => all(path("models", model.id, "metrics"), {}, 10_000, signal)));
  const titles = models.map((model) => `${model.name}@${model.version}`);
  const losses = h("div"), metrics = h("div"), exam = h("div", { class: "stack" }, note("Asking all of them the same questions…"));
  const legend = () => h("p", { class: "legend" }, titles.map((title, at) => h("span", {}, h("span", { class: "swatch", "--swatch": colour(at) }), h("a", { href: to(["models", title]) }, title))));
  const legends = [legend(), legend()];
  show(root,
    h("header", { class: "head" }, h("div", {}, h("a", { class: "crumb", href: "#/models" }, "Models"), h("h1", {}, "Compare ", titles.join(", ")))),
    h("div", { class: "two" },
      h("section", { class: "card" }, h("div", { class: "card-head" }, h("h2", {}, "Loss"), legends[0]), losses),
      h("section", { class: "card" }, h("div", { class: "card-head" }, h("h2", {}, "Validation"), legends[1]), metrics)),
    exam,
    differences("Metrics on validation", models, titles, (model) => model.metrics, true),
    differences("Settings", models, titles, (model) => ({ method: model.method, preset: model.preset, ...model.config }), false),
    sideBySide(rules, titles, num_rules, num_shared_rules));
  const charts = [chart(losses, "Loss of each model", signal), chart(metrics, "Validation of each model", signal, "None of them was validated while it trained")];
  // A model has one colour, so one metric of it is drawn: the first, by which it was chosen.
  const curves = (scale) => epochs.flatMap((rows, at) => curveOf(rows, `${titles[at]} `, { stroke: colour(at) }).filter((one) => one.scale === scale).slice(0, scale === "metric" ? 1 : undefined));
  const draw = () => ["loss", "metric"].forEach((scale, place) => charts[place].set(curves(scale)));
  document.addEventListener("themechange", () => { legends.forEach((old, at) => { const next = legend(); old.replaceWith(next); legends[at] = next; }); draw(); }, { signal });
  draw();
  try {
    const { evaluation, note: reason } = await get("/models/compare", { ids }, signal);
    show(exam, evaluation ? examined(evaluation, titles) : note(`Not compared by questions: ${reason}.`));
  } catch (error) { if (!signal.aborted) show(exam, problem(error)); }
}

const SHOWN = 20;  // disagreements that are listed at most

const note = (text) => h("section", { class: "card" }, h("p", { class: "note", role: "status" }, text));

/** How often each is right about the questions of every length or predicate, and where they differ. */
function examined(evaluation, titles) {
  const star = (p) => (p == null || p >= 0.01 ? "" : p < 0.0001 ? " **" : " *");
  const left = evaluation.num_left_out ? ` ${count(evaluation.num_left_out)} with too many other true answers were left out.` : "";
  return [
    h("section", { class: "card flush" }, h("div", { class: "card-head" }, h("h2", {}, "Who is right"), h("span", { class: "note" }, `first answers to ${count(evaluation.num_questions)} questions of the ${evaluation.split} split.${left} * p < 0.01, ** p < 0.0001 against ${titles[0]}`)),
      h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Questions"), h("th", { scope: "col", class: "right" }, "Number"), titles.map((title) => h("th", { scope: "col", class: "right" }, title)))),
        h("tbody", {}, evaluation.groups.map((group) => h("tr", {}, h("th", { scope: "row" }, name(group.name)), h("td", { class: "right" }, count(group.num_questions)),
          group.right.map((share, at) => h("td", { class: "right" }, `${(100 * share).toFixed(1)} %${star(group.p_values[at])}`)))))))),
    h("section", { class: "card stack" }, h("div", { class: "card-head" }, h("h2", {}, "Where they differ"), evaluation.disagreements.length === SHOWN ? h("span", { class: "note" }, `the first ${SHOWN}`) : null),
      evaluation.disagreements.length ? h("ul", { class: "differ" }, evaluation.disagreements.map((one) => disagreement(one, titles))) : h("p", { class: "note" }, "Nowhere: all give the same first answers.")),
  ];
}

function disagreement({ expected, group, goal, facts, answers }, titles) {
  const question = { s: goal.subject, p: goal.predicate, o: goal.object, facts: facts.length ? JSON.stringify(facts) : null };
  return h("li", {}, h("strong", {}, name(expected)), " ", name(group, { class: "note" }),
    h("ul", {}, answers.map((given, at) => h("li", {}, h("span", { class: `badge ${given.right ? "good" : "bad"}` }, given.right ? "right" : "wrong"), " ", h("a", { href: to("ask", { model: titles[at], ...question }) }, titles[at]), ": ",
      given.answer == null ? "no answer" : [name(given.answer), ` ${score(given.score)}`], given.proof ? h("div", { class: "mono note" }, name(given.proof)) : null))));
}

function differences(title, models, titles, values, numbers) {
  const columns = models.map(values);
  const keys = [...new Set(columns.flatMap(Object.keys))];
  const written = (value) => (value !== null && typeof value === "object" ? JSON.stringify(value) : significant(value));
  const rows = keys.map((key) => [key, columns.map((column) => written(column[key]))])
    .sort(([, a], [, b]) => (new Set(b).size > 1) - (new Set(a).size > 1));
  if (!rows.length) return null;
  return h("section", { class: "card flush" }, h("div", { class: "card-head" }, h("h2", {}, title)),
    h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, numbers ? "Metric" : "Setting"), titles.map((one) => h("th", { scope: "col", class: numbers && "right" }, one)))),
      h("tbody", {}, rows.map(([key, cells]) => h("tr", {}, h("th", { scope: "row" }, key.replaceAll("_", " ")), cells.map((cell) => h("td", { class: numbers ? "right" : "mono" }, new Set(cells).size > 1 ? h("strong", {}, cell) : cell))))))));
}

function sideBySide(rules, titles, totals, shared) {
  const confidence = (value) => (value == null ? "–" : h("span", { class: "strength value", "--s": value }, score(value)));
  return h("section", { class: "card flush" }, h("div", { class: "card-head" }, h("h2", {}, "Rules"), h("span", { class: "note" }, `${count(shared)} shared`)),
    h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Confidence in"), titles.map((title, at) => h("th", { scope: "col", class: "right" }, `${title} (${count(totals[at])})`)))),
      h("tbody", {}, rules.map((rule) => h("tr", {}, h("td", { class: "mono" }, name(rule.text)), rule.confidences.map((value) => h("td", { class: "right" }, confidence(value)))))))));
}
