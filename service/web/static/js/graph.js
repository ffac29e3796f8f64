// Graphs of entities, by Cytoscape. Labels are drawn on a canvas, so that no name can be anything but text.
import cytoscape from "../vendor/cytoscape/cytoscape.esm.min.mjs";

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const MAX_LABEL = 28;
export const short = (text) => (text.length > MAX_LABEL ? `${text.slice(0, MAX_LABEL - 1)}…` : text);

const style = () => [
  { selector: "node", style: {
    label: "data(label)", "font-family": "Inter, sans-serif", "font-size": 12, "font-weight": 500, color: css("--text"), "text-valign": "bottom", "text-margin-y": 5,
    "background-color": css("--surface"), "border-width": 2, "border-color": css("--line-strong"), width: 22, height: 22,
    "text-background-color": css("--surface"), "text-background-opacity": 0.85, "text-background-padding": 2,
  } },
  { selector: "node.centre", style: { "background-color": css("--accent"), "border-color": css("--accent"), width: 30, height: 30 } },
  { selector: "node.opened", style: { "border-color": css("--accent") } },
  { selector: "node.picked", style: { "border-color": css("--accent"), "border-width": 4 } },
  { selector: "node:selected", style: { "border-color": css("--weak"), "border-width": 3 } },
  { selector: "edge", style: {
    label: "data(label)", "font-family": "Inter, sans-serif", "font-size": 10, color: css("--muted"), "text-rotation": "autorotate", "curve-style": "bezier", width: 1.5,
    "line-color": css("--line-strong"), "target-arrow-color": css("--line-strong"), "target-arrow-shape": "triangle", "arrow-scale": 0.9,
    "text-background-color": css("--surface"), "text-background-opacity": 0.85, "text-background-padding": 2,
  } },
];

export function graph(container, signal, options = {}) {
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const cy = cytoscape({ container, style: style(), minZoom: 0.15, maxZoom: 2.5, wheelSensitivity: 0.3, ...options });
  document.addEventListener("themechange", () => cy.style(style()), { signal });
  signal.addEventListener("abort", () => cy.destroy());

  return {
    cy,
    /** Adds facts that are not there yet; returns how many were new. */
    add(facts, near = null) {
      const before = cy.elements().length;
      const origin = near && cy.getElementById(near).nonempty() ? cy.getElementById(near).position() : null;
      facts.forEach(({ subject, predicate, object }, at) => {
        for (const entity of [subject, object]) {
          if (cy.getElementById(entity).nonempty()) continue;
          const angle = (at / facts.length) * 2 * Math.PI;
          const position = origin ? { x: origin.x + 90 * Math.cos(angle), y: origin.y + 90 * Math.sin(angle) } : undefined;
          cy.add({ data: { id: entity, label: short(entity) }, position });
        }
        const id = `edge:${JSON.stringify([subject, predicate, object])}`;
        if (cy.getElementById(id).empty()) cy.add({ data: { id, source: subject, target: object, label: short(predicate) } });
      });
      return cy.elements().length - before;
    },
    arrange(keep = false) {
      const nodes = cy.nodes().length;
      cy.layout({ name: "cose", animate: !calm && nodes < 120, animationDuration: 350, randomize: !keep, padding: 36, nodeRepulsion: 9000, idealEdgeLength: 85, numIter: nodes > 150 ? 300 : 800, fit: true }).run();
    },
  };
}
