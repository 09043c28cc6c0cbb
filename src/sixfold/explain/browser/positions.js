// The positional encoding: a heat map, one dimension as a curve, and the similarity of positions.
import { ARROWS, drawing, element, within } from "./dom.js";
import { lineChart } from "./chart.js";
import { raster, signedColours, themeColour } from "./colour.js";
import { inflate } from "./attention_matrix.js";
import { muted } from "./controls.js";
import { cellsImage, note, picture, pointIn } from "./svg.js";

const ZERO_LEVEL = 127; // the byte that encodes 0
const LEFT = 44;
const TEXT = {
  sinusoidal: "Attention ignores the order of tokens, so a vector for each position is added to the embeddings: " +
    "sines and cosines whose wavelength grows from dimension to dimension (section 3.5 of the paper).",
  learned: "Attention ignores the order of tokens, so a vector for each position is added to the embeddings. " +
    "This model has learned these vectors.",
  rotary: "Attention ignores the order of tokens. No vector is added here: every head turns its queries and keys, two " +
    "numbers at a time, by an angle that grows with the position, more slowly from pair to pair (Su et al., 2021). A " +
    "score then depends on the distance of two tokens. A row has the cosine and the sine of each pair's angle.",
};

export class PositionsView {
  constructor({ data }, state) {
    Object.assign(this, { data, state }, { length: data.positions.length, columns: data.positions.width });
    this.isRotary = data.positions.kind === "rotary";
    this.figure = element("div", { class: "figure" });
    this.curves = element("div", { class: "curves" });
    this.root = element("div", { class: "positions" }, element("h2", {}, data.positions.kind === "rotary" ? "Rotary positions" : "Positional encoding"),
      muted(TEXT[data.positions.kind]), this.figure, this.curves);
    new ResizeObserver(() => this.resized()).observe(this.figure);
  }

  resized() {
    if (this.values && this.figure.clientWidth && this.figure.clientWidth !== this.drawnWidth) this.show();
  }

  async update(changed) {
    const { scale, table } = this.data.positions;
    this.values ??= Float32Array.from(await inflate(table), (level) => (scale * (level - ZERO_LEVEL)) / ZERO_LEVEL);
    if (!this.svg || changed.has("theme") || changed.has("view")) this.show();
    else this.point();
  }

  show() {
    this.drawnWidth = this.figure.clientWidth;
    const width = Math.max(280, this.drawnWidth);
    const height = within(width * 0.4, 200, 390);
    this.area = { x: LEFT, y: 1, width: width - LEFT - 8, height };
    this.cross = drawing("g");
    this.svg = picture("map", width, height + 30, {
      role: "img", tabindex: 0, "font-size": 12, onclick: (event) => this.choose(event),
      onpointermove: (event) => event.pointerType === "mouse" && this.choose(event),
      onkeydown: (event) => this.move(event),
    }, cellsImage(this.cells(), this.area), this.notes(width, height), this.cross);
    this.figure.replaceChildren(this.svg);
    this.point();
  }

  cells() {
    const { scale } = this.data.positions;
    const level = (row, column) => Math.round(ZERO_LEVEL * (1 + this.values[row * this.columns + column] / scale));
    return raster(this.length, this.columns, level, signedColours());
  }

  notes(width, height) {
    const end = { "text-anchor": "end" };
    const vertical = { "text-anchor": "middle", transform: `rotate(-90 ${LEFT - 12} ${height / 2})` };
    const [columns, last] = this.isRotary ? ["pair 0", this.columns / 2 - 1] : ["dimension 0", this.columns - 1];
    return [
      note("0", LEFT - 8, 12, end), note("position", LEFT - 12, height / 2, vertical),
      note(this.length - 1, LEFT - 8, height, end), note(columns, LEFT, height + 19),
      note(last, width - 8, height + 19, end),
    ];
  }

  place() {
    const { position, dimension } = this.state.values;
    return [Math.min(this.length - 1, position), Math.min(this.columns - 1, dimension)];
  }

  choose(event) {
    const [x, y] = pointIn(this.svg, event);
    const share = (value, size) => within(value / size, 0, 0.9999);
    this.state.set({
      position: Math.floor(this.length * share(y - this.area.y, this.area.height)),
      dimension: Math.floor(this.columns * share(x - this.area.x, this.area.width)),
    });
  }

  move(event) {
    if (!(event.key in ARROWS)) return;
    event.preventDefault();
    const [position, dimension] = this.place();
    const [down, across] = ARROWS[event.key];
    this.state.set({ position: Math.max(0, position + down), dimension: Math.max(0, dimension + across) });
  }

  point() {
    const [position, dimension] = this.place();
    const { x, y, width, height } = this.area;
    const [column, row] = [((dimension + 0.5) / this.columns) * width, ((position + 0.5) / this.length) * height];
    const stroke = themeColour("ink");
    const line = (x1, y1, x2, y2) => drawing("line", { x1, y1, x2, y2, stroke, "stroke-width": 1.5 });
    this.cross.replaceChildren(line(x + column, y, x + column, y + height), line(x, y + row, x + width, y + row));
    const value = this.values[position * this.columns + dimension].toFixed(2);
    this.svg.setAttribute("aria-label",
      `Positional encoding: position ${position}, ${this.nameOf(dimension).toLowerCase()}, ${value}. The arrow keys move the selection.`);
    this.curves.replaceChildren(
      this.curve(`${this.nameOf(dimension)}${this.wavelength(dimension)}`, `value ${value} at position ${position}`,
        Array.from({ length: this.length }, (_, each) => this.values[each * this.columns + dimension]), position),
      this.curve(`Similarity of position ${position} to the others`, this.isRotary ? "mean cosine of the angles between them" : "cosine similarity of the two vectors",
        this.similarities(position), position));
  }

  nameOf(dimension) {
    if (!this.isRotary) return `Dimension ${dimension}`;
    return `${dimension % 2 ? "Sine" : "Cosine"} of pair ${Math.floor(dimension / 2)}`;
  }

  wavelength(dimension) {
    const { kind, base } = this.data.positions;
    if (kind === "learned") return "";
    const wavelength = 2 * Math.PI * base ** ((2 * Math.floor(dimension / 2)) / this.columns);
    const shown = wavelength < 100 ? wavelength.toFixed(1) : Math.round(wavelength).toLocaleString("en");
    return `, wavelength ${shown} positions`;
  }

  similarities(position) {
    const row = (place) => this.values.subarray(place * this.columns, (place + 1) * this.columns);
    const dot = (one, other) => one.reduce((sum, each, place) => sum + each * other[place], 0);
    const norm = (one) => Math.sqrt(dot(one, one)) || 1;
    const own = row(position);
    return Array.from({ length: this.length }, (_, place) => dot(own, row(place)) / (norm(own) * norm(row(place))));
  }

  curve(title, about, values, cursor) {
    const room = this.figure.clientWidth;
    const width = within((room - 32) / (room > 720 ? 2 : 1), 260, 540);
    const series = [{ points: [...values].map((value, place) => [place, value]), colour: "accent" }];
    return element("section", {}, element("h3", {}, title), muted(about, "small"),
      lineChart({ series, width, height: 150, label: title, cursor }));
  }

  picture() {
    return this.svg;
  }
}
