// The attention view: the thumbnails of a stack, one attention map, and the largest weights of a token.
import { element, percent } from "./dom.js";
import { arcsPicture } from "./arcs.js";
import { colourScale, mapPicture } from "./heatmap.js";
import { AttentionMatrices, columnOf, groupsOf, largest, merged, rowOf } from "./attention_matrix.js";
import { bars, choices, muted } from "./controls.js";
import { isSpecial, tokenLabel, textOf } from "./token_text.js";
import { STACKS, roleSentence, headName } from "./head_roles.js";
import { Thumbnails } from "./thumbnails.js";

const MOST_ARCS = 40; // tokens on a side
const WIDEST_ARCS = 760;
const LISTED = 6;
const SIDES = {
  encoder: ["token", "attends to"],
  decoder: ["input token", "attends to"],
  cross: ["target token", "attends to"],
  self: ["token", "attends to"],
};
const HINT = "Point at a token, or tap it, to see what it attends to and which tokens attend to it.";
const PROMPT = " The prompt is in italics.";
const MATRIX_CHANGES = ["view", "theme", "stack", "layer", "head", "words", "picture"];

export class AttentionView {
  constructor({ data, sides, unit }, state) {
    Object.assign(this, { data, sides, unit, state });
    this.weights = new AttentionMatrices(data.attention);
    this.hovered = null; // what the pointer is on, as [query, key]
    this.thumbnails = new Thumbnails(
      (layer, head) => state.set({ layer, head }), (layer, head) => this.nameOf(layer, head));
    this.stacks = choices("Attention", Object.keys(sides).map((stack) => [stack, STACKS[stack][0], STACKS[stack][2]]),
      (value) => value === state.values.stack, (stack) => state.set({ stack, from: -1, to: -1 }));
    this.pictures = choices("Picture", [["arcs", "Arcs"], ["map", "Heat map"]],
      (value) => value === this.pictureKind(), (picture) => state.set({ picture }));
    this.merging = element("input", { type: "checkbox", id: "words", onchange: () => this.merge() });
    this.scale = element("span", { class: "scale-place" });
    this.heading = element("h2");
    this.about = muted("");
    this.figure = element("div", { class: "figure" });
    this.lists = element("div", { class: "lists", "aria-live": "polite" });
    this.root = element("div", { class: "attention" },
      element("div", { class: "side" }, Object.keys(sides).length > 1 ? this.stacks.group : null, this.thumbnails.root,
        muted("Rows are layers, columns are heads. The arrow keys move the selection.", "small")),
      element("div", { class: "main" }, this.heading, this.about,
        element("div", { class: "controls" }, this.pictures.group,
          element("label", { class: "switch", for: "words" }, this.merging, "Whole words"), this.scale),
        this.figure, this.lists));
    new ResizeObserver(() => this.resized()).observe(this.figure);
  }

  headRole(layer, head) {
    return layer >= 0 && head >= 0 ? this.data.head_roles.stacks[this.state.values.stack][layer][head] : null;
  }

  nameOf(layer, head) {
    const headRole = this.headRole(layer, head);
    return `${STACKS[this.state.values.stack][1]}, ${headName(layer, head)}${headRole ? `: ${headRole.role}` : ""}`;
  }

  merge() {
    this.state.set({ words: this.merging.checked ? 1 : 0, from: -1, to: -1 });
  }

  isLong() {
    return this.scene && Math.max(this.scene.matrix.rows, this.scene.matrix.columns) > MOST_ARCS;
  }

  pictureKind() {
    return this.isLong() ? "map" : this.state.values.picture;
  }

  async update(changed) {
    const { stack, layer, head, words } = this.state.values;
    this.merging.checked = words === 1;
    this.stacks.update();
    if (["stack", "view", "theme"].some((name) => changed.has(name))) this.rebuildThumbnails(stack);
    this.thumbnails.mark(layer, head);
    if (MATRIX_CHANGES.some((name) => changed.has(name))) {
      const ticket = (this.ticket = {});
      const matrix = await this.weights.matrix(stack, layer, head);
      if (ticket !== this.ticket) return; // the selection has changed meanwhile
      this.scene = this.sceneOf(matrix);
      this.show();
    }
    this.highlight();
  }

  rebuildThumbnails(stack) {
    const layers = this.data.attention.stacks[stack];
    this.thumbnails.build(layers.length, layers[0].heads);
    const ticket = (this.drawing = {});
    this.thumbnails.draw(this.weights, stack, () => this.drawing === ticket);
  }

