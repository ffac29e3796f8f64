// A text field with suggestions, after the ARIA combobox pattern; what is typed counts even if nothing is suggested.
import { h, name, show, uid } from "./dom.js";
import { count } from "./format.js";

const PAUSE = 120;

/**
 * @param {object} options
 * @param {(text: string, signal: AbortSignal) => Promise<{name: string, num_facts?: number}[]>} options.suggest
 * @param {(value: string) => void} options.onpick called when a suggestion was taken or Enter was pressed
 */
export function combobox({ label, value = "", placeholder = "", suggest, onpick = () => {}, oninput = () => {} }) {
  const id = uid("combo");
  const list = h("ul", { role: "listbox", id: `${id}-list`, "aria-label": label, hidden: true });
  const input = h("input", {
    id, value, placeholder, role: "combobox", autocomplete: "off", spellcheck: "false", autocapitalize: "off", dir: "auto",
    "aria-autocomplete": "list", "aria-expanded": "false", "aria-controls": list.id,
  });
  let items = [], active = -1, timer = 0, asked = new AbortController();

  const close = () => {
    clearTimeout(timer);
    asked.abort();
    list.hidden = true;
    active = -1;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  };
  const mark = (next) => {
    active = next;
    [...list.children].forEach((option, at) => option.setAttribute("aria-selected", String(at === active)));
    const option = list.children[active];
    if (option) { input.setAttribute("aria-activedescendant", option.id); option.scrollIntoView({ block: "nearest" }); }
  };
  const take = (at) => {
    input.value = items[at].name;
    close();
    oninput(input.value);
    onpick(input.value);
  };
  const open = async () => {
    asked.abort();
    asked = new AbortController();
    const { signal } = asked;
    try { items = await suggest(input.value, signal); } catch { items = []; }
    if (signal.aborted || document.activeElement !== input) return;
    show(list, items.map((item, at) =>
      h("li", { role: "option", id: `${id}-${at}`, "aria-selected": "false", onpointerdown: (event) => { event.preventDefault(); take(at); } },
        name(item.name), item.num_facts == null ? null : h("small", {}, count(item.num_facts)))));
    list.hidden = items.length === 0;
    input.setAttribute("aria-expanded", String(!list.hidden));
    active = -1;
  };
  const later = () => { clearTimeout(timer); timer = setTimeout(open, PAUSE); };

  input.addEventListener("input", () => { oninput(input.value); later(); });
  input.addEventListener("pointerdown", later);
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    const shown = !list.hidden;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (!shown) later();
      else mark((active + (event.key === "ArrowDown" ? 1 : items.length + (active < 0 ? 0 : -1))) % items.length);
    } else if (event.key === "Enter" && shown && active >= 0) {
      event.preventDefault();
      take(active);
    } else if (event.key === "Enter") {
      close();
      onpick(input.value);
    } else if (event.key === "Escape" && shown) {
      event.stopPropagation();
      close();
    }
  });
  return { input, element: h("div", { class: "field combo" }, h("label", { for: id }, label), input, list) };
}
