// Tables that are sorted by their heads.
import { h, show } from "./dom.js";

/**
 * @param columns [{title, value: row => sortable, cell: row => node, right, first}]; without `value` it cannot be sorted
 * @returns {{element, set(rows)}}
 */
export function table(caption, columns, { sort = null, descending = false, row = null } = {}) {
  let rows = [], by = sort, down = descending;
  const body = h("tbody");
  const heads = columns.map((column, at) => {
    const head = h("th", { scope: "col", class: column.right && "right" });
    if (column.value) head.append(h("button", { type: "button", onclick: () => order(at) }, column.title));
    else head.append(column.title ? column.title : h("span", { class: "visually-hidden" }, column.hidden ?? "Actions"));
    return head;
  });
  const draw = () => {
    heads.forEach((head, at) => (by === at ? head.setAttribute("aria-sort", down ? "descending" : "ascending") : head.removeAttribute("aria-sort")));
    const sorted = by == null ? rows : [...rows].sort((a, b) => compare(columns[by].value(a), columns[by].value(b)) * (down ? -1 : 1));
    show(body, sorted.map((item) => {
      const line = h("tr", {}, columns.map((column) => h("td", { class: column.right ? "right" : column.class }, column.cell(item))));
      return row ? row(item, line) : line;
    }));
  };
  const order = (at) => {
    down = by === at ? !down : Boolean(columns[at].right);
    by = at;
    draw();
  };
  return {
    element: h("div", { class: "scroll" }, h("table", {}, h("caption", { class: "visually-hidden" }, caption), h("thead", {}, h("tr", {}, heads)), body)),
    set(next) { rows = next; draw(); },
  };
}

function compare(a, b) {
  if (a == null || b == null) return (a == null) - (b == null);
  return typeof a === "string" ? a.localeCompare(b) : a - b;
}
