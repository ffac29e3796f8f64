// One version of a model: metrics, lineage, aliases, curves, and the rules it learnt with the facts behind them.
import { all, download, get, path, put, remove } from "../api.js";
import { chart, scaleOf, validation } from "../chart.js";
import { field, h, notify, problem, show } from "../dom.js";
import { count, mainMetric, score, significant, status, time } from "../format.js";
import { explained } from "../meanings.js";
import { go, to } from "../route.js";
import { table } from "../table.js";
import { evaluation } from "./evaluation.js";
import { prediction } from "./prediction.js";
import { rules } from "./rules.js";

const TABS = { rules: "Rules", evaluation: "Evaluation", prediction: "Predict all", curves: "Curves", about: "About" };

export async function model(root, { segments, params, signal }) {
  const found = await get(path("models", segments[1]), {}, signal);
  const reference = `${found.name}@${found.version}`;
  const tab = params.get("tab") in TABS ? params.get("tab") : "rules";
  const body = h("div");
  const ready = found.status === "ready";
  show(root,
    h("header", { class: "head" },
      h("div", {}, h("a", { class: "crumb", href: "#/models" }, "Models"),
        h("h1", {}, found.name, h("span", { class: "muted" }, ` version ${found.version}`)),
        h("p", {}, status(found.status), " ", found.aliases.map((alias) => [h("span", { class: "badge alias" }, alias), " "]), `${found.method}, preset ${found.preset ?? "–"}, made `, time(found.created_at))),
      h("div", { class: "actions" },
        ready ? h("a", { class: "button primary", href: to("ask", { model: reference }) }, "Ask it") : null,
        ready ? h("a", { class: "button", href: to(["models", reference], { tab: "evaluation" }) }, "Evaluate") : null,
        ready && found.kind === "facts" ? h("a", { class: "button", href: to(["models", reference], { tab: "prediction" }) }, "Predict all") : null,
        ready ? h("button", { type: "button", onclick: () => rename(found) }, "Set alias") : null,
        ready ? h("button", { type: "button", onclick: () => download(path("models", found.id, "export"), `${reference}.ctp`).catch((error) => notify(error.message, true)) }, "Export") : null,
        h("button", { type: "button", class: "danger", onclick: () => drop(found, reference) }, "Delete"))),
    figures(found),
    h("nav", { class: "segmented", "aria-label": "Parts of this model" }, Object.entries(TABS).filter(([key]) => key !== "prediction" || found.kind === "facts").map(([key, title]) =>
      h("a", { href: to(["models", reference], { tab: key === "rules" ? null : key }), "aria-current": key === tab ? "page" : null }, title))),
    body);
  await { rules, evaluation, prediction, curves, about }[tab](body, found, params, signal, reference);
}

function figures(found) {
  const numbers = Object.entries(found.metrics).filter(([, value]) => typeof value === "number").slice(0, 6);
  if (!numbers.length) return null;
  const [best] = mainMetric(found.metrics);
  return h("dl", { class: "stats" }, numbers.sort(([a], [b]) => (b === best) - (a === best)).map(([key, value]) => h("div", {}, h("dt", {}, explained(key, "on validation")), h("dd", {}, significant(value)))));
}

function rename(found) {
  const input = h("input", { value: "champion", required: true, pattern: "[A-Za-z][A-Za-z0-9._\\-]{0,63}", spellcheck: "false" });
  const result = h("div");
  const dialog = h("dialog", { "aria-labelledby": "alias-title" }, h("form", {},
    h("h2", { id: "alias-title" }, `Set an alias for version ${found.version}`), field("Alias", input, `This version can then be asked as ${found.name}@alias.`), result,
    h("div", { class: "actions" }, h("button", { type: "submit", class: "primary" }, "Set"), h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"))));
  dialog.addEventListener("close", () => dialog.remove());
  dialog.querySelector("form").addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      await put(path("models", found.name, "aliases", input.value), { version: found.version });
      dialog.close();
      dispatchEvent(new HashChangeEvent("hashchange"));
    } catch (error) { show(result, problem(error)); }
  });
  document.body.append(dialog);
  dialog.showModal();
}

async function drop(found, reference) {
  if (!confirm(`Delete ${reference}? Its rules and files are deleted too.`)) return;
  try {
    await remove(path("models", found.id));
    notify(`${reference} is deleted`);
    go("#/models");
  } catch (error) { notify(error.message, true); }
}

