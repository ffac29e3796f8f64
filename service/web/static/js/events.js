// Server-Sent Events by fetch, since EventSource cannot send a key; a broken stream is taken up where it ended.
import { Problem } from "./api.js";
import { ask, key } from "./key.js";

const FIRST_PAUSE = 500, LONGEST_PAUSE = 8000;
const ENDED = ["succeeded", "failed", "cancelled"];

/** Calls `onevent(name, data)` until the job has ended or the signal aborts; `onlink(true|false)` tells of the connection. */
export async function follow(url, { onevent, onlink, signal }) {
  let last = null, pause = FIRST_PAUSE;
  while (!signal.aborted) {
    try {
      const response = await open(url, last, signal);
      if (response.status === 204) return;
      onlink(true);
      for await (const event of parse(response.body)) {
        pause = FIRST_PAUSE;
        last = event.id ?? last;
        onevent(event.name, event.data);
        if (event.name === "status" && ENDED.includes(event.data.status)) return;
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Problem && error.status < 500 && error.status !== 429) throw error;
    }
    if (signal.aborted) return;
    onlink(false);
    await sleep(pause, signal);
    pause = Math.min(pause * 2, LONGEST_PAUSE);
  }
}

async function open(url, last, signal) {
  const headers = { Accept: "text/event-stream" };
  if (key()) headers.Authorization = `Bearer ${key()}`;
  if (last) headers["Last-Event-ID"] = last;
  const response = await fetch(url, { headers, signal });
  if (response.status === 401) {
    await ask((await response.json().catch(() => ({}))).detail);
    return open(url, last, signal);
  }
  if (!response.ok) throw new Problem(response.status, await response.json().catch(() => ({})));
  return response;
}

async function* parse(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "", event = {};
  try {
    while (true) {
      const { value, done } = await reader.read();
      if (done) return;
      buffer += value;
      const lines = buffer.split(/\r\n|\n|\r/);
      buffer = lines.pop();
      for (const line of lines) {
        if (line === "") {
          if (event.data !== undefined) yield { id: event.id, name: event.event ?? "message", data: JSON.parse(event.data) };
          event = {};
        } else if (!line.startsWith(":")) {
          const at = line.indexOf(":");
          const field = at < 0 ? line : line.slice(0, at);
          const content = at < 0 ? "" : line.slice(at + 1).replace(/^ /, "");
          event[field] = field === "data" && event.data !== undefined ? `${event.data}\n${content}` : content;
        }
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function sleep(milliseconds, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
  });
}
