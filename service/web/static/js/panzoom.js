// Moving and zooming a stage by pointer, pinch, wheel, buttons and keys.
import { h } from "./dom.js";

const LEAST = 0.2, MOST = 2.5, STEP = 1.25, MOVE = 48;

/** `size()` is the stage's own {width, height}. Returns {fit}. */
export function panzoom(frame, stage, size, signal) {
  let x = 0, y = 0, scale = 1;
  const pointers = new Map();
  const apply = () => { stage.style.transform = `translate(${x}px, ${y}px) scale(${scale})`; };
  const zoom = (factor, at = { x: frame.clientWidth / 2, y: frame.clientHeight / 2 }) => {
    const next = Math.min(MOST, Math.max(LEAST, scale * factor));
    x = at.x - (at.x - x) * (next / scale);
    y = at.y - (at.y - y) * (next / scale);
    scale = next;
    apply();
  };
  const fit = () => {
    const { width, height } = size();
    const margin = 24;
    // A phone shows less of a wide proof rather than text that nobody can read.
    const floor = frame.clientWidth < 480 ? 0.62 : 0.5;
    scale = Math.max(floor, Math.min(1.1, (frame.clientWidth - margin) / width, (frame.clientHeight - margin) / height));
    x = (frame.clientWidth - width * scale) / 2;
    y = Math.max(margin / 2, (frame.clientHeight - height * scale) / 2);
    apply();
  };
  const place = (event) => {
    const box = frame.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  const spread = () => {
    const [a, b] = [...pointers.values()];
    return { distance: Math.hypot(a.x - b.x, a.y - b.y), middle: { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 } };
  };

  const listen = (type, handler, options = {}) => frame.addEventListener(type, handler, { signal, ...options });
  listen("pointerdown", (event) => {
    if (event.target.closest("button, a")) return;
    frame.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, place(event));
  });
  listen("pointermove", (event) => {
    const before = pointers.get(event.pointerId);
    if (!before) return;
    const now = place(event);
    if (pointers.size === 2) {
      const old = spread();
      pointers.set(event.pointerId, now);
      zoom(spread().distance / (old.distance || 1), spread().middle);
    } else {
      x += now.x - before.x;
      y += now.y - before.y;
      apply();
    }
    pointers.set(event.pointerId, now);
  });
  for (const type of ["pointerup", "pointercancel"]) listen(type, (event) => pointers.delete(event.pointerId));
  listen("wheel", (event) => {
    // Without a modifier the wheel scrolls the page, as everywhere else.
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoom(Math.exp(-event.deltaY / 300), place(event));
  }, { passive: false });
  listen("keydown", (event) => {
    const moves = { ArrowLeft: [MOVE, 0], ArrowRight: [-MOVE, 0], ArrowUp: [0, MOVE], ArrowDown: [0, -MOVE] };
    if (event.target !== frame) return;
    if (moves[event.key]) { x += moves[event.key][0]; y += moves[event.key][1]; apply(); }
    else if (event.key === "+" || event.key === "=") zoom(STEP);
    else if (event.key === "-") zoom(1 / STEP);
    else if (event.key === "0") fit();
    else return;
    event.preventDefault();
  });
  // Beside the frame, where they cover no proof.
  frame.after(h("div", { class: "zoom" },
    h("button", { type: "button", class: "small", "aria-label": "Zoom out", onclick: () => zoom(1 / STEP) }, "−"),
    h("button", { type: "button", class: "small", "aria-label": "Zoom in", onclick: () => zoom(STEP) }, "+"),
    h("button", { type: "button", class: "small", onclick: fit }, "Fit")));
  const observer = new ResizeObserver(fit);
  observer.observe(frame);
  signal.addEventListener("abort", () => observer.disconnect());
  return { fit };
}
