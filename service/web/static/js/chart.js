// Curves over epochs or seconds: loss on the left, validation on the right.
import uPlot from "../vendor/uplot/uPlot.esm.js";
import { h, show } from "./dom.js";
import { significant } from "./format.js";

const PALETTE = {
  light: ["#2b4fc4", "#b8470b", "#0b7265", "#8331a8", "#8a6a00", "#ab2463", "#4a6b00", "#6b4a2f", "#37606e", "#5b5b6b"],
  dark: ["#8fabff", "#ff9a5c", "#4bd0b8", "#d09bf0", "#e3c341", "#ff8fc0", "#b4d455", "#d2a679", "#8fc7da", "#b9b9c9"],
};
export const colour = (at) => { const all = PALETTE[document.documentElement.dataset.theme] ?? PALETTE.light; return all[at % all.length]; };

const HEIGHT = 238;  // of the picture; the legend below it takes as many lines as it needs

// Epochs are whole numbers.
const WHOLE = [1, 2, 5].flatMap((n) => [1, 10, 100, 1000, 10_000].map((ten) => n * ten)).sort((a, b) => a - b);

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** A loss on validation is drawn with the loss; every other metric lies between 0 and 1. */
export const scaleOf = (metric) => (/loss/i.test(metric) ? "loss" : "metric");
export const validation = (metric) => (scaleOf(metric) === "loss" ? `validation ${metric}` : metric);

/**
 * A chart that takes new data at any time. A series is {label, scale: "loss" | "metric", points: [[x, value], …], x},
 * where x is "epoch", unless the series says "seconds".
 * The place it takes is fixed from the start, so that nothing jumps when the first points come.
 */
export function chart(root, label, signal, blank = "The curve begins with the first epoch") {
  let plot = null, series = [], drawn = "";
  root.classList.add("chart");
  root.setAttribute("role", "img");
  root.setAttribute("aria-label", label);
  show(root, h("div", { class: "blank" }, blank));

  const build = () => {
    plot?.destroy();
    plot = null;
    const shown = series.filter((one) => one.points.length);
    drawn = shown.map(named).join("\n");
    if (!shown.length || !root.isConnected) return;
    show(root);
    plot = new uPlot(options(shown, root), columns(shown), root);
  };
  const size = () => plot?.setSize({ width: root.clientWidth, height: HEIGHT });
  const observer = new ResizeObserver(size);
  observer.observe(root);
  document.addEventListener("themechange", build, { signal });
  signal.addEventListener("abort", () => { observer.disconnect(); plot?.destroy(); });

  return {
    set(next) {
      series = next;
      const shown = series.filter((one) => one.points.length);
      if (plot && shown.map(named).join("\n") === drawn) plot.setData(columns(shown));
      else build();
    },
  };
}

const named = (one) => one.label + one.scale + one.x;

function columns(series) {
  const epochs = [...new Set(series.flatMap((one) => one.points.map(([epoch]) => epoch)))].sort((a, b) => a - b);
  const row = new Map(epochs.map((epoch, at) => [epoch, at]));
  return [epochs, ...series.map((one) => {
    const column = new Array(epochs.length).fill(null);
    for (const [epoch, value] of one.points) column[row.get(epoch)] = value;
    return column;
  })];
}

function options(series, root) {
  const stroke = css("--muted"), line = css("--line"), font = `12px ${css("--sans")}`;
  const axis = (scale, side, label) => ({ scale, side, stroke, font, labelFont: font, label, labelSize: 18, size: 54, gap: 4, grid: { stroke: line, width: 1, show: side !== 1 }, ticks: { show: false } });
  const scales = new Set(series.map((one) => one.scale));
  return {
    width: root.clientWidth, height: HEIGHT, cursor: { points: { size: 7 } },
    scales: { x: { time: false }, metric: { range: (_, low, high) => [Math.min(0, low ?? 0), Math.max(1, high ?? 1)] } },
    axes: [
      { stroke, font, grid: { show: false }, ticks: { stroke: line, size: 4 }, size: 30, gap: 4, incrs: WHOLE },
      ...(scales.has("loss") ? [axis("loss", 3, "loss")] : []),
      ...(scales.has("metric") ? [axis("metric", 1, "validation")] : []),
    ],
    series: [
      { label: series[0].x ?? "epoch", value: (_, x) => significant(x) },
      ...series.map((one, at) => ({
        label: one.label, scale: one.scale, stroke: one.stroke ?? colour(at), width: 2, spanGaps: true, points: { show: one.points.length < 40, size: 5 },
        dash: one.dash, value: (_, y) => significant(y),
      })),
    ],
  };
}