/**
 * Series of one model's epochs; `title` tells several models apart. Where epochs have no loss that could be compared,
 * because each learns another predicate, the curve is the validation over the seconds since the first of them.
 */
export function curveOf(epochs, title = "", style = {}) {
  const x = style.x ?? (lossless(epochs) ? "seconds" : "epoch");
  const at = (one) => (x === "seconds" ? (new Date(one.created_at) - new Date(epochs[0].created_at)) / 1000 : one.epoch);
  const series = [{ label: `${title}loss`, scale: "loss", points: epochs.filter((one) => one.loss != null).map((one) => [at(one), one.loss]), x, ...style }];
  const keys = new Set(epochs.flatMap((one) => Object.keys(one.metrics ?? {})));
  for (const key of keys) {
    const points = epochs.filter((one) => typeof one.metrics[key] === "number").map((one) => [at(one), one.metrics[key]]);
    if (points.length) series.push({ label: `${title}${validation(key)}`, scale: scaleOf(key), points, x, ...style });
  }
  return series;
}

/** Whether epochs were validated that have no loss: trials have neither. */
export const lossless = (epochs) => epochs.some((one) => one.loss == null && Object.keys(one.metrics ?? {}).length);

/** What was tried to find the settings, in the order of the trials. */
export function trialsTable(trials) {
  const settings = [...new Set(trials.flatMap((trial) => Object.keys(trial.settings)))];
  const list = table("What was tried", [
    { title: "Tried", right: true, value: (one) => one.number, cell: (one) => count(one.number) },
    ...settings.map((key) => ({ title: key.replaceAll("_", " "), right: true, value: (one) => one.settings[key], cell: (one) => significant(one.settings[key]) })),
    { title: trials[0].metric, right: true, value: (one) => one.value, cell: (one) => score(one.value) },
    { title: "CPU s", right: true, value: (one) => one.cpu_seconds, cell: (one) => one.cpu_seconds.toFixed(1) },
    { hidden: "Chosen", cell: (one) => (one.chosen ? h("span", { class: "badge good" }, "chosen") : "") },
  ]);
  list.set(trials.map((trial, at) => ({ ...trial, number: at + 1 })));
  return list.element;
}

async function curves(body, found, params, signal, reference) {
  const epochs = await all(path("models", found.id, "metrics"), {}, 10_000, signal);
  const place = h("div");
  show(body, h("section", { class: "card" }, h("div", { class: "card-head" }, h("h2", {}, lossless(epochs) ? "Validation over time" : "Loss and validation")), place));
  chart(place, `Curves of ${reference}`, signal, "No epoch was recorded").set(curveOf(epochs));
}

async function about(body, found) {
  const { lineage } = found;
  const pairs = (entries) => h("dl", { class: "pairs" }, entries.map(([key, value]) => [h("dt", {}, key.replaceAll("_", " ")), h("dd", { class: "mono" }, value)]));
  show(body, h("div", { class: "stack" },
    h("section", { class: "card" }, h("div", { class: "card-head" }, h("h2", {}, "Lineage")), pairs([
      ["id", found.id], ["KB", lineage.kb_id ? h("a", { href: to(["kbs", lineage.kb_id]) }, lineage.kb_name ?? lineage.kb_id) : "–"], ["KB sha256", lineage.kb_sha256], ["code version", lineage.code_version],
      ["seed", significant(lineage.seed)], ["training", lineage.job_id ? h("a", { href: to(["jobs", lineage.job_id]) }, lineage.job_id) : "–"],
      ...(lineage.imported_from ? [["imported from", significant(lineage.imported_from)]] : []), ["ready", time(found.ready_at)]])),
    h("section", { class: "card" }, h("div", { class: "card-head" }, h("h2", {}, "Settings")), pairs(Object.entries(found.config).map(([key, value]) => [key, significant(value)]))),
    found.trials?.length ? h("section", { class: "card flush" }, h("div", { class: "card-head" }, h("h2", {}, "What was tried"), h("span", { class: "note" }, "on facts held out of this KB, to find the settings")), trialsTable(found.trials)) : null,
    Object.keys(found.metrics).length ? h("section", { class: "card" }, h("div", { class: "card-head" }, h("h2", {}, "Metrics on validation")), pairs(Object.entries(found.metrics).map(([key, value]) => [key, significant(value)]))) : null));
}
