// Numbers, times and states as people read them.
import { h } from "./dom.js";

const whole = new Intl.NumberFormat("en");
export const count = (n) => (n == null ? "–" : whole.format(n));
export const score = (x) => (x == null ? "–" : x >= 0.9995 && x < 1 ? "0.999+" : Number(x).toFixed(3));
export const plural = (n, word) => `${count(n)} ${n === 1 ? word : word.replace(/y$/, "ie") + "s"}`;

export function significant(x) {
  if (typeof x !== "number") return x == null ? "–" : typeof x === "object" ? JSON.stringify(x) : String(x);
  return Number.isInteger(x) ? count(x) : Number(x.toPrecision(4)).toString();
}

export function duration(seconds) {
  if (seconds == null || !Number.isFinite(seconds)) return "";
  if (seconds < 60) return `${Math.max(1, Math.round(seconds))} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.round((seconds % 3600) / 60)} min`;
}

/** What a training is expected to cost, as people say it. */
export const cost = ({ cpu_seconds: seconds, peak_bytes: bytes }) =>
  `about ${seconds < 100 ? `${Math.max(1, seconds < 20 ? Math.round(seconds) : 10 * Math.round(seconds / 10))} s` : seconds < 6000 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`}, ${(bytes / 1e9).toFixed(1)} GB`;

const moment = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "short" });
export const time = (iso) => (iso ? h("time", { datetime: iso }, moment.format(new Date(iso))) : "–");

const TONES = { ready: "good", succeeded: "good", running: "busy", queued: "busy", pending: "busy", failed: "bad", cancelled: "", deleted: "" };
export const status = (word) => h("span", { class: `badge ${TONES[word] ?? ""}`, "data-status": word }, word);

export const meter = (share, label) =>
  h("span", { class: "meter strength", "--s": share ?? 0, role: "img", "aria-label": label }, h("i"));

/** The metric that people look at first, of those a model has. */
const ORDER = ["mrr", "accuracy", "hits@1", "hits@10", "auc"];
export function mainMetric(metrics) {
  const numbers = Object.entries(metrics ?? {}).filter(([, value]) => typeof value === "number");
  const rank = ([key]) => { const at = ORDER.findIndex((word) => key.toLowerCase().includes(word)); return at < 0 ? 99 : at; };
  return numbers.sort((a, b) => rank(a) - rank(b))[0] ?? null;
}
