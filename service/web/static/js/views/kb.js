// One knowledge base: its counts, its predicates, its facts, and the graph around an entity.
import { all, download, get, path, remove } from "../api.js";
import { combobox } from "../combobox.js";
import { h, name, notify, problem, show } from "../dom.js";
import { count, plural } from "../format.js";
import { graph } from "../graph.js";
import { go, note, to } from "../route.js";
import { table } from "../table.js";

const TABS = { facts: "Facts", predicates: "Predicates", graph: "Graph" };
const PAGE = 25, NEIGHBOURS = 40, MOST_NODES = 400;

export async function kb(root, { segments, params, signal }) {
  const found = await get(path("kbs", segments[1]), {}, signal);
  const tabs = Object.entries(TABS).filter(([key]) => found.kind === "facts" || key !== "graph");
  const tab = tabs.some(([key]) => key === params.get("tab")) ? params.get("tab") : "facts";
  const body = h("div");
  show(root,
    h("header", { class: "head" },
      h("div", {}, h("a", { class: "crumb", href: "#/kbs" }, "Knowledge bases"), h("h1", {}, found.name), found.sample ? h("p", {}, "A sample that comes with the service.") : null),
      h("div", { class: "actions" },
        h("a", { class: "button primary", href: to("train", { kb: found.name }) }, "Train on it"),
        h("button", { type: "button", onclick: () => save(found) }, "Download"),
        found.sample ? null : h("button", { type: "button", class: "danger", onclick: () => drop(found) }, "Delete"))),
    counts(found),
    found.warnings.length ? h("div", { class: "caution" }, found.warnings.map((warning) => name(warning))) : null,
    h("nav", { class: "segmented", "aria-label": "Parts of this KB" }, tabs.map(([key, title]) =>
      h("a", { href: to(["kbs", found.name], { tab: key === "facts" ? null : key }), "aria-current": key === tab ? "page" : null }, title))),
    body);
  await { facts, predicates, graph: around }[tab](body, found, params, signal);
}

function counts(found) {
  const pairs = [["Facts", found.num_facts], ["Entities", found.num_entities], ["Predicates", found.num_predicates]];
  const splits = Object.entries(found.splits).filter(() => Object.keys(found.splits).length > 1);
  return h("dl", { class: "stats" }, [...pairs, ...splits].map(([label, value]) => h("div", {}, h("dt", {}, label), h("dd", {}, count(value)))));
}

async function save(found) {
  try { await download(path("kbs", found.id, "export"), found.name); } catch (error) { notify(error.message, true); }
}

async function drop(found) {
  if (!confirm(`Delete ${found.name} and its ${plural(found.num_facts, "fact")}?`)) return;
  try {
    await remove(path("kbs", found.id));
    notify(`${found.name} is deleted`);
    go("#/kbs");
  } catch (error) { notify(error.message, true); }
}

/** A model that was imported has no KB here, and so no suggestions. */
export const entitiesOf = (kb) => async (prefix, signal) => (kb == null ? [] : get(path("kbs", kb, "entities"), { prefix, limit: 12 }, signal).then((page) => page.items));

/** Predicates are few: asked for once, then searched anywhere in the name. */
export function predicatesOf(kb) {
  let asked = null;
  return async (text) => {
    if (kb == null) return [];
    asked ??= all(path("kbs", kb, "predicates"), {}, 5000).catch(() => []);
    const lower = text.toLowerCase();
    return (await asked).filter((one) => one.name.toLowerCase().includes(lower)).sort((a, b) => b.num_facts - a.num_facts).slice(0, 12);
  };
}

