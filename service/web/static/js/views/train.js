// Train: a KB, a preset, the settings that it means, and the jobs there are.
import { all, get, post } from "../api.js";
import { field, h, problem, show } from "../dom.js";
import { cost, significant, status, time } from "../format.js";
import { go, note, to } from "../route.js";
import { table } from "../table.js";

export async function train(root, { params, signal }) {
  const [kbs, jobs] = await Promise.all([all("/kbs", {}, 2000, signal), get("/jobs", { limit: 20, type: "train" }, signal)]);
  const chosen = kbs.find((kb) => kb.name === params.get("kb") || kb.id === params.get("kb")) ?? kbs.find((kb) => kb.name === "family") ?? kbs[0];
  const select = h("select", {}, kbs.map((kb) => h("option", { value: kb.name, selected: kb === chosen }, `${kb.name} (${significant(kb.num_facts)} facts)`)));
  const title = h("input", { value: params.get("name") ?? chosen?.name ?? "", required: true, maxlength: 64, spellcheck: "false", pattern: "[A-Za-z0-9][A-Za-z0-9._\\-]{0,63}" });
  const method = h("select"), meaning = h("p", { class: "note" }), own = () => h("option", { value: "" }, "the preset's own");
  const seeds = h("input", { value: "0", inputmode: "numeric", pattern: "\\s*\\d+(\\s*,\\s*\\d+)*\\s*" });
  const presetPlace = h("div", { class: "stack" }), result = h("div");
  const start = h("button", { type: "submit", class: "primary", disabled: true }, "Start training");
  let settings = null, sending = false;
  const ready = () => { start.disabled = sending || !settings; };
  const load = async (preset) => {
    const kb = select.value, asked = method.value;
    const stale = () => kb !== select.value || asked !== method.value;
    settings = null;
    presetPlace.inert = true; // what is typed now would be lost when the new settings come
    ready();
    try {
      const { items: presets } = await get("/presets", asked ? { kb, method: asked } : { kb }, signal);
      if (stale()) return;
      show(method, own(), presets[0].methods.map((one) => h("option", { value: one, selected: one === asked, title: presets[0].method_texts[one] }, one)));
      show(meaning, asked ? presets[0].method_texts[asked] : "");
      const current = presets.find((one) => one.name === preset) ?? presets.find((one) => one.default) ?? presets[0];
      settings = presetForm(presetPlace, presets, current, load);
      note(to("train", { kb, preset: current.default ? null : current.name, method: asked || null }));
      ready();
    } catch (error) { if (!signal.aborted && !stale()) show(presetPlace, problem(error)); }
    if (!stale()) presetPlace.inert = false;
  };
  select.addEventListener("change", () => { title.value = select.value; show(method); load(settings?.preset); });
  method.addEventListener("change", () => load(settings?.preset));
  const form = h("form", { class: "card stack" },
    h("div", { class: "two" }, field("Knowledge base", select), field("Name of the model", title, "Each training under a name is its next version.")),
    field("Method", method, "What learns. Train another under another name, and compare them under Models."), meaning,
    presetPlace,
    field("Seeds", seeds, "One or more, separated by commas: the best on validation becomes the model."),
    result, h("div", { class: "actions" }, start));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    sending = true;
    ready();
    try {
      const body = { kb: select.value, name: title.value.trim(), preset: settings.preset, config: { ...(method.value && { method: method.value }), ...settings.changes() }, seeds: seeds.value.split(",").map(Number) };
      const { job } = await post("/train", body, signal);
      go(to(["jobs", job.id]));
    } catch (error) { show(result, problem(error)); }
    sending = false;
    ready();
  });
  show(root, h("header", { class: "head" }, h("div", {}, h("h1", {}, "Train"), h("p", {}, "Choose what to learn from. The preset's settings fit the size of the knowledge base; change any of them below."))),
    form, jobList(jobs.items));
  if (params.get("method")) show(method, own(), h("option", { value: params.get("method"), selected: true }, params.get("method")));
  await load(params.get("preset"));
}

/** Radio cards for the presets, and a field for each setting; returns what was chosen and what was changed. */
function presetForm(place, presets, current, load) {
  const fields = Object.entries(current.config).filter(([key]) => key !== "seed").map(([key, value]) => setting(key, value, current.setting_texts?.[key]));
  const inner = Object.entries(current.setting_texts ?? {}).filter(([key]) => key.includes("."));
  const cards = h("fieldset", {}, h("legend", { class: "label" }, "Preset"), h("div", { class: "choices" }, presets.map((preset) =>
    h("label", {}, h("input", { type: "radio", name: "preset", value: preset.name, checked: preset === current, onchange: () => load(preset.name).then(() => place.querySelector("input:checked")?.focus()) }),
      h("strong", {}, preset.name), h("small", {}, `${preset.text} (${preset.config.method})`),
      h("small", { class: "forecast", title: preset.forecast.basis }, cost(preset.forecast))))));
  const details = h("details", { open: place.querySelector("details")?.open }, h("summary", {}, "Settings"), h("div", { class: "settings" }, fields.map((one) => one.element)),
    inner.length ? h("details", {}, h("summary", {}, "What the settings of its parts mean"), h("dl", { class: "pairs meanings" }, inner.map(([key, text]) => [h("dt", { class: "mono" }, key), h("dd", {}, text)]))) : null);
  show(place, cards, details);
  return { preset: current.name, changes: () => Object.fromEntries(fields.filter((one) => one.changed()).map((one) => [one.key, one.value()])) };
}

function setting(key, given, text = "") {
  const boolean = typeof given === "boolean";
  const shown = given != null && typeof given === "object" ? JSON.stringify(given) : String(given ?? "");
  const control = boolean
    ? h("select", {}, ["true", "false"].map((word) => h("option", { value: word, selected: word === shown }, word)))
    : h("input", { value: shown, spellcheck: "false", class: "mono", inputmode: typeof given === "number" ? "decimal" : null, readonly: key === "method" });
  const element = field(key.replaceAll("_", " "), control, text);
  const changed = () => control.value !== shown;
  control.addEventListener("input", () => element.classList.toggle("changed", changed()));
  const value = () => {
    if (typeof given === "string" && given !== "") return control.value;
    if (control.value.trim() === "") return null;
    try { return JSON.parse(control.value); } catch { return control.value; }
  };
  return { key, element, changed, value };
}

function jobList(jobs) {
  const list = table("Trainings", [
    { title: "Training", cell: (job) => h("a", { class: "row-link", href: to(["jobs", job.id]) }, job.model ?? job.id) },
    { title: "Status", value: (job) => job.status, cell: (job) => status(job.status) },
    { title: "Progress", right: true, cell: (job) => (job.progress.done == null ? "–" : `${Math.round(100 * job.progress.done)} %`) },
    { title: "Started", value: (job) => job.created_at, cell: (job) => time(job.created_at) },
  ]);
  list.set(jobs);
  return h("section", { class: "card flush" }, h("div", { class: "card-head" }, h("h2", {}, "Recent trainings")),
    jobs.length ? list.element : h("div", { class: "empty" }, "Nothing was trained yet."));
}
