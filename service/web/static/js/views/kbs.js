// Knowledge bases: the list, and bringing in a new one.
import { all, get, upload } from "../api.js";
import { field, h, name, notify, problem, show } from "../dom.js";
import { count, plural, time } from "../format.js";
import { go, to } from "../route.js";
import { table } from "../table.js";

const SPLITS = { train: /train/i, valid: /valid|dev/i, test: /test/i };
const CONTEXT_LINES = 2, MOST_BYTES_SHOWN = 20_000_000;

export async function kbs(root, { signal }) {
  const list = table("Knowledge bases", [
    { title: "Name", value: (kb) => kb.name, cell: (kb) => [h("a", { class: "row-link", href: to(["kbs", kb.name]) }, kb.name), " ", kb.sample ? h("span", { class: "badge" }, "sample") : null] },
    { title: "Kind", value: (kb) => kb.kind, cell: (kb) => kb.kind },
    { title: "Facts", right: true, value: (kb) => kb.num_facts, cell: (kb) => count(kb.num_facts) },
    { title: "Entities", right: true, value: (kb) => kb.num_entities, cell: (kb) => count(kb.num_entities) },
    { title: "Predicates", right: true, value: (kb) => kb.num_predicates, cell: (kb) => count(kb.num_predicates) },
    { title: "Since", value: (kb) => kb.created_at, cell: (kb) => time(kb.created_at) },
  ]);
  const [items, { items: formats }] = await Promise.all([all("/kbs", {}, 2000, signal), get("/formats", {}, signal)]);
  list.set(items);
  show(root,
    h("header", { class: "head" }, h("div", {}, h("h1", {}, "Knowledge bases"), h("p", {}, "A knowledge base is a set of facts: who stands in which relation to whom. It never changes once it is here; a new version is a new name."))),
    uploader(root, formats),
    h("section", { class: "card flush" }, list.element));
}

/** Drop or choose files, name the KB, send it; what is wrong is shown with the line it is in. */
function uploader(root, formats) {
  const area = h("div", { class: "drop" });
  const place = h("section", { class: "card upload", "aria-label": "Upload" }, area);
  const input = h("input", { type: "file", multiple: true, class: "visually-hidden", id: "files", tabindex: "-1", "aria-label": "Files to upload" });
  input.addEventListener("change", () => choose([...input.files]));
  const wait = () => {
    show(area,
      h("strong", {}, "Drop files here"), h("span", {}, `${formats.map((one) => one.title).join(", ")}; gzip too. One file, or train, valid and test.`),
      h("button", { type: "button", onclick: () => input.click() }, "Choose files"), input);
    show(place, area);
  };
  const choose = (files) => { if (files.length) form(place, files, formats, wait); };

  root.addEventListener("dragover", (event) => { event.preventDefault(); area.classList.add("over"); });
  root.addEventListener("dragleave", (event) => { if (!root.contains(event.relatedTarget)) area.classList.remove("over"); });
  root.addEventListener("drop", (event) => {
    event.preventDefault();
    area.classList.remove("over");
    choose([...event.dataTransfer.files]);
  });
  wait();
  return place;
}

function form(place, files, formats, cancel) {
  const splits = bySplit(files);
  const title = h("input", { value: suggestName(files, formats), required: true, maxlength: 64, pattern: "[A-Za-z0-9][A-Za-z0-9._\\-]{0,63}", spellcheck: "false" });
  const kind = h("select", {}, h("option", { value: "" }, "recognised"), [...new Set(formats.map((one) => one.kind))].map((word) => h("option", { value: word }, word)));
  const format = h("select", {}, h("option", { value: "" }, "recognised"), formats.map((one) => h("option", { value: one.name, title: one.text }, one.title)));
  const result = h("div", { "aria-live": "polite" });
  const send = h("button", { type: "submit", class: "primary" }, "Upload");
  const element = h("form", { class: "stack" },
    h("h2", {}, "Upload ", splits ? Object.entries(splits).map(([split, file], at) => [at ? ", " : "", `${split}: `, name(file.name)]) : name(files[0].name)),
    h("div", { class: "chosen" }, field("Name", title), field("Kind", kind), field("Format", format),
      h("div", { class: "actions" }, send, h("button", { type: "button", onclick: cancel }, "Cancel"))),
    result);
  element.addEventListener("submit", async (event) => {
    event.preventDefault();
    send.disabled = true;
    const data = new FormData();
    data.set("name", title.value.trim());
    if (kind.value) data.set("kind", kind.value);
    if (format.value) data.set("format", format.value);
    for (const [split, file] of Object.entries(splits ?? { file: files[0] })) data.set(split, file);
    const bar = h("div", { class: "meter wide", role: "progressbar", "aria-label": "Upload", "aria-valuemin": 0, "aria-valuemax": 100 }, h("i"));
    const text = h("span", { class: "note" }, "Sending…");
    show(result, h("div", { class: "stack" }, bar, text));
    try {
      const kb = await upload("/kbs", data, (share) => {
        bar.style.setProperty("--s", share);
        bar.setAttribute("aria-valuenow", Math.round(share * 100));
        text.textContent = share < 1 ? `${Math.round(share * 100)} % sent` : "Checking and storing…";
      });
      notify(`Uploaded ${kb.name} with ${plural(kb.num_facts, "fact")}`);
      go(to(["kbs", kb.name]));
    } catch (error) {
      send.disabled = false;
      show(result, await explain(error, files));
    }
  });
  show(place, element);
  title.focus();
  title.select();
}

/** The problem, and the lines around each bad one, which the browser has at hand. */
async function explain(error, files) {
  const faults = (error.body?.errors ?? []).filter((fault) => fault.line) ;
  if (error.body?.line && !faults.length) faults.push(error.body);
  const shown = h("div", { class: "problem", role: "alert" }, h("strong", {}, error.title ?? "The upload was refused"), error.message);
  for (const fault of faults.slice(0, 5)) {
    const file = files.find((one) => one.name === fault.file) ?? files[0];
    if (file.name.endsWith(".gz") || file.size > MOST_BYTES_SHOWN) continue;
    const lines = (await file.text()).split("\n");
    const first = Math.max(1, fault.line - CONTEXT_LINES), last = Math.min(lines.length, fault.line + CONTEXT_LINES);
    shown.append(h("div", { class: "source", "aria-label": `Line ${fault.line} of ${file.name}` },
      lines.slice(first - 1, last).map((line, at) => h("div", { class: first + at === fault.line && "wrong" }, h("span", {}, String(first + at)), name(line.slice(0, 400))))));
  }
  return shown;
}

function bySplit(files) {
  if (files.length === 1) return null;
  const found = {};
  for (const file of files) {
    const split = Object.keys(SPLITS).find((word) => SPLITS[word].test(file.name) && !found[word]);
    if (split) found[split] = file;
  }
  return found.train ? found : { train: files[0] };
}

function suggestName(files, formats) {
  const unzipped = files[0].name.replace(/\.gz$/i, "");
  const ending = [".txt", ...formats.flatMap((one) => one.suffixes)].find((suffix) => unzipped.toLowerCase().endsWith(suffix)) ?? "";
  const stem = unzipped.slice(0, unzipped.length - ending.length);
  return stem.replace(/[^A-Za-z0-9._-]+/g, "-").replace(/^[^A-Za-z0-9]+/, "").slice(0, 64) || "my-kb";
}
