// A heat map: one cell for each weight, with token labels. A matrix that is too large for labels is shown without them,
// beside a labelled detail around the selected cell.
import { ARROWS, drawing, element, percent, within } from "./dom.js";
import { themeColour, weightColours, weightRaster } from "./colour.js";
import { shortened } from "./token_text.js";
import { cellsImage, label, picture, pointIn, tokenStyle } from "./svg.js";

const LABELS = 100; // space for labels, left and above
const OVERHANG = 40; // of the slanted column labels, on the right
const LARGEST_CELL = 34;
const SMALLEST_CELL = 13; // with a label
const MOST_ROWS = 64;
const DETAIL = 28; // most rows and columns of the detail
const GAP = 32;

// The colour legend. The scale is a square root, so its middle is 25%.
export function colourScale() {
  const values = Float32Array.from({ length: 128 }, (_, place) => (place / 127) ** 2);
  const canvas = weightRaster({ rows: 1, columns: 128, values }, weightColours());
  return element("span", { class: "scale", role: "img", "aria-label": "Colour scale from 0 to 100%" }, canvas,
    ["0", "25%", "100%"].map((text) => element("span", { "aria-hidden": "true" }, text)));
}

// `scene` is as in arcs.js; `point` gets the row and column under the pointer, and whether they were selected.
export function mapPicture(scene, width, point) {
  const { matrix } = scene;
  const layout = layoutOf(matrix, width);
  const colours = weightColours();
  const moving = drawing("g");
  const svg = picture("map", width, layout.height, { role: "img", tabindex: 0 },
    cells(matrix, layout.whole ?? layout.detail, colours), moving);
  const now = { from: -1, to: -1 };
  const highlight = (from, to) => {
    Object.assign(now, { from, to });
    const detail = placed(layout, now, matrix);
    svg.setAttribute("aria-label", described(scene, now));
    moving.replaceChildren(...(layout.whole ? overviewWithFrame(matrix, layout.whole, detail, colours, now) : []),
      ...labels(scene, detail, now), ...bands(detail, now));
  };
  enablePointer(svg, () => [placed(layout, now, matrix), layout.whole], point);
  enableArrowKeys(svg, matrix, now, point);
  return { svg, highlight };
}

function layoutOf({ rows, columns }, width) {
  const cell = Math.min(LARGEST_CELL, (width - LABELS - OVERHANG) / columns);
  if (cell < SMALLEST_CELL || rows > MOST_ROWS) return largeLayout(rows, columns, width);
  const detail = { row: 0, column: 0, rows, columns, x: LABELS, y: LABELS, cell };
  return { detail, height: LABELS + rows * cell + 4 };
}

function largeLayout(rows, columns, width) {
  const isBeside = width >= 860;
  const detailWidth = isBeside ? LABELS + DETAIL * 15 : width;
  const small = Math.min((isBeside ? width - detailWidth - GAP : width) / columns, 520 / rows);
  const count = Math.min(DETAIL, Math.floor((detailWidth - LABELS - OVERHANG) / SMALLEST_CELL));
  const detail = {
    rows: Math.min(rows, count), columns: Math.min(columns, count),
    cell: Math.min(17, (detailWidth - LABELS - OVERHANG) / count),
    x: (isBeside ? columns * small + GAP : 0) + LABELS, y: (isBeside ? 0 : rows * small + GAP / 2) + LABELS,
  };
  const whole = { row: 0, column: 0, rows, columns, x: 1, y: 1, cell: small };
  return { whole, detail, height: Math.max(rows * small + 2, detail.y + detail.rows * detail.cell + 4) };
}

// The detail of a large matrix follows the selected cell.
function placed({ whole, detail }, { from, to }, { rows, columns }) {
  if (!whole) return detail;
  const begin = (place, count, shown) => Math.max(0, Math.min(count - shown, place - Math.floor(shown / 2)));
  return { ...detail, row: begin(from, rows, detail.rows), column: begin(to, columns, detail.columns) };
}

function described({ title, matrix, rowLabels, columnLabels }, { from, to }) {
  const size = `${title}: ${matrix.rows} by ${matrix.columns} weights.`;
  if (from < 0 || to < 0) return `${size} The arrow keys move through it.`;
  return `${size} ${rowLabels[from]} to ${columnLabels[to]}: ${percent(matrix.values[from * matrix.columns + to])}`;
}

