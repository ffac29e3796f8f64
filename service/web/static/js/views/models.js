// Models: every version, and a choice of them to compare.
import { all, upload } from "../api.js";
import { h, notify, show } from "../dom.js";
import { mainMetric, score, status, time } from "../format.js";
import { go, to } from "../route.js";
import { table } from "../table.js";

const MOST_COMPARED = 10;

/** The method, with what tells `ntp` from `ctp` and one encoding from the other. */
const variant = ({ method, config }) => [method, config.select, config.encoding].filter(Boolean).join(" ");

export async function models(root, { signal }) {
  const items = await all("/models", {}, 1000, signal);
  const chosen = new Set();
  const compare = h("a", { class: "button", "aria-disabled": "true" }, "Compare");
  const choose = (id, on) => {
    on ? chosen.add(id) : chosen.delete(id);
    const enough = chosen.size > 1 && chosen.size <= MOST_COMPARED;
    compare.setAttribute("aria-disabled", String(!enough));
    if (enough) compare.href = to(["models", "compare"], { ids: [...chosen].join(",") });
    else compare.removeAttribute("href");
    compare.textContent = chosen.size > MOST_COMPARED ? `At most ${MOST_COMPARED}` : chosen.size ? `Compare ${chosen.size}` : "Compare";
  };
  const list = table("Models", [
    { title: "", hidden: "Choose to compare", cell: (m) => h("input", { type: "checkbox", "aria-label": `Compare ${m.name} version ${m.version}`, onchange: (event) => choose(m.id, event.target.checked) }) },
    { title: "Model", value: (m) => `${m.name}@${String(m.version).padStart(6, "0")}`, cell: (m) => [h("a", { class: "row-link", href: to(["models", `${m.name}@${m.version}`]) }, m.name), h("span", { class: "muted" }, ` version ${m.version}`), m.aliases.map((alias) => [" ", h("span", { class: "badge alias" }, alias)])] },
    { title: "Status", value: (m) => m.status, cell: (m) => status(m.status) },
    { title: "KB", value: (m) => m.lineage.kb_name ?? "", cell: (m) => (m.lineage.kb_name ? h("a", { href: to(["kbs", m.lineage.kb_name]) }, m.lineage.kb_name) : "–") },
    { title: "Method", value: variant, cell: (m) => [variant(m), m.explainable ? null : h("span", { class: "muted" }, " no proofs")] },
    { title: "Metric", right: true, value: (m) => mainMetric(m.metrics)?.[1], cell: (m) => { const best = mainMetric(m.metrics); return best ? [h("span", { class: "muted" }, `${best[0]} `), score(best[1])] : "–"; } },
    { title: "Made", value: (m) => m.created_at, cell: (m) => time(m.created_at) },
  ]);
  list.set(items);
  const input = h("input", { type: "file", class: "visually-hidden", tabindex: "-1", "aria-label": "Archive to import" });
  input.addEventListener("change", () => input.files.length && bring(input.files[0]));
  show(root,
    h("header", { class: "head" },
      h("div", {}, h("h1", {}, "Models"), h("p", {}, "A version never changes. An alias such as champion can be moved from one version to another.")),
      h("div", { class: "actions" }, compare, h("button", { type: "button", onclick: () => input.click() }, "Import"), input, h("a", { class: "button primary", href: "#/train" }, "Train"))),
    h("section", { class: "card flush" }, items.length ? list.element
      : h("div", { class: "empty" }, "No model yet.", h("a", { class: "button", href: "#/train" }, "Train the first one"))));
}

async function bring(file) {
  const form = new FormData();
  form.set("file", file);
  try {
    const model = await upload("/models/import", form, () => {});
    notify(`${model.name}@${model.version} was imported`);
    go(to(["models", `${model.name}@${model.version}`]));
  } catch (error) { notify(error.message, true); }
}
