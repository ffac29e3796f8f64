// The key, where the service asks for one: asked for once, kept by the browser, sent in a header only.
import { h, field } from "./dom.js";

const NAME = "ctp.key";
let asking = null;

export const key = () => sessionStorage.getItem(NAME) ?? localStorage.getItem(NAME);

export function forget() {
  sessionStorage.removeItem(NAME);
  localStorage.removeItem(NAME);
}

/** Resolves when a key was entered; all calls that wait for one share the question. */
export function ask(detail) {
  asking ??= new Promise((resolve) => {
    const input = h("input", { type: "password", autocomplete: "off", required: true, placeholder: "ctp_…", spellcheck: "false" });
    const keep = h("input", { type: "checkbox" });
    const dialog = h("dialog", { "aria-labelledby": "key-title" },
      h("form", { method: "dialog" },
        h("h2", { id: "key-title" }, "This service needs a key"),
        h("p", { class: "note" }, detail),
        field("Key", input),
        h("label", { class: "check" }, keep, "Keep it in this browser"),
        h("div", { class: "actions" }, h("button", { class: "primary", type: "submit" }, "Continue"))));
    dialog.addEventListener("cancel", (event) => event.preventDefault());
    dialog.querySelector("form").addEventListener("submit", (event) => {
      event.preventDefault();
      forget();
      (keep.checked ? localStorage : sessionStorage).setItem(NAME, input.value.trim());
      dialog.close();
      dialog.remove();
      asking = null;
      resolve();
    });
    document.body.append(dialog);
    dialog.showModal();
  });
  return asking;
}