async function facts(body, found, params, signal) {
  const asked = { subject: params.get("s"), predicate: params.get("p"), object: params.get("o") };
  const rows = [];
  const several = Object.keys(found.splits).length > 1;
  const link = (place, value) => h("a", { class: "row-link", href: to(["kbs", found.name], { [place]: value }) }, name(value));
  const list = table("Facts", [
    { title: "Subject", cell: (f) => link("s", f.subject) }, { title: "Predicate", cell: (f) => link("p", f.predicate) }, { title: "Object", cell: (f) => link("o", f.object) },
    ...(several ? [{ title: "Split", cell: (f) => h("span", { class: "badge" }, f.split) }] : []),
  ]);
  const more = h("div", { class: "more" });
  let cursor = null;
  const load = async () => {
    let page;
    try {
      page = await get(path("kbs", found.id, "facts"), { ...asked, limit: PAGE, cursor }, signal);
    } catch (error) {
      if (error.code !== "unknown_symbol") throw error;
      list.set([]);
      show(more, h("span", { class: "note", role: "status" }, error.message));
      return;
    }
    rows.push(...page.items);
    cursor = page.next_cursor;
    list.set(rows);
    show(more, cursor ? h("button", { type: "button", onclick: load }, "Show more") : h("span", { class: "note" }, rows.length ? plural(rows.length, "fact") : "No fact matches. A filter must be a whole name."));
  };
  const apply = () => go(to(["kbs", found.name], { s: boxes[0].input.value, p: boxes[1].input.value, o: boxes[2].input.value }));
  const boxes = [["Subject", asked.subject, entitiesOf(found.id)], ["Predicate", asked.predicate, predicatesOf(found.id)], ["Object", asked.object, entitiesOf(found.id)]]
    .map(([label, value, suggest]) => combobox({ label, value: value ?? "", placeholder: "any", suggest, onpick: apply }));
  const clear = h("a", { class: "button", href: to(["kbs", found.name]) }, "Clear");
  await load();
  show(body, h("section", { class: "card flush" }, h("div", { class: "filters", role: "search" }, boxes.map((box) => box.element), clear), list.element, more));
}

async function predicates(body, found, params, signal) {
  const items = (await all(path("kbs", found.id, "predicates"), {}, 5000, signal)).sort((a, b) => b.num_facts - a.num_facts);
  const most = items[0]?.num_facts ?? 1;
  show(body, h("section", { class: "card" }, h("ul", { class: "bars" }, items.map((one) => h("li", {},
    h("a", { href: to(["kbs", found.name], { p: one.name }) }, name(one.name)),
    h("span", { class: "meter", "--s": one.num_facts / most }, h("i")),
    h("span", { class: "right number" }, count(one.num_facts)))))));
}

async function around(body, found, params, signal) {
  const entity = params.get("entity") ?? (await get(path("kbs", found.id, "facts"), { limit: 1 }, signal)).items[0]?.subject;
  const canvas = h("div", { class: "canvas", role: "img", "aria-label": `Graph around ${entity}; the list beside it says the same` });
  const list = h("ul"), title = h("h2"), status = h("p", { class: "note", role: "status" });
  const box = combobox({ label: "Around the entity", value: entity ?? "", suggest: entitiesOf(found.id), onpick: (value) => go(to(["kbs", found.name], { tab: "graph", entity: value })) });
  show(body, h("div", { class: "stack" }, box.element, h("div", { class: "around" }, canvas, h("section", { class: "card" }, h("div", { class: "card-head" }, title), h("div", { class: "list" }, list), status))));
  if (entity == null) return;
  const picture = graph(canvas, signal);
  const expand = async (centre, first) => {
    if (!first && picture.cy.nodes().length > MOST_NODES) { status.textContent = `The picture is full: it shows ${MOST_NODES} entities at most. Choose one above to begin again.`; return; }
    const near = await get(path("kbs", found.id, "neighbourhood"), { entity: centre, limit: NEIGHBOURS }, signal);
    const facts = near.items;
    const added = picture.add(facts, centre);
    picture.cy.getElementById(centre).addClass(first ? "centre" : "opened");
    if (added) picture.arrange(first ? centre : null);
    show(title, name(centre));
    show(list, facts.map((f) => h("li", {}, entry(f.subject, centre, expand), " ", h("span", { class: "muted" }, name(f.predicate)), " ", entry(f.object, centre, expand))));
    status.textContent = `${plural(facts.length, "fact")} around it${near.truncated ? " are shown; there are more" : ""}. Choose another entity to expand it.`;
    note(to(["kbs", found.name], { tab: "graph", entity: centre }));
  };
  picture.cy.on("tap", "node", (event) => expand(event.target.id(), false).catch((error) => notify(error.message, true)));
  try { await expand(entity, true); } catch (error) { if (!signal.aborted) show(body, box.element, problem(error)); }
}

function entry(entity, centre, expand) {
  if (entity === centre) return h("strong", {}, name(entity));
  return h("button", { type: "button", class: "plain small", onclick: () => expand(entity, false).catch((error) => notify(error.message, true)) }, name(entity));
}
