// Tokens with their probabilities, and the alternatives to the chosen one.
import { bar, bars } from "./controls.js";
import { element, percent, rove, within } from "./dom.js";
import { tokenLabel } from "./token_text.js";

export class TokenChips {
  // A token that nothing stands before has null among the `choices`.
  constructor(tokens, choices, state) {
    Object.assign(this, { tokens, choices, state });
    this.chips = tokens.map((token, place) => this.chip(token, place));
    this.alternatives = element("div", { "aria-live": "polite" });
  }

  // A group of some of the chips.
  group(label, begin = 0, end = this.chips.length) {
    return element("div", { class: "chips", role: "group", "aria-label": label }, this.chips.slice(begin, end));
  }

  chip(token, place) {
    const name = tokenLabel(token.piece);
    const choice = this.choices[place];
    const probability = choice ? Math.exp(choice.log_probability) : 0;
    const number = choice ? percent(probability) : "–";
    return element("button", {
      type: "button", class: token.isGiven ? "chip given" : "chip", "aria-label": `${name}: ${number}`,
      onclick: () => this.state.set({ choice: place }), onkeydown: (event) => this.move(event, place),
    }, element("bdi", {}, name), element("span", { class: "number" }, number), bar(probability, "accent"));
  }

  move(event, place) {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const next = within(place + by, 0, this.chips.length - 1);
    this.state.set({ choice: next });
    this.chips[next].focus();
  }

  update() {
    const { choice } = this.state.values;
    this.chips.forEach((chip, place) => chip.setAttribute("aria-pressed", place === choice));
    rove(this.chips, choice);
    this.alternatives.replaceChildren(this.alternativesTo(choice));
  }

  // The chosen token is always listed, however improbable it is.
  alternativesTo(place) {
    const title = element("h3", {}, `Most probable at position ${place + 1}`);
    if (!this.choices[place]) {
      return element("section", { class: "alternatives" }, title, element("p", { class: "soft" }, "Nothing stands before it."));
    }
    const { log_probability: own, alternatives } = this.choices[place];
    const { piece } = this.tokens[place];
    const all = alternatives.some(([other]) => other === piece) ? alternatives : [...alternatives, [piece, own]];
    const current = all.findIndex(([other]) => other === piece);
    const rows = all.map(([other, number], each) =>
      [tokenLabel(other), Math.exp(number), each === current ? "accent" : ""]);
    return element("section", { class: "alternatives" }, title, bars(rows, current));
  }
}
