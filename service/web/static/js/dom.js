// Elements from data. Text always becomes a text node: nothing here can turn a name into markup.

const SVG = "http://www.w3.org/2000/svg";

/** h("p", {class: "muted", onclick: f}, "text", child): an element. Null children are left out. */
export function h(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value == null || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key.startsWith("--")) element.style.setProperty(key, value);
    else if (key === "value" || key === "checked" || key === "selected") element[key] = value;
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child != null && child !== false));
  return element;
}

/** A name of the user's, apart from the direction of the text around it. */
export const name = (text, attributes = {}) => h("bdi", attributes, text);

export function show(parent, ...children) {
  parent.replaceChildren(...children.flat(Infinity).filter((child) => child != null && child !== false));
}

let counter = 0;
export const uid = (prefix) => `${prefix}-${++counter}`;

/** A labelled control. */
export function field(label, control, hint = null) {
  control.id ||= uid("field");
  return h("div", { class: "field" }, h("label", { for: control.id }, label), control, hint && h("span", { class: "hint" }, hint));
}

export function notify(text, bad = false) {
  const notice = h("div", { class: bad ? "notice bad" : "notice" }, text);
  document.getElementById("notices").append(notice);
  setTimeout(() => notice.remove(), bad ? 9000 : 4000);
}

export function problem(error) {
  return h("div", { class: "problem", role: "alert" }, h("strong", {}, error.title ?? "This did not work"), error.message);
}

export async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    notify(`${what} copied`);
  } catch {
    notify("The browser does not let this page copy: select the text instead", true);
  }
}
