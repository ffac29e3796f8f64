// What a proof says, apart from how it is drawn: steps, links, bindings, the weakest link, the text form.

/**
 * The proof as steps: {kind: "goal" | "fact" | "rule", node, links, children}. A goal that a rule proves has the rule as
 * its one child, and the rule has the goals of its body. `links` are the unifications on the way to a step.
 */
export function steps(node, links = []) {
  if (!node.rule) return { kind: node.by === "fact" ? "fact" : "goal", node, links: [...links, ...(node.unifications ?? [])], children: [] };
  // Unifications come in the order of the body's atoms, after one for the head where there is one; or for the head alone.
  const { length } = node.unifications;
  const extra = length < node.children.length ? length : length - node.children.length;
  const body = node.children.map((child, at) => steps(child, node.unifications.slice(extra + at, extra + at + 1)));
  const rule = { kind: "rule", node, links: node.unifications.slice(0, extra), bindings: Object.entries(node.bindings ?? {}), children: body };
  return { kind: "goal", node, links, children: [rule] };
}

/** The links that differ from a perfect match, or all where none does: those worth a label. */
export const telling = (links) => {
  const weak = links.filter((link) => link.score < 1 || link.left !== link.right);
  return weak.length ? weak : links.slice(0, 1);
};

/** The one link that holds the proof back the most; null where every link is perfect. */
export function weakest(root) {
  let found = null;
  const visit = (step) => {
    for (const link of step.links) if (link.score < 1 && (!found || link.score < found.score)) found = link;
    step.children.forEach(visit);
  };
  visit(root);
  return found;
}

export const fact = (goal) => `${goal.predicate}(${goal.subject}, ${goal.object})`;

/** The whole proof as indented text. */
export function plain(root) {
  const mark = weakest(root);
  const lines = [];
  const visit = (step, indent) => {
    const links = step.links.filter((link) => link.score < 1 || link.left !== link.right)
      .map((link) => `   [${link.left} ${link.approximate ? "≈" : "~"} ${link.right} ${link.score.toFixed(3)}${link === mark ? ", weakest link" : ""}]`).join("");
    const pad = "  ".repeat(indent);
    if (step.kind === "rule") {
      lines.push(`${pad}by ${step.node.rule.text}${links}`);
      if (step.bindings.length) lines.push(`${pad}with ${step.bindings.map(([variable, value]) => `${variable} = ${value}`).join(", ")}`);
    } else lines.push(`${pad}${fact(step.node.goal)}   ${step.node.score.toFixed(3)}${step.kind === "fact" ? "   fact" : ""}${links}`);
    step.children.forEach((child) => visit(child, indent + 1));
  };
  visit(root, 0);
  return lines.join("\n");
}
