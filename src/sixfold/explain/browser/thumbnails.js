// Thumbnails of every attention map: rows are layers, columns are heads and their mean.
import { ARROWS, element, rove, within } from "./dom.js";
import { weightColours, weightRaster } from "./colour.js";
import { axis, button } from "./controls.js";

const PIXELS = 56; // larger matrices are max-pooled
const MANY_WEIGHTS = 10000; // after a matrix of this size, the browser may handle events

export class Thumbnails {
  // `choose` gets a layer and a head (-1: the mean); `named` returns their label.
  constructor(choose, named) {
    Object.assign(this, { choose, named });
    this.root = element("div", { class: "thumbnails", role: "group", "aria-label": "Layers and heads" });
  }

  build(layers, heads) {
    this.columns = heads + 1;
    const numbers = [...Array(heads).keys(), -1];
    const rows = [...Array(layers).keys()].map((layer) => numbers.map((head) => this.thumbnail(layer, head)));
    const all = this.thumbnail(-1, -1);
    this.buttons = [...rows.flat(), all];
    this.root.style.setProperty("--columns", this.columns);
    this.root.replaceChildren(
      axis(""), ...numbers.map((head) => axis(head < 0 ? "mean" : head + 1)),
      ...rows.flatMap((row, layer) => [axis(layer + 1), ...row]),
      element("span", { class: "axis all", "aria-hidden": "true" }, "mean of all"), all);
  }

  thumbnail(layer, head) {
    return button(element("canvas", { width: 1, height: 1 }), this.named(layer, head), () => this.choose(layer, head),
      { "data-layer": layer, "data-head": head, onkeydown: (event) => this.move(event) });
  }

  move(event) {
    if (!(event.key in ARROWS)) return;
    event.preventDefault();
    const [down, across] = ARROWS[event.key];
    const place = this.buttons.indexOf(event.currentTarget) + down * this.columns + across;
    const next = this.buttons[within(place, 0, this.buttons.length - 1)];
    next.focus();
    next.click();
  }

  mark(layer, head) {
    const isIt = ({ dataset }) => Number(dataset.layer) === layer && Number(dataset.head) === head;
    const chosen = this.buttons.findIndex(isIt);
    this.buttons.forEach((each, place) => each.setAttribute("aria-pressed", place === chosen));
    rove(this.buttons, Math.max(0, chosen));
    this.reveal(this.buttons[chosen]);
  }

  // Scrolls a thumbnail into sight where there are more than fit.
  reveal(button) {
    const top = button ? button.offsetTop - this.root.offsetTop : 0;
    const isInSight = top >= this.root.scrollTop && top + button?.offsetHeight <= this.root.scrollTop + this.root.clientHeight;
    if (button && !isInSight) this.root.scrollTop = top - this.root.clientHeight / 2;
  }

  // Draws all thumbnails, and stops as soon as `isCurrent` returns false.
  async draw(weights, stack, isCurrent) {
    const colours = weightColours();
    for (const each of this.buttons) {
      const matrix = await weights.matrix(stack, Number(each.dataset.layer), Number(each.dataset.head));
      if (!isCurrent()) return;
      each.replaceChildren(weightRaster(matrix, colours, PIXELS));
      if (matrix.values.length > MANY_WEIGHTS) await new Promise((resolve) => setTimeout(resolve));
    }
    this.root.dataset.isDrawn = "true";
  }
}
