// How good a model is: an evaluation of it on a split, started here, with its figures by predicate and its reliability.
import { get, path, post } from "../api.js";
import { field, h, name, problem, show } from "../dom.js";
import { count, duration, mainMetric, meter, plural, score } from "../format.js";

const ENDED = ["succeeded", "failed", "cancelled"];
const LOOK_MILLISECONDS = 700, MOST_BARS = 20, SIDE = 200;

export async function evaluation(body, found, params, signal) {
  const split = h("select", {}, h("option", { value: "test" }, "test"), h("option", { value: "valid" }, "valid"));
  const limit = h("input", { type: "number", min: 1, placeholder: "all" });
  const start = h("button", { type: "submit", class: "primary" }, "Evaluate");
  const state = h("p", { class: "note", role: "status" }), result = h("div", { class: "stack" });
  const form = h("form", { class: "filters" }, field("Split", split), field("Sample", limit), h("div", { class: "actions" }, start));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    start.disabled = true;
    try {
      const asked = { model: found.id, split: split.value, ...(limit.value ? { limit: Number(limit.value) } : {}) };
      await watch((await post("/evaluations", asked)).id, state, result, signal);
    } catch (error) { if (!signal.aborted) show(result, problem(error)); }
    start.disabled = false;
  });
  show(body, h("div", { class: "stack" },
    h("section", { class: "card" }, h("div", { class: "card-head" }, h("h2", {}, "Evaluation"), h("span", { class: "note" }, "asks for facts that the model was not trained on")), form, state),
    result));
  const shown = params.get("evaluation") ?? found.evaluations?.[0]?.id;
  if (shown) await watch(shown, state, result, signal);
}

async function watch(id, state, result, signal) {
  show(result);
  for (;;) {
    const found = await get(path("evaluations", id), {}, signal);
    const { text, eta_seconds: left } = found.progress;
    state.textContent = ENDED.includes(found.status) ? "" : [text ?? "waiting for a worker", left > 0 && `${duration(left)} left`].filter(Boolean).join(" · ");
    if (found.status === "succeeded") return show(result, figures(found));
    if (ENDED.includes(found.status)) return show(result, problem({ title: `The evaluation ${found.status === "failed" ? "failed" : "was cancelled"}`, message: found.error?.detail ?? "" }));
    await new Promise((resolve) => setTimeout(resolve, LOOK_MILLISECONDS));
    if (signal.aborted) return null;
  }
}

function figures(found) {
  const of = `${plural(found.num_items, found.by_length.length ? "graph" : "fact")} of ${found.split} of ${found.kb ?? "a deleted KB"}${found.num_items < found.num_available ? `, a sample of ${count(found.num_available)}` : ""}`;
  const [main] = mainMetric(found.metrics);
  const parts = [...found.by_direction.map((one) => ({ ...one, name: `asked for the ${one.name}` })), ...found.by_length.map((one) => ({ ...one, name: `${one.name} facts` })), ...(found.unseen?.num_items ? [found.unseen] : [])];
  return [
    h("section", { class: "card" }, h("div", { class: "card-head" }, h("h2", {}, `On ${found.split}`), h("span", { class: "note" }, of)),
      h("dl", { class: "stats" }, Object.entries(found.metrics).map(([key, value]) => h("div", {}, h("dt", {}, `${key} on ${found.split}`), h("dd", {}, score(value))))),
      bars(parts, main)),
    h("section", { class: "card" }, h("div", { class: "card-head" }, h("h2", {}, found.by_length.length ? "By label" : "By predicate"), h("span", { class: "note" }, `${main}, the most frequent first`)),
      bars(found.by_predicate.slice(0, MOST_BARS), main),
      found.by_predicate.length > MOST_BARS ? h("details", {}, h("summary", {}, `${count(found.by_predicate.length - MOST_BARS)} more`), bars(found.by_predicate.slice(MOST_BARS), main)) : null),
    found.calibration ? h("section", { class: "card" }, h("div", { class: "card-head" }, h("h2", {}, "Reliability"), h("span", { class: "note" }, `calibration error ${score(found.calibration.ece)}: on the line, probabilities come true as often as they say`)), reliability(found.calibration)) : null];
}

/** A bar for each group, as long as its metric. */
function bars(groups, metric) {
  return h("ul", { class: "bars" }, groups.map((one) => h("li", {}, h("span", { class: "mono" }, name(one.name)), meter(one.metrics[metric], `${metric} ${score(one.metrics[metric])}`),
    h("span", { class: "value" }, score(one.metrics[metric])), h("span", { class: "note" }, count(one.num_items)))));
}

const draw = (tag, attributes, ...children) => {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
};

/** The share of answers that is true over their mean probability; a larger dot stands for more answers. */
function reliability({ bins }) {
  const most = Math.max(1, ...bins.map((one) => one.answers));
  const title = (one) => draw("title", {}, `${Math.round(one.answers)} answers scored ${score(one.score)}: ${score(one.true)} are true`);
  const dots = bins.map((one) => draw("circle", { cx: one.score * SIDE, cy: (1 - one.true) * SIDE, r: 3 + 6 * Math.sqrt(one.answers / most) }, title(one)));
  const said = bins.map((one) => `${score(one.score)}: ${score(one.true)}`).join(", ");
  return h("figure", { class: "reliability" }, draw("svg", { viewBox: `-10 -10 ${SIDE + 20} ${SIDE + 20}`, role: "img", "aria-label": `Share that is true by probability: ${said}` },
    draw("rect", { width: SIDE, height: SIDE }), draw("line", { x1: 0, y1: SIDE, x2: SIDE, y2: 0 }), ...dots),
  h("figcaption", { class: "note" }, "across: probability, up: share that is true"));
}
