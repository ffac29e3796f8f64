// Tables that are sorted by their heads, and grouped as long as nobody has sorted them.
import { h, show } from "./dom.js";
import { count } from "./format.js";

/**
 * @param columns [{title, value: row => sortable, cell: row => node, right, class, hint}]; without `value` it cannot be sorted
 * @param groups {of: row => key, heading: (key, rows) => node, first: rows of a group that are shown at once}
 * @returns {{element, set(rows)}}
 */
export function table(caption, columns, { sort = null, descending = false, row = null, groups = null } = {}) {
  let rows = [], by = sort, down = descending;
  const body = h("tbody");
  const heads = columns.map((column, at) => {
    const head = h("th", { scope: "col", class: column.right && "right", title: column.hint });
    if (column.value) head.append(h("button", { type: "button", onclick: () => order(at) }, column.title));
    else head.append(column.title ? column.title : h("span", { class: "visually-hidden" }, column.hidden ?? "Actions"));
    return head;
  });
  const draw = () => {
    heads.forEach((head, at) => (by === at ? head.setAttribute("aria-sort", down ? "descending" : "ascending") : head.removeAttribute("aria-sort")));
    if (by == null && groups) { show(body, grouped()); return; }
    const sorted = by == null ? rows : [...rows].sort((a, b) => compare(columns[by].value(a), columns[by].value(b)) * (down ? -1 : 1));
    show(body, sorted.map(lineOf));
  };
  const lineOf = (item) => {
    const line = h("tr", {}, columns.map((column) => h("td", { class: column.right ? "right" : column.class }, column.cell(item))));
    return row ? row(item, line) : line;
  };
  const grouped = () => {
    const members = new Map();
    for (const item of rows) members.set(groups.of(item), [...(members.get(groups.of(item)) ?? []), item]);
    return [...members].map(([key, items]) => [
      h("tr", { class: "group" }, h("th", { colspan: columns.length, scope: "rowgroup" }, groups.heading(key, items))),
      items.slice(0, groups.first).map(lineOf),
      items.length > groups.first ? unfold(items.slice(groups.first)) : null]);
  };
  const unfold = (items) => {
    const line = h("tr", { class: "unfold" }, h("td", { colspan: columns.length },
      h("button", { type: "button", class: "plain small", onclick: () => line.replaceWith(...items.map(lineOf)) }, `${count(items.length)} more`)));
    return line;
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
