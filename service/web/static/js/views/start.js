// The first visit: one click trains the family example and ends at a proof. Later visits go straight to the questions.
import { get, path, post } from "../api.js";
import { h, problem, show } from "../dom.js";
import { follow } from "../events.js";
import { duration } from "../format.js";
import { go, note, to } from "../route.js";
import { ask } from "./ask.js";

export const EXAMPLE = { p: "grandparent", o: "morty" };

export async function start(root, context) {
  const { items } = await get("/models", { limit: 100 }, context.signal);
  if (items.some((model) => model.status === "ready")) {
    note(to("ask"));
    for (const link of document.querySelectorAll('[data-tab="ask"]')) link.setAttribute("aria-current", "page");
    return ask(root, context);
  }
  const run = h("div", { class: "run", "aria-live": "polite" });
  const idle = () => show(run,
    h("button", { type: "button", class: "primary big", onclick: () => example(run, context.signal, idle) }, "Train the family example"),
    h("span", { class: "note" }, "About a hundred facts; it takes a few seconds"));
  idle();
  show(root, h("section", { class: "hero" },
    h("h1", {}, "Ask your facts, and see the proof"),
    h("p", {}, "ctp learns rules from a knowledge base and answers with the facts and the rules that support each answer. Begin with a small family, or bring your own data."),
    run,
    h("a", { href: "#/kbs" }, "Or upload your own facts"),
    h("ol", { class: "steps" },
      h("li", {}, h("strong", {}, "1. Bring facts"), "TSV, CSV, RDF, JSON Lines or Prolog. Seven samples are here already."),
      h("li", {}, h("strong", {}, "2. Train"), "A preset chooses the settings; you watch the loss fall."),
      h("li", {}, h("strong", {}, "3. Ask why"), "Every answer comes with a proof tree that you can check by hand."))));
}

async function example(run, signal, idle) {
  const bar = h("i"), text = h("span", { class: "note" }, "Starting…");
  const meter = h("div", { class: "meter wide", role: "progressbar", "aria-label": "Training", "aria-valuemin": 0, "aria-valuemax": 100 }, bar);
  show(run, h("strong", {}, "Training on family"), meter, text);
  try {
    const { job, model } = await post("/train", { kb: "family", name: "family" }, signal);
    await follow(path("jobs", job.id, "events"), {
      signal,
      onlink: (up) => { if (!up) text.textContent = "Connecting again…"; },
      onevent: (name, data) => {
        if (name === "progress" && data.done != null) {
          meter.style.setProperty("--s", data.done);
          meter.setAttribute("aria-valuenow", Math.round(100 * data.done));
          text.textContent = `${data.text}${data.eta_seconds ? `, ${duration(data.eta_seconds)} left` : ""}`;
        }
        if (name === "status" && data.status === "succeeded") go(to("ask", { model: `${model.name}@${model.version}`, ...EXAMPLE }));
        if (name === "status" && data.status === "failed") throw Object.assign(new Error(data.error?.detail ?? "the training failed"), { title: "The training failed", status: 400 });
      },
    });
  } catch (error) {
    if (signal.aborted) return;
    idle();
    run.append(problem(error));
  }
}
