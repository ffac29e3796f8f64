// The page's frame: which view an address means, the tabs, the theme.
import { h, problem, show, svg } from "./dom.js";
import { current } from "./route.js";
import { ask } from "./views/ask.js";
import { compare } from "./views/compare.js";
import { job } from "./views/job.js";
import { kb } from "./views/kb.js";
import { kbs } from "./views/kbs.js";
import { model } from "./views/model.js";
import { models } from "./views/models.js";
import { start } from "./views/start.js";
import { train } from "./views/train.js";

const main = document.getElementById("main");
let leaving = new AbortController();

// Address -> [tab, title, view]; a view fills an element, and stops what it does when its signal aborts.
function find(segments) {
  const [first, second] = segments;
  if (!first) return ["", "Start", start];
  if (first === "ask") return ["ask", "Ask", ask];
  if (first === "kbs") return second ? ["kbs", second, kb] : ["kbs", "Knowledge bases", kbs];
  if (first === "train") return ["train", "Train", train];
  if (first === "jobs" && second) return ["train", "Job", job];
  if (first === "models" && second === "compare") return ["models", "Compare models", compare];
  if (first === "models") return second ? ["models", second, model] : ["models", "Models", models];
  return ["", "Not found", missing];
}

function missing(root) {
  show(root, h("div", { class: "empty" }, h("h1", {}, "There is nothing at this address"), h("a", { class: "button", href: "#/" }, "Go to the start page")));
}

async function draw(focus = true) {
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  const { segments, params } = current();
  const [tab, title, view] = find(segments);
  document.title = `${title} · ctp`;
  for (const link of document.querySelectorAll("[data-tab]")) {
    if (link.dataset.tab === tab) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const root = h("div", { class: "view" });
  show(main, root);
  if (focus) main.focus({ preventScroll: true });
  if (focus) scrollTo(0, 0);
  try {
    await view(root, { segments, params, signal });
  } catch (error) {
    if (signal.aborted) return;
    show(root, problem(error), h("div", {}, h("button", { type: "button", onclick: () => draw() }, "Try again")));
    if (!("status" in error)) console.error(error);
  }
}

function drawTheme() {
  const dark = document.documentElement.dataset.theme === "dark";
  const button = document.getElementById("theme");
  button.setAttribute("aria-label", dark ? "Use light colours" : "Use dark colours");
  const shape = dark
    ? [svg("circle", { cx: 12, cy: 12, r: 4 }), svg("path", { d: "M12 3v2m0 14v2M3 12h2m14 0h2M5.6 5.6 7 7m10 10 1.4 1.4M5.6 18.4 7 17M17 7l1.4-1.4" })]
    : [svg("path", { d: "M20 14.5A8 8 0 0 1 9.5 4 8 8 0 1 0 20 14.5Z" })];
  show(button, svg("svg", { viewBox: "0 0 24 24", width: 20, height: 20, fill: "none", stroke: "currentColor", "stroke-width": 1.8, "stroke-linecap": "round", "aria-hidden": "true" }, shape));
}

document.getElementById("theme").addEventListener("click", () => {
  const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  localStorage.setItem("ctp.theme", next);
  document.dispatchEvent(new Event("themechange"));
});
document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); main.focus(); });
document.addEventListener("themechange", drawTheme);
addEventListener("hashchange", () => draw());
drawTheme();
draw(false);
