// One training, live: where it is, the curves, how long it will take, and a way to stop it.
import { get, path, post } from "../api.js";
import { chart } from "../chart.js";
import { h, name, notify, problem, show } from "../dom.js";
import { follow } from "../events.js";
import { cost, duration, significant, status } from "../format.js";
import { to } from "../route.js";
import { curveOf, lossless, trialsTable } from "./model.js";

const ENDED = ["succeeded", "failed", "cancelled"];

export async function job(root, { segments, signal }) {
  const id = segments[1];
  const first = await get(path("jobs", id), {}, signal);
  if (first.type === "evaluate") {
    location.replace(to(["models", first.model_id], { tab: "evaluation", evaluation: id }));
    return;
  }
  if (first.type === "predict") {
    location.replace(to(["models", first.model_id], { tab: "prediction", prediction: id }));
    return;
  }
  const model = await get(path("models", first.model_id), {}, signal).catch(() => null);
  const reference = model ? `${model.name}@${model.version}` : first.model_id;
  const state = h("span"), text = h("span", { class: "note" }), link = h("span", { class: "note", role: "status" }), outcome = h("div", { class: "stack" });
  const meter = h("div", { class: "meter wide", role: "progressbar", "aria-label": "Progress", "aria-valuemin": 0, "aria-valuemax": 100 }, h("i"));
  const cancel = h("button", { type: "button", class: "danger", onclick: () => stop(id, cancel) }, "Cancel");
  const place = h("div"), tried = h("div", { class: "stack" }), heading = h("h2", {}, "Loss and validation");
  show(root,
    h("header", { class: "head" },
      h("div", {}, h("a", { class: "crumb", href: "#/train" }, "Train"), h("h1", {}, "Training ", name(reference)), h("p", {}, model ? `${model.method}, preset ${model.preset ?? "–"}` : null)),
      h("div", { class: "actions" }, cancel)),
    h("section", { class: "card live" }, h("div", { class: "live-row" }, h("span", {}, state, " ", text), link), meter),
    outcome,
    tried,
    h("section", { class: "card" }, h("div", { class: "card-head" }, heading), place),
    model ? h("section", { class: "card" }, h("details", {}, h("summary", {}, "Settings"), h("dl", { class: "pairs" }, Object.entries(model.config).map(([key, value]) => [h("dt", {}, key.replaceAll("_", " ")), h("dd", { class: "mono" }, significant(value))])))) : null);
  const curves = chart(place, `Curves of ${reference}`, signal);
  const epochs = new Map();  // those of each seed
  let pending = false, numTried = 0;
  const redraw = () => {
    if (pending) return;
    pending = true;
    requestAnimationFrame(() => {
      pending = false;
      if (signal.aborted) return;
      if (lossless([...epochs.values()].flat())) heading.textContent = "Validation over time";
      curves.set([...epochs].flatMap(([seed, rows]) => curveOf(rows, epochs.size > 1 ? `seed ${seed} ` : "")));
    });
  };
  const add = (data) => {
    if (!epochs.has(data.seed)) epochs.set(data.seed, []);
    const rows = epochs.get(data.seed);
    if (!rows.length || rows.at(-1).epoch < data.epoch) rows.push(data);
  };
  const progress = (data) => {
    if (data?.done == null) return;
    meter.style.setProperty("--s", data.done);
    meter.setAttribute("aria-valuenow", Math.round(100 * data.done));
    text.textContent = [data.text, data.phase === "fitting" && data.loss != null && `loss ${significant(data.loss)}`, data.eta_seconds > 0 && `${duration(data.eta_seconds)} left`].filter(Boolean).join(" · ");
    if ((data.trials?.length ?? 0) > numTried) {
      numTried = data.trials.length;
      show(tried, h("section", { class: "card flush" }, h("div", { class: "card-head" }, h("h2", {}, "What was tried")), trialsTable(data.trials)));
    }
  };
  const settle = (data) => {
    show(state, status(data.status));
    progress(data.progress);
    if (data.status === "queued") text.textContent = ["waiting for a worker", data.forecast && `expected: ${cost(data.forecast)}`].filter(Boolean).join(" · ");
    if (data.waiting_for) text.textContent = `waiting for ${data.waiting_for}, which cannot be reached now`;
    cancel.hidden = ENDED.includes(data.status);
    if (data.status === "succeeded") {
      show(outcome, h("div", { class: "actions" }, h("a", { class: "button primary", href: to("ask", { model: reference }) }, "Ask it"), h("a", { class: "button", href: to(["models", reference]) }, "See its rules")));
      text.textContent = `trained in ${duration((new Date(data.finished_at) - new Date(data.started_at)) / 1000)}`;
    } else if (data.status === "failed") show(outcome, problem({ title: "The training failed", message: data.error?.detail ?? "The reason is not known." }));
    else if (data.status === "cancelled") show(outcome, h("p", { class: "note" }, "Cancelled: no model was made, and this version number is not used again."));
  };
  settle(first);
  await follow(path("jobs", id, "events"), {
    signal,
    onlink: (up) => { link.textContent = up ? "" : "Connection lost, trying again…"; },
    onevent: (kind, data) => {
      if (kind === "status") settle(data);
      if (kind === "progress") progress(data);
      if (kind === "epoch") {
        add(data);
        redraw();
      }
    },
  });
  if (!signal.aborted) link.textContent = "";
}

async function stop(id, button) {
  button.disabled = true;
  try {
    await post(path("jobs", id, "cancel"));
    notify("The training is being cancelled");
  } catch (error) {
    button.disabled = false;
    notify(error.message, true);
  }
}
