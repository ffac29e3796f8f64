// The calls. Each returns data or throws a Problem that says what is wrong in one sentence.
import { ask, key } from "./key.js";

export class Problem extends Error {
  constructor(status, body) {
    super(body?.detail || `The service answered ${status}`);
    this.status = status;
    this.title = body?.title;
    this.code = body?.code;
    this.body = body ?? {};
  }
}

export const path = (...segments) => "/" + segments.map(encodeURIComponent).join("/");

function query(params = {}) {
  const given = Object.entries(params).filter(([, value]) => value != null && value !== "");
  return given.length ? `?${new URLSearchParams(given)}` : "";
}

const headers = (extra = {}) => (key() ? { ...extra, Authorization: `Bearer ${key()}` } : extra);

async function send(url, options = {}) {
  let response;
  try {
    response = await fetch(url, { ...options, headers: headers(options.headers) });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, { title: "No connection", detail: "The service cannot be reached. Is it still running?" });
  }
  if (response.status === 401) {
    const body = await response.json().catch(() => ({}));
    await ask(body.detail ?? "Enter the key you were given.");
    return send(url, options);
  }
  if (!response.ok) throw new Problem(response.status, await response.json().catch(() => ({})));
  return response;
}

export async function get(url, params, signal) {
  return (await send(url + query(params), { signal })).json();
}

export async function post(url, body, signal) {
  const response = await send(url, { method: "POST", body: JSON.stringify(body ?? {}), headers: { "Content-Type": "application/json" }, signal });
  return response.json();
}

export const put = (url, body) => send(url, { method: "PUT", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } });
export const remove = (url) => send(url, { method: "DELETE" });
export const text = async (url, accept) => (await send(url, { headers: { Accept: accept } })).text();

/** All pages of a list, up to `most` items. */
export async function all(url, params = {}, most = 5000, signal) {
  const items = [];
  let cursor = null;
  do {
    const page = await get(url, { ...params, limit: Math.min(1000, most - items.length), cursor }, signal);
    items.push(...page.items);
    cursor = page.next_cursor;
  } while (cursor && items.length < most);
  return items;
}

/** Saves an answer as a file; a plain link could not send the key. */
export async function download(url, filename) {
  const response = await send(url);
  const named = /filename="?([^";]+)"?/.exec(response.headers.get("Content-Disposition") ?? "");
  const address = URL.createObjectURL(await response.blob());
  const link = document.createElement("a");
  link.href = address;
  link.download = named?.[1] ?? filename;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

/** A form with files; `onprogress` gets the share that was sent, which fetch cannot tell. */
export function upload(url, form, onprogress) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", url);
    for (const [name, value] of Object.entries(headers())) request.setRequestHeader(name, value);
    request.upload.onprogress = (event) => event.lengthComputable && onprogress(event.loaded / event.total);
    request.onerror = () => reject(new Problem(0, { title: "No connection", detail: "The upload was cut off. Try again." }));
    request.onload = () => {
      let body = {};
      try { body = JSON.parse(request.responseText); } catch { /* something in between answered */ }
      if (request.status === 401) ask(body.detail).then(() => upload(url, form, onprogress)).then(resolve, reject);
      else if (request.status >= 400) reject(new Problem(request.status, body));
      else resolve(body);
    };
    request.send(form);
  });
}
