// Several versions side by side: their curves in one picture, what differs between them, and who is right where.
import { all, get, path } from "../api.js";
import { chart, colour } from "../chart.js";
import { h, name, problem, show } from "../dom.js";
import { count, score, significant } from "../format.js";
import { to } from "../route.js";
import { curveOf } from "./model.js";

export async function compare(root, { params, signal }) {
  const ids = params.get("ids") ?? "";
  const { models, config, metrics: measured, rules, num_rules, num_shared_rules } = await get("/models/compare", { ids, questions: 0 }, signal);
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
    values("Metrics on validation", "Metric", measured, titles),
    values("Settings that differ", "Setting", config, titles),
    sideBySide(rules, titles, num_rules, num_shared_rules));
  const charts = [chart(losses, "Loss of each model", signal), chart(metrics, "Validation of each model", signal, "None of them was validated during training")];
  // A model has one colour, so one metric of it is drawn: the first, by which it was chosen.
  const curves = (scale) => epochs.flatMap((rows, at) => curveOf(rows, `${titles[at]} `, { stroke: colour(at), x: "epoch" }).filter((one) => one.scale === scale).slice(0, scale === "metric" ? 1 : undefined));
  const draw = () => ["loss", "metric"].forEach((scale, place) => charts[place].set(curves(scale)));
  document.addEventListener("themechange", () => { legends.forEach((old, at) => { const next = legend(); old.replaceWith(next); legends[at] = next; }); draw(); }, { signal });
  draw();
  const examine = async (asked) => {
    try {
      const { contest, note: reason } = await get("/models/compare", { ids, ...asked }, signal);
      show(exam, contest ? examined(contest, titles, examine) : note(`The models were not asked questions: ${reason}.`));
    } catch (error) { if (!signal.aborted) show(exam, problem(error)); }
  };
  await examine({});
}

const SURE = 0.01;  // chance below which a difference is taken to be real

const note = (text) => h("section", { class: "card" }, h("p", { class: "note", role: "status" }, text));

/** How often each is right about the questions of every length or predicate, and where they differ. */
function examined(contest, titles, examine) {
  const star = (p) => (p == null || p >= SURE ? "" : p < 0.0001 ? " **" : " *");
  const { disagreements, num_disagreements: differing } = contest;
  const rest = h("button", { type: "button", class: "small", onclick: () => { rest.disabled = true; examine({ disagreements: differing }); } }, `Show all ${count(differing)}`);
  const left = contest.num_left_out ? ` ${count(contest.num_left_out)} with too many other true answers were left out.` : "";
  const cut = contest.truncated ? " The comparison was cut short." : "";
  return [
    h("section", { class: "card flush" }, h("div", { class: "card-head" }, h("h2", {}, "Who is right"), h("span", { class: "note" }, `first answers to ${count(contest.num_questions)} of ${count(contest.num_available)} questions of the ${contest.split} split.${left}${cut} * p < ${SURE}, ** p < 0.0001 against ${titles[0]}`)),
      verdict(contest.groups[0], titles),
      h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Questions"), h("th", { scope: "col", class: "right" }, "Number"), titles.map((title) => h("th", { scope: "col", class: "right" }, title)))),
        h("tbody", {}, contest.groups.map((group) => h("tr", {}, h("th", { scope: "row" }, name(group.name)), h("td", { class: "right" }, count(group.num_questions)),
          group.right.map((share, at) => h("td", { class: "right" }, `${(100 * share).toFixed(1)} %${star(group.p_values[at])}`)))))))),
    h("section", { class: "card stack" }, h("div", { class: "card-head" }, h("h2", {}, "Where they differ"), h("span", { class: "note" }, `${count(disagreements.length)} of ${count(differing)} questions`)),
      differing ? h("ul", { class: "differ" }, disagreements.map((one) => disagreement(one, titles))) : h("p", { class: "note" }, "Nowhere: all give the same first answers."),
      disagreements.length < differing ? h("div", { class: "actions" }, rest) : null),
  ];
}

/** Each against the first in words, and whether that may be chance. */
function verdict({ num_questions: asked, right, p_values }, titles) {
  const [first, ...others] = right.map((share) => Math.round(share * asked));
  const against = (mine, p) => (mine === first ? `as many as ${titles[0]}` : `${count(Math.abs(mine - first))} ${mine > first ? "more" : "fewer"} than ${titles[0]}: ${p < SURE ? "hardly" : "may be"} chance (p = ${Number(p.toPrecision(2))})`);
  return h("ul", { class: "verdict" }, others.map((mine, at) => h("li", {}, h("strong", {}, titles[at + 1]), `: ${count(mine)} of ${count(asked)} right, ${against(mine, p_values[at + 1])}`)));
}

function disagreement({ expected, goal, facts, answers }, titles) {
  const question = { s: goal.subject, p: goal.predicate, o: goal.object, facts: facts.length ? JSON.stringify(facts) : null };
  const open = (value) => value ?? "?";
  return h("li", {}, h("strong", {}, name(`${open(goal.predicate)}(${open(goal.subject)}, ${open(goal.object)})`)), h("span", { class: "note" }, " right: ", name(expected)), facts.length ? h("div", { class: "note" }, "given ", name(facts.map(([s, p, o]) => `${p}(${s}, ${o})`).join(", "))) : null,
    h("ul", {}, answers.map((given, at) => h("li", {}, h("span", { class: `badge ${given.right ? "good" : "bad"}` }, given.right ? "right" : "wrong"), " ", h("a", { href: to("ask", { model: titles[at], ...question }) }, titles[at]), ": ",
      given.answer == null ? "no answer" : [name(given.answer), ` ${score(given.score)}`], given.proof ? h("div", { class: "mono note" }, name(given.proof)) : null))));
}

/** What the versions were trained with, or reached; what is not the same for all stands out. */
function values(title, what, rows, titles) {
  if (!rows.length) return null;
  const cell = (value, same) => h("td", { class: "mono" }, same ? significant(value) : h("strong", {}, significant(value)));
  return h("section", { class: "card flush" }, h("div", { class: "card-head" }, h("h2", {}, title)),
    h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, what), titles.map((one) => h("th", { scope: "col" }, one)))),
      h("tbody", {}, rows.map((row) => h("tr", {}, h("th", { scope: "row" }, row.name.replaceAll("_", " ")), row.values.map((value) => cell(value, new Set(row.values.map(significant)).size === 1))))))));
}

function sideBySide(rules, titles, totals, shared) {
  const confidence = (value) => (value == null ? "–" : h("span", { class: "strength value", "--s": value }, score(value)));
  return h("section", { class: "card flush" }, h("div", { class: "card-head" }, h("h2", {}, "Rules"), h("span", { class: "note" }, `${count(shared)} shared`)),
    h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Confidence in"), titles.map((title, at) => h("th", { scope: "col", class: "right" }, `${title} (${count(totals[at])})`)))),
      h("tbody", {}, rules.map((rule) => h("tr", {}, h("td", { class: "mono" }, name(rule.text)), rule.confidences.map((value) => h("td", { class: "right" }, confidence(value)))))))));
}
