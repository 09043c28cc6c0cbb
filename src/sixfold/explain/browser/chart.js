// Line charts with round axis labels.
import { drawing } from "./dom.js";
import { themeColour } from "./colour.js";
import { note, picture } from "./svg.js";

const LEFT = 52;
const RIGHT = 12;
const BOTTOM = 28;
const TOP = 10;
const MANY_DOTS = 60;

// `series` is [{ points: [[x, y], …], colour, dots, faint }], `cursor` an x value to mark. Returns an SVG element.
export function lineChart({ series, width, height, label, format = String, floor = null, cursor = null }) {
  const points = series.flatMap((one) => one.points);
  const [xs, ys] = [points.map(([x]) => x), points.map(([, y]) => y)];
  const last = Math.max(...xs);
  const ticks = roundNumbers(floor ?? Math.min(...ys), Math.max(...ys), 4);
  const [low, high] = [ticks[0], ticks.at(-1)];
  const x = (value) => LEFT + (value / (last || 1)) * (width - LEFT - RIGHT);
  const y = (value) => TOP + (1 - (value - low) / (high - low)) * (height - TOP - BOTTOM);
  const steps = roundNumbers(0, last, Math.max(3, Math.floor(width / 100))).filter((tick) => tick <= last);
  return picture("chart", width, height, { role: "img", "aria-label": label, "font-size": 12 },
    ticks.map((tick) => gridLine(y(tick), width, format(tick))),
    steps.map((tick) => note(tick.toLocaleString("en"), x(tick), height - 8, { "text-anchor": "middle" })),
    series.map((one) => line(one, x, y)),
    cursor === null ? null : verticalLine(x(cursor), height));
}

function gridLine(y, width, text) {
  return drawing("g", {}, drawing("line", { x1: LEFT, x2: width - RIGHT, y1: y, y2: y, stroke: themeColour("line") }),
    note(text, LEFT - 8, y + 4, { "text-anchor": "end" }));
}

function verticalLine(x, height) {
  return drawing("line", { x1: x, x2: x, y1: TOP, y2: height - BOTTOM, stroke: themeColour("other") });
}

function line({ points, colour, dots, faint }, x, y) {
  const places = points.map(([step, value]) => [x(step).toFixed(1), y(value).toFixed(1)]);
  const path = places.map(([cx, cy], place) => `${place ? "L" : "M"}${cx} ${cy}`).join("");
  const r = places.length > MANY_DOTS ? 2 : 3;
  return drawing("g", {},
    drawing("path", {
      d: path, fill: "none", stroke: themeColour(colour), "stroke-width": faint ? 1.2 : 2,
      "stroke-opacity": faint ? 0.7 : 1, "stroke-linejoin": "round",
    }),
    dots ? places.map(([cx, cy]) => drawing("circle", { cx, cy, r, fill: themeColour(colour) })) : []);
}

// Evenly spaced round numbers that cover the range from lowest to highest.
export function roundNumbers(lowest, highest, count) {
  const rough = (highest - lowest || Math.abs(highest) || 1) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((each) => each >= rough);
  const first = Math.floor(lowest / step + 1e-9);
  const last = Math.max(first + 1, Math.ceil(highest / step - 1e-9));
  return Array.from({ length: last - first + 1 }, (_, place) => Number(((first + place) * step).toPrecision(10)));
}
