// Several versions side by side: their curves in one picture, and what differs between them.
import { all, get, path } from "../api.js";
import { chart, colour } from "../chart.js";
import { h, name, show } from "../dom.js";
import { count, score, significant } from "../format.js";
import { to } from "../route.js";
import { curveOf } from "./model.js";

export async function compare(root, { params, signal }) {
  const { models, rules, num_rules, num_shared_rules } = await get("/models/compare", { ids: params.get("ids") ?? "", questions: 0 }, signal);
  const epochs = await Promise.all(models.map((model) => all(path("models", model.id, "metrics"), {}, 10_000, signal)));
  const titles = models.map((model) => `${model.name}@${model.version}`);
  const losses = h("div"), metrics = h("div");
  const legend = () => h("p", { class: "legend" }, titles.map((title, at) => h("span", {}, h("span", { class: "swatch", "--swatch": colour(at) }), h("a", { href: to(["models", title]) }, title))));
  const legends = [legend(), legend()];
  show(root,
    h("header", { class: "head" }, h("div", {}, h("a", { class: "crumb", href: "#/models" }, "Models"), h("h1", {}, "Compare ", titles.join(", ")))),
    h("div", { class: "two" },
      h("section", { class: "card" }, h("div", { class: "card-head" }, h("h2", {}, "Loss"), legends[0]), losses),
      h("section", { class: "card" }, h("div", { class: "card-head" }, h("h2", {}, "Validation"), legends[1]), metrics)),
    differences("Metrics on validation", models, titles, (model) => model.metrics, true),
    differences("Settings", models, titles, (model) => ({ method: model.method, preset: model.preset, ...model.config }), false),
    sideBySide(rules, titles, num_rules, num_shared_rules));
  const charts = [chart(losses, "Loss of each model", signal), chart(metrics, "Validation of each model", signal, "None of them was validated while it trained")];
  // A model has one colour, so one metric of it is drawn: the first, by which it was chosen.
  const curves = (scale) => epochs.flatMap((rows, at) => curveOf(rows, `${titles[at]} `, { stroke: colour(at) }).filter((one) => one.scale === scale).slice(0, scale === "metric" ? 1 : undefined));
  const draw = () => ["loss", "metric"].forEach((scale, place) => charts[place].set(curves(scale)));
  document.addEventListener("themechange", () => { legends.forEach((old, at) => { const next = legend(); old.replaceWith(next); legends[at] = next; }); draw(); }, { signal });
  draw();
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
