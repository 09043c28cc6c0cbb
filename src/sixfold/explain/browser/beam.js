// The beam tree: a column for each step, with the best extensions on top.
import { drawing, percent, pressed, within } from "./dom.js";
import { themeColour } from "./colour.js";
import { isSpecial, shortened, tokenLabel, textOf } from "./token_text.js";
import { label, note, picture } from "./svg.js";

export const COLUMN = 112;
const NODE = COLUMN - 14;
const ROW = 26;
const TOP = 26;
const MOST_COLUMNS = 48; // of a long translation, only these steps up to the current one are drawn
const FATES = { kept: "kept", ended: "finished", pruned: "pruned", left: "unfinished when the search stopped" };

export class BeamTree {
  constructor({ nodes, winner }) {
    this.nodes = nodes.map((node, place) => ({ ...node, place }));
    this.steps = [];
    for (const node of this.nodes) {
      const column = (this.steps[node.step] ??= []);
      node.rank = column.length;
      column.push(node);
    }
    this.best = new Set(this.ancestry(winner).map((node) => node.place));
  }

  ancestry(place) {
    const found = [];
    for (let index = place; index >= 0; index = this.nodes[index].parent) found.unshift(this.nodes[index]);
    return found;
  }

  text(place) {
    return textOf(this.ancestry(place).map((node) => node.piece));
  }

  // The columns to draw at a step of the search: the first, and the one after the last.
  columns(step) {
    const first = within(step - MOST_COLUMNS + 4, 0, Math.max(0, this.steps.length - MOST_COLUMNS));
    return [first, Math.min(this.steps.length, first + MOST_COLUMNS)];
  }
}

export function beamPicture(tree, step, chosen, choose) {
  const [first, end] = tree.columns(step);
  const tallest = Math.max(...tree.steps.slice(first, end).map((nodes) => nodes.length));
  const columns = tree.steps.slice(first, Math.min(end, step + 1));
  const shown = columns.flat();
  const at = (node) => [(node.step - first) * COLUMN + 4, TOP + node.rank * ROW + ROW / 2];
  const path = new Set(chosen < 0 ? [] : tree.ancestry(chosen).map((node) => node.place));
  const edges = shown.filter((node) => node.step > first)
    .map((node) => edge(at(tree.nodes[node.parent]), at(node), styleOf(tree, node, path)));
  const numbers = columns.map((_, place) =>
    note(first + place + 1, place * COLUMN + 10, 14, { "font-size": 12 }));
  return picture("tree", (end - first) * COLUMN + 8, TOP + tallest * ROW + 6,
    { role: "group", "aria-label": `Beam tree up to step ${step + 1}` },
    numbers, edges, shown.map((node) => nodeMark(tree, node, at(node), styleOf(tree, node, path), choose)));
}

function styleOf(tree, node, path) {
  if (path.has(node.place)) return { colour: "other", opacity: 1, width: 2.4, isBold: true };
  if (tree.best.has(node.place)) return { colour: "accent", opacity: 1, width: 2.2, isBold: true };
  if (node.fate === "pruned") return { colour: "soft", opacity: 0.55, width: 1, dash: "3 3" };
  return { colour: "ink", opacity: 0.75, width: 1 };
}

function edge([x1, y1], [x2, y2], style) {
  const from = x1 + NODE;
  return drawing("path", {
    d: `M${from} ${y1}C${from + 9} ${y1} ${x2 - 9} ${y2} ${x2} ${y2}`, fill: "none",
    stroke: themeColour(style.colour), "stroke-opacity": style.opacity, "stroke-width": style.width,
    "stroke-dasharray": style.dash,
  });
}

function described(tree, node) {
  const text = `${tree.text(node.place) || "(empty)"}${isSpecial(node.piece) ? " (end)" : ""}`;
  return `Step ${node.step + 1}, ${text}: ${FATES[node.fate]}, probability of this token ` +
    `${percent(Math.exp(node.log_probability))}, log-probability so far ${node.total.toFixed(2)}`;
}

function nodeMark(tree, node, [x, y], style, choose) {
  const probability = Math.exp(node.log_probability);
  const description = described(tree, node);
  const act = () => choose(node.place);
  const box = { x, y: y - 10, height: 20, rx: node.fate === "ended" ? 3 : 10 };
  const colour = themeColour(style.colour);
  return drawing("g", {
    class: "node", role: "button", tabindex: 0, "aria-label": description, "data-fate": node.fate, "data-node": node.place,
    onclick: act, onkeydown: pressed(act),
  },
  drawing("title", {}, description),
  drawing("rect", {
    ...box, width: NODE, fill: themeColour("card"), stroke: colour, "stroke-opacity": style.opacity,
    "stroke-width": style.isBold ? 1.6 : 1, "stroke-dasharray": style.dash,
  }),
  drawing("rect", {
    ...box, width: Math.max(3, NODE * probability), fill: colour, "fill-opacity": style.isBold ? 0.16 : 0.08,
  }),
  label(shortened(tokenLabel(node.piece), 9), x + 8, y + 4.5, {
    fill: style.isBold ? colour : themeColour("ink"), "fill-opacity": style.dash ? 0.7 : 1,
    "font-weight": style.isBold ? 650 : 400, "text-decoration": style.dash ? "line-through" : null,
  }),
  note(Math.round(100 * probability), x + NODE - 7, y + 4, { "text-anchor": "end", "font-size": 11 }));
}
