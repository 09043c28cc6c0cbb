// Saves the current picture as an SVG or PNG file.
import { themeColour } from "./colour.js";
import { drawing } from "./dom.js";

const NAMESPACE = "http://www.w3.org/2000/svg";
const SCALE = 2; // pixels of a PNG per CSS pixel
const MARGIN = 16;
const INTERACTIVE_ATTRIBUTES = [
  "class", "tabindex", "role", "aria-pressed", "data-side", "data-place", "data-node", "data-fate",
];

// The markup of a copy with a background and a margin.
export function svgText(picture) {
  const copy = picture.cloneNode(true);
  const box = picture.viewBox.baseVal;
  const [width, height] = [box.width + 2 * MARGIN, box.height + 2 * MARGIN];
  for (const node of [copy, ...copy.querySelectorAll("*")]) {
    INTERACTIVE_ATTRIBUTES.forEach((name) => node.removeAttribute(name));
  }
  const frame = { xmlns: NAMESPACE, viewBox: `${-MARGIN} ${-MARGIN} ${width} ${height}`, width, height };
  Object.entries(frame).forEach(([name, value]) => copy.setAttribute(name, value));
  copy.prepend(drawing("rect", { x: -MARGIN, y: -MARGIN, width, height, fill: themeColour("card") }));
  return new XMLSerializer().serializeToString(copy);
}

function svgBlob(picture) {
  return new Blob([svgText(picture)], { type: "image/svg+xml" });
}

async function pngBlob(picture) {
  const image = new Image();
  image.src = URL.createObjectURL(svgBlob(picture));
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [image.width * SCALE, image.height * SCALE];
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(image.src);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

export async function save(picture, kind) {
  const blob = kind === "png" ? await pngBlob(picture) : svgBlob(picture);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = `sixfold.${kind}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
