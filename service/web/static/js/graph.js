// Graphs of entities, by Cytoscape. Labels are drawn on a canvas, so that no name can be anything but text.
import cytoscape from "../vendor/cytoscape/cytoscape.esm.min.mjs";

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const MAX_LABEL = 26, MOST_LABELS = 26;
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
  { selector: "edge.quiet", style: { "text-opacity": 0, "text-background-opacity": 0, opacity: 0.75 } },
  { selector: "edge.quiet:active, edge.quiet:selected, edge.spoken", style: { "text-opacity": 1, "text-background-opacity": 0.9, opacity: 1, "z-index": 9 } },
];

/** Places on an ellipse as wide as the canvas; where it would be crowded, every other one stands further in. */
function around(cy, centre) {
  const others = cy.nodes().filter((node) => node.id() !== centre).map((node) => node.id());
  const wide = Math.max(170, others.length * 15), high = Math.max(130, others.length * 8.5);
  const places = { [centre]: { x: 0, y: 0 } };
  others.forEach((id, at) => {
    const angle = (2 * Math.PI * at) / others.length - Math.PI / 7, share = others.length > 12 && at % 2 ? 0.68 : 1;
    places[id] = { x: wide * share * Math.cos(angle), y: high * share * Math.sin(angle) };
  });
  return (node) => places[node.id()];
}

export function graph(container, signal, options = {}) {
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const cy = cytoscape({ container, style: style(), minZoom: 0.15, maxZoom: 2.5, ...options });
  document.addEventListener("themechange", () => cy.style(style()), { signal });
  signal.addEventListener("abort", () => cy.destroy());
  // Where there are too many labels to read, those of the node under the pointer are shown.
  cy.on("mouseover", "node", (event) => event.target.connectedEdges().addClass("spoken"));
  cy.on("mouseout", "node", (event) => event.target.connectedEdges().removeClass("spoken"));

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
        // Several predicates between the same two entities share one line.
        const id = `edge:${JSON.stringify([subject, object])}`, edge = cy.getElementById(id);
        if (edge.empty()) cy.add({ data: { id, source: subject, target: object, predicates: [predicate], label: short(predicate) } });
        else if (!edge.data("predicates").includes(predicate)) {
          const predicates = [...edge.data("predicates"), predicate];
          edge.data({ predicates, label: short(predicates.join(", ")) });
        }
      });
      return cy.elements().length - before;
    },
    /** Rings around a centre, or springs that keep what was there near its place. */
    arrange(centre = null) {
      const many = cy.nodes().length > 120;
      cy.edges().toggleClass("quiet", cy.edges().length > MOST_LABELS);
      const rings = { name: "preset", positions: around(cy, centre), padding: 44 };
      const springs = { name: "cose", randomize: false, nodeRepulsion: () => 90_000, idealEdgeLength: () => 110, nodeOverlap: 24, gravity: 0.3, numIter: many ? 250 : 700, padding: 40 };
      cy.layout({ ...(centre == null ? springs : rings), animate: !calm && !many, animationDuration: 300, fit: true, stop: () => { if (cy.zoom() > 1.15) { cy.zoom(1.15); cy.center(); } } }).run();
    },
  };
}
