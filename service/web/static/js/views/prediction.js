// Predict all: every missing fact of a predicate that a model believes, started here, followed, and downloaded as a file.
import { all, download, get, path, post, remove } from "../api.js";
import { field, h, name, notify, problem, show } from "../dom.js";
import { count, duration, plural, status, time } from "../format.js";
import { table } from "../table.js";

const ENDED = ["succeeded", "failed", "cancelled"];
const FORMATS = { csv: "CSV", parquet: "Parquet", jsonl: "JSON Lines" };
const LOOK_MILLISECONDS = 700, MOST_PREDICATES = 1000, SHOWN = 20;

export async function prediction(body, found, params, signal) {
  const predicates = await all(path("kbs", found.lineage.kb_id, "predicates"), {}, MOST_PREDICATES, signal).catch(() => []);
  const listed = h("datalist", { id: "predicates" }, predicates.map((one) => h("option", { value: one.name })));
  const predicate = h("input", { list: "predicates", required: true, value: predicates[0]?.name ?? "", spellcheck: "false" });
  const least = h("input", { type: "number", min: 0, max: 1, step: "any", value: "0.5", required: true });
  const proofs = h("input", { type: "checkbox", checked: true });
  const format = h("select", {}, Object.entries(FORMATS).map(([value, title]) => h("option", { value }, title)));
  const start = h("button", { type: "submit", class: "primary" }, "Predict all");
  const result = h("div", { class: "stack" }), earlier = h("div", { class: "stack" });
  const again = () => list(earlier, found, signal).catch((error) => { if (!signal.aborted) show(earlier, problem(error)); });
  const form = h("form", { class: "filters" }, field("Predicate", predicate), listed, field("Score of at least", least), field("Format", format), found.explainable ? field("With the best proof", proofs) : null, h("div", { class: "actions" }, start));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    start.disabled = true;
    try {
      const asked = { model: found.id, predicate: predicate.value, min_score: Number(least.value), proofs: found.explainable && proofs.checked ? 1 : 0, format: format.value };
      await watch((await post("/predictions", asked)).id, result, signal);
    } catch (error) { if (!signal.aborted) show(result, problem(error)); }
    start.disabled = false;
    if (!signal.aborted) again();
  });
  show(body, h("div", { class: "stack" },
    h("section", { class: "card" }, h("div", { class: "card-head" }, h("h2", {}, "Predict all"), h("span", { class: "note" }, "every missing fact of a predicate that the model believes")), form),
    result, earlier));
  await again();
  if (params.get("prediction")) await watch(params.get("prediction"), result, signal);
}

async function watch(id, result, signal) {
  const text = h("span", { class: "note", role: "status" });
  const meter = h("div", { class: "meter wide", role: "progressbar", "aria-label": "Progress", "aria-valuemin": 0, "aria-valuemax": 100 }, h("i"));
  const cancel = h("button", { type: "button", class: "danger", onclick: () => post(path("jobs", id, "cancel")).catch((error) => notify(error.message, true)) }, "Cancel");
  show(result, h("section", { class: "card live" }, h("div", { class: "live-row" }, text, cancel), meter));
  for (;;) {
    const found = await get(path("predictions", id), {}, signal);
    const { text: doing, eta_seconds: left, done } = found.progress;
    meter.style.setProperty("--s", done ?? 0);
    meter.setAttribute("aria-valuenow", Math.round(100 * (done ?? 0)));
    text.textContent = [doing ?? "waiting for a worker", left > 0 && `${duration(left)} left`].filter(Boolean).join(" · ");
    if (found.status === "succeeded") return show(result, outcome(found));
    if (ENDED.includes(found.status)) return show(result, problem({ title: `The prediction ${found.status === "failed" ? "failed" : "was cancelled"}`, message: found.error?.detail ?? "" }));
    await new Promise((resolve) => setTimeout(resolve, LOOK_MILLISECONDS));
    if (signal.aborted) return null;
  }
}

function outcome(found) {
  const said = `${plural(found.num_rows, "row")} from ${plural(found.num_questions, "question")} about `;
  return h("section", { class: "card" }, h("div", { class: "card-head" }, h("h2", {}, "Found"), h("span", { class: "note" }, said, name(found.predicate))),
    found.truncated ? h("p", { class: "note" }, `Not all questions were asked: ${found.stopped_by} ended it.`) : null,
    h("div", { class: "actions" }, save(found)));
}

const save = (found) => found.num_bytes == null ? null
  : h("button", { type: "button", "aria-label": `Download ${FORMATS[found.format]} of ${found.predicate}`, onclick: () => download(path("predictions", found.id, "download"), `${found.predicate}.${found.format}`).catch((error) => notify(error.message, true)) }, `Download ${FORMATS[found.format]}`);

/** Earlier predictions of this model, each with its file while there is one. */
async function list(place, model, signal) {
  const { items } = await get("/predictions", { model: model.id, limit: SHOWN }, signal);
  const drop = (found) => remove(path("predictions", found.id)).then(() => list(place, model, signal)).catch((error) => notify(error.message, true));
  const rows = table("Predictions", [
    { title: "Predicate", value: (found) => found.predicate, cell: (found) => name(found.predicate) },
    { title: "Status", value: (found) => found.status, cell: (found) => status(found.status) },
    { title: "Rows", right: true, value: (found) => found.num_rows, cell: (found) => count(found.num_rows) },
    { title: "Made", value: (found) => found.created_at, cell: (found) => time(found.created_at) },
    { title: "", cell: (found) => h("div", { class: "actions" }, save(found), ENDED.includes(found.status) ? h("button", { type: "button", "aria-label": `Delete the prediction of ${found.predicate}`, onclick: () => drop(found) }, "Delete") : null) },
  ]);
  rows.set(items);
  show(place, items.length ? h("section", { class: "card flush" }, h("div", { class: "card-head" }, h("h2", {}, "Earlier predictions")), rows.element) : null);
}
