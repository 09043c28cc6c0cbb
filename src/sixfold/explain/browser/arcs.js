// Two columns of tokens and an arc for each attention weight, as in the figures of the paper.
import { ARROWS, drawing, percent, pressed, rove, within } from "./dom.js";
import { themeColour } from "./colour.js";
import { columnOf, largest, rowOf } from "./attention_matrix.js";
import { shortened } from "./token_text.js";
import { label, note, picture, tokenStyle } from "./svg.js";

const ROW = 28;
const TOP = 34;
const FAINTEST = 0.015; // smaller weights are not drawn
const WIDEST_SIDE = 200;

// `scene` has matrix, rowLabels, columnLabels, whether the tokens of both sides were given to a model that wrote the
// others (areGiven), title and the titles of both sides; `actions` has `hover` and `pin`,
// which get a side and an index. Returns the picture, and a function that highlights a query and a key (-1: none).
export function arcsPicture(scene, width, actions) {
  const [rows, columns] = [scene.rowLabels, scene.columnLabels];
  const side = within(width * 0.27, 96, WIDEST_SIDE);
  const height = TOP + ROW * Math.max(rows.length, columns.length) + 8;
  const left = { name: "from", x: side, top: topOf(rows, columns), labels: rows, width: side };
  const right = { name: "to", x: width - side, top: topOf(columns, rows), labels: columns, width: side };
  const arcs = allArcs(scene.matrix, left, right);
  const tokens = [left, right].map((one) => one.labels.map((_, place) => tokenMark(scene, one, place, actions)));
  const svg = picture("arcs", width, height, { role: "group", "aria-label": scene.title, "font-size": 15 },
    note(scene.titles[0], left.x - 6, 16, { "text-anchor": "end", "font-size": 13 }),
    note(scene.titles[1], right.x + 6, 16, { "font-size": 13 }),
    drawing("g", { fill: "none", "stroke-linecap": "round" }, arcs.map((arc) => arc.node)), tokens.flat());
  enableArrowKeys(...tokens);
  return { svg, highlight: (from, to) => highlightArcs(scene.matrix, arcs, tokens, from, to) };
}

// The shorter column stands in the middle of the longer one.
function topOf(labels, others) {
  return TOP + (ROW * Math.max(0, others.length - labels.length)) / 2 + ROW / 2;
}

function allArcs({ rows, columns, values }, left, right) {
  const found = [];
  for (let row = 0; row < rows; row += 1) {
    for (let column = 0; column < columns; column += 1) {
      const weight = values[row * columns + column];
      if (weight >= FAINTEST) found.push({ row, column, weight, node: arc(row, column, weight, left, right) });
    }
  }
  return found;
}

function arc(row, column, weight, left, right) {
  const [x1, y1, x2, y2] = [left.x + 8, left.top + row * ROW, right.x - 8, right.top + column * ROW];
  const bend = (x2 - x1) * 0.45;
  const d = `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`;
  return drawing("path", { d, "stroke-width": (0.6 + 4.4 * weight).toFixed(2) });
}

function tokenMark(scene, { name, x, top, labels, width }, place, actions) {
  const isLeft = name === "from";
  const middle = top + place * ROW;
  const pin = () => actions.pin(name, place);
  return drawing("g", {
    class: "token", role: "button", "aria-label": described(scene, isLeft, place),
    "data-side": name, "data-place": place, onclick: pin, onkeydown: pressed(pin),
    onpointerenter: (event) => event.pointerType === "mouse" && actions.hover(name, place),
    onpointerleave: (event) => event.pointerType === "mouse" && actions.hover(name, -1),
  },
  drawing("rect", {
    x: isLeft ? x - width + 1 : x, y: middle - ROW / 2 + 1, width: width - 1, height: ROW - 2, rx: 5,
    stroke: themeColour(isLeft ? "accent" : "other"),
  }),
  label(shortened(labels[place], Math.floor(width / 9)), isLeft ? x - 6 : x + 6, middle + 5,
    { "text-anchor": isLeft ? "end" : "start", ...tokenStyle(scene.areGiven[isLeft ? 0 : 1][place]) }));
}

function described({ matrix, rowLabels, columnLabels, titles }, isLeft, place) {
  const values = isLeft ? rowOf(matrix, place) : columnOf(matrix, place);
  const [own, others] = isLeft ? [rowLabels, columnLabels] : [columnLabels, rowLabels];
  const found = largest(values, 3).map((each) => `${others[each]} ${percent(values[each])}`);
  return `${titles[isLeft ? 0 : 1]} ${own[place]}: ${found.join(", ") || "nothing"}`;
}

function highlightArcs(matrix, arcs, [left, right], from, to) {
  const isHighlighted = from >= 0 || to >= 0;
  for (const { row, column, weight, node } of arcs) {
    const isFaint = isHighlighted && row !== from && column !== to;
    node.setAttribute("stroke", themeColour(column === to && row !== from ? "other" : "accent"));
    node.setAttribute("stroke-opacity", (Math.min(1, 0.1 + weight) * (isFaint ? 0.1 : 1)).toFixed(3));
  }
  const weight = (row, column) => (row >= 0 && column >= 0 ? matrix.values[row * matrix.columns + column] : 0);
  left.forEach((node, place) => mark(node, place === from, weight(place, to), "accent", "other"));
  right.forEach((node, place) => mark(node, place === to, weight(from, place), "other", "accent"));
}

// A token that attends to the highlighted one, or is attended to by it, has the colour of the arcs between them.
function mark(node, isHighlighted, weight, own, others) {
  node.setAttribute("aria-pressed", isHighlighted);
  node.firstChild.setAttribute("fill", themeColour(isHighlighted ? own : others));
  node.firstChild.setAttribute("fill-opacity", isHighlighted ? 0.12 : (0.55 * weight).toFixed(3));
  node.firstChild.setAttribute("stroke-opacity", isHighlighted ? 1 : 0);
}

function enableArrowKeys(left, right) {
  const all = [...left, ...right];
  rove(all, 0);
  const move = (event) => {
    if (!(event.key in ARROWS)) return;
    event.preventDefault();
    const [down, across] = ARROWS[event.key];
    const { side, place } = event.currentTarget.dataset;
    const column = across < 0 || (!across && side === "from") ? left : right;
    const next = column[within(Number(place) + down, 0, column.length - 1)];
    rove(all, all.indexOf(next));
    next.focus();
  };
  all.forEach((node) => node.addEventListener("keydown", move));
}
