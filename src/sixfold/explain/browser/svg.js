// SVG pictures and labels. Colours are attributes, not CSS, so that a saved picture keeps them.
import { drawing } from "./dom.js";
import { themeColour } from "./colour.js";

export function picture(kind, width, height, attributes, ...children) {
  return drawing("svg", {
    viewBox: `0 0 ${width} ${height}`, width, height, class: `picture ${kind}`,
    "font-family": "system-ui, sans-serif", "font-size": 13, ...attributes,
  }, ...children);
}

export function label(text, x, y, attributes = {}) {
  return drawing("text", { x, y, fill: themeColour("ink"), "unicode-bidi": "isolate", ...attributes }, text);
}

export function note(text, x, y, attributes = {}) {
  return label(text, x, y, { fill: themeColour("soft"), ...attributes });
}

// Tokens that were given to a model are lighter than those that it wrote.
export function tokenStyle(isGiven) {
  return isGiven ? { fill: themeColour("soft"), "font-style": "italic" } : {};
}

// A canvas with one pixel per cell, as an SVG image with the given position and size.
export function cellsImage(canvas, box) {
  const href = canvas.toDataURL();
  return drawing("image", { ...box, href, preserveAspectRatio: "none", "image-rendering": "pixelated" });
}

// The position of the pointer, in the coordinates of a picture.
export function pointIn(svg, event) {
  const box = svg.getBoundingClientRect();
  const scale = svg.viewBox.baseVal.width / box.width;
  return [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
}