  sceneOf(matrix) {
    const { stack, layer, head, words } = this.state.values;
    const isMerged = words === 1;
    const sides = this.sides[stack].map((tokens) => {
      const groups = groupsOf(tokens, isMerged);
      const areGiven = groups.map(([place]) => Boolean(tokens[place].isGiven));
      return { groups, areGiven, labels: groups.map((group) => labelOf(tokens, group, isMerged)) };
    });
    return {
      matrix: isMerged ? merged(matrix, sides[0].groups, sides[1].groups) : matrix,
      rowLabels: sides[0].labels, columnLabels: sides[1].labels, areGiven: sides.map((side) => side.areGiven),
      title: `${STACKS[stack][1]}, ${headName(layer, head)}`, titles: SIDES[stack], isSelf: stack !== "cross",
    };
  }

  show() {
    const { stack, layer, head } = this.state.values;
    const headRole = this.headRole(layer, head);
    const about = headRole ? roleSentence(headRole, this.data.head_roles.num_texts, this.unit) : STACKS[stack][2];
    this.heading.textContent = this.scene.title;
    this.about.textContent = `${about}${this.truncationSentence(stack)}`;
    const [arcs] = this.pictures.buttons;
    arcs.disabled = this.isLong();
    arcs.title = arcs.disabled ? `For at most ${MOST_ARCS} tokens` : "";
    this.pictures.update();
    this.scale.replaceChildren(...(this.pictureKind() === "map" ? [colourScale()] : []));
    this.hovered = null;
    this.drawnWidth = this.width();
    this.shown = this.drawnAt(this.drawnWidth);
    this.figure.replaceChildren(this.shown.svg);
  }

  truncationSentence(stack) {
    const { largest: count, stacks: { [stack]: layers } } = this.data.attention;
    if (count >= layers[0].keys) return "";
    const kept = layers.reduce((sum, layer) => sum + layer.kept, 0) / layers.length;
    return ` The ${this.unit.one} is long: only the ${count} largest weights of each row are stored, ` +
      `${percent(kept)} of the attention.`;
  }

  drawnAt(width) {
    if (this.pictureKind() === "map") {
      return mapPicture(this.scene, width, (from, to, isChosen) =>
        (isChosen ? this.pin(from, to) : this.hover(from < 0 ? null : [from, to])));
    }
    return arcsPicture(this.scene, Math.min(width, WIDEST_ARCS), {
      hover: (side, place) => this.hover(place < 0 ? null : this.pair(side, place)),
      pin: (side, place) => this.toggle(...this.pair(side, place)),
    });
  }

  // In self-attention a token is both a query and a key.
  pair(side, place) {
    if (this.scene.isSelf) return [place, place];
    return side === "from" ? [place, -1] : [-1, place];
  }

  toggle(from, to) {
    const isPinned = this.state.values.from === from && this.state.values.to === to;
    this.pin(...(isPinned ? [-1, -1] : [from, to]));
  }

  pin(from, to) {
    this.hovered = null;
    this.state.set({ from, to });
    this.highlight();
  }

  hover(pair) {
    this.hovered = pair;
    this.highlight();
  }

  highlight() {
    if (!this.shown) return;
    const [from, to] = this.hovered ?? [this.state.values.from, this.state.values.to];
    const { rows, columns } = this.scene.matrix;
    const [row, column] = [from < rows ? from : -1, to < columns ? to : -1];
    this.shown.highlight(row, column);
    this.lists.replaceChildren(...this.listsOf(row, column));
  }

  listsOf(from, to) {
    const { matrix, rowLabels, columnLabels, areGiven, isSelf } = this.scene;
    const found = [];
    if (from >= 0) {
      const verb = isSelf ? "attends to" : "attended to";
      found.push(list(rowLabels[from], verb, columnLabels, rowOf(matrix, from), "accent"));
    }
    if (to >= 0) found.push(list(columnLabels[to], "is attended to by", rowLabels, columnOf(matrix, to), "other"));
    return found.length ? found : [muted(areGiven.flat().includes(true) ? HINT + PROMPT : HINT)];
  }

  width() {
    return Math.max(280, Math.floor(this.figure.clientWidth));
  }

  resized() {
    if (!this.scene || !this.figure.clientWidth || this.width() === this.drawnWidth) return;
    this.show();
    this.highlight();
  }

  picture() {
    return this.shown?.svg;
  }
}

function labelOf(tokens, group, isMerged) {
  const pieces = group.map((place) => tokens[place].piece);
  if (!isMerged || isSpecial(pieces[0])) return tokenLabel(pieces[0]);
  return textOf(pieces) || tokenLabel(pieces[0]);
}

function list(name, verb, names, values, colour) {
  const rows = largest(values, LISTED).map((place) => [names[place], values[place], colour]);
  return element("section", {}, element("h3", {}, element("bdi", {}, name), ` ${verb}`), bars(rows));
}