function cells(matrix, area, colours) {
  const values = new Float32Array(area.rows * area.columns);
  for (let row = 0; row < area.rows; row += 1) {
    const begins = (area.row + row) * matrix.columns + area.column;
    values.set(matrix.values.subarray(begins, begins + area.columns), row * area.columns);
  }
  const canvas = weightRaster({ rows: area.rows, columns: area.columns, values }, colours);
  const box = { x: area.x, y: area.y, width: area.columns * area.cell, height: area.rows * area.cell };
  return drawing("g", {}, cellsImage(canvas, box),
    drawing("rect", { ...box, fill: "none", stroke: themeColour("line") }));
}

function overviewWithFrame(matrix, whole, detail, colours, now) {
  const outline = drawing("rect", {
    x: whole.x + detail.column * whole.cell, y: whole.y + detail.row * whole.cell, width: detail.columns * whole.cell,
    height: detail.rows * whole.cell, fill: "none", stroke: themeColour("ink"), "stroke-width": 1.5,
  });
  return [outline, ...bands(whole, now), cells(matrix, detail, colours)];
}

function labels(scene, area, { from, to }) {
  const style = (isChosen) => ({
    "font-weight": isChosen ? 700 : 400, "fill-opacity": isChosen || (from < 0 && to < 0) ? 1 : 0.65,
  });
  const rows = Array.from({ length: area.rows }, (_, place) => {
    const row = area.row + place;
    return label(shortened(scene.rowLabels[row], 13), area.x - 8, area.y + (place + 0.5) * area.cell + 4.5,
      { "text-anchor": "end", ...style(row === from), ...tokenStyle(scene.areGiven[0][row]) });
  });
  const columns = Array.from({ length: area.columns }, (_, place) => {
    const column = area.column + place;
    const [x, y] = [area.x + (place + 0.5) * area.cell + 4, area.y - 8];
    return label(shortened(scene.columnLabels[column], 13), x, y,
      { transform: `rotate(-60 ${x} ${y})`, ...style(column === to), ...tokenStyle(scene.areGiven[1][column]) });
  });
  return [...rows, ...columns];
}

// Frames around the selected row and column.
function bands(area, { from, to }) {
  const band = (x, y, width, height, colour) => drawing("rect", {
    x, y, width, height, fill: "none", stroke: themeColour(colour), "stroke-width": 1.5, "pointer-events": "none",
  });
  const [row, column] = [from - area.row, to - area.column];
  const found = [];
  if (from >= 0 && row >= 0 && row < area.rows) {
    found.push(band(area.x, area.y + row * area.cell, area.columns * area.cell, area.cell, "accent"));
  }
  if (to >= 0 && column >= 0 && column < area.columns) {
    found.push(band(area.x + column * area.cell, area.y, area.cell, area.rows * area.cell, "other"));
  }
  return found;
}

function enablePointer(svg, areas, point) {
  const cellAt = (event) => {
    const [x, y] = pointIn(svg, event);
    for (const area of areas().filter(Boolean)) {
      const [row, column] = [Math.floor((y - area.y) / area.cell), Math.floor((x - area.x) / area.cell)];
      const isInside = row >= 0 && column >= 0 && row < area.rows && column < area.columns;
      if (isInside) return [area.row + row, area.column + column];
    }
    return [-1, -1];
  };
  svg.addEventListener("click", (event) => point(...cellAt(event), true));
  // Without hovering for large matrices: the detail would move under the pointer.
  if (areas()[1]) return;
  svg.addEventListener("pointermove", (event) => event.pointerType === "mouse" && point(...cellAt(event), false));
  svg.addEventListener("pointerleave", () => point(-1, -1, false));
}

function enableArrowKeys(svg, { rows, columns }, now, point) {
  const next = (place, by, count) => (place < 0 ? 0 : within(place + by, 0, count - 1));
  svg.addEventListener("keydown", (event) => {
    if (!(event.key in ARROWS)) return;
    event.preventDefault();
    const [down, across] = ARROWS[event.key];
    point(next(now.from, down, rows), next(now.to, across, columns), true);
  });
}
