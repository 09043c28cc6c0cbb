// Perceptually uniform colour scales: lightness changes evenly in OKLCH, so they also work in greyscale.
export const RAMPS = {
  light: { from: [0.985, 0.005, 215], to: [0.34, 0.15, 272] },
  dark: { from: [0.23, 0.015, 272], to: [0.92, 0.095, 195] },
};
// Negative, zero, positive.
export const POLES = {
  light: { low: [0.52, 0.15, 255], middle: [0.985, 0, 0], high: [0.6, 0.16, 50] },
  dark: { low: [0.72, 0.13, 245], middle: [0.22, 0.01, 272], high: [0.77, 0.14, 60] },
};

export function isDark() {
  return document.documentElement.dataset.theme === "dark";
}

export function themeColour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

function toRgb([lightness, chroma, hue]) {
  const a = chroma * Math.cos((hue * Math.PI) / 180);
  const b = chroma * Math.sin((hue * Math.PI) / 180);
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ].map((linear) => {
    const light = Math.min(1, Math.max(0, linear));
    return Math.round(255 * (light <= 0.0031308 ? 12.92 * light : 1.055 * light ** (1 / 2.4) - 0.055));
  });
}

function between(one, other, share) {
  return one.map((value, place) => value + (other[place] - value) * share);
}

// 256 colours for weights from 0 to 1, on a square-root scale, so that small weights are visible.
export function weightColours() {
  const { from, to } = RAMPS[isDark() ? "dark" : "light"];
  return Array.from({ length: 256 }, (_, level) => toRgb(between(from, to, Math.sqrt(level / 255))));
}

// 255 colours for values from -1 to 1.
export function signedColours() {
  const { low, middle, high } = POLES[isDark() ? "dark" : "light"];
  return Array.from({ length: 255 }, (_, level) => {
    const share = level / 127 - 1;
    const pole = share < 0 ? low : high;
    const shade = between(middle, pole, Math.abs(share));
    return toRgb([shade[0], shade[1], pole[2]]);
  });
}

// A canvas with one pixel per cell; a matrix of more than `most` rows or columns is max-pooled. `level` returns the
// index of a cell's colour.
export function raster(rows, columns, level, colours, most = Infinity) {
  const height = Math.min(rows, most);
  const width = Math.min(columns, most);
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [width, height];
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  const levels = new Uint8Array(width * height);
  for (let row = 0; row < rows; row += 1) {
    const line = Math.floor((row * height) / rows) * width;
    for (let column = 0; column < columns; column += 1) {
      const place = line + Math.floor((column * width) / columns);
      levels[place] = Math.max(levels[place], level(row, column));
    }
  }
  const pixels = new Uint32Array(image.data.buffer);
  const packed = Uint32Array.from(colours, ([red, green, blue]) =>
    ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0);
  levels.forEach((each, place) => (pixels[place] = packed[each]));
  context.putImageData(image, 0, 0);
  return canvas;
}

export function weightRaster(matrix, colours, most) {
  const { rows, columns, values } = matrix;
  return raster(rows, columns, (row, column) => Math.round(255 * values[row * columns + column]), colours, most);
}
