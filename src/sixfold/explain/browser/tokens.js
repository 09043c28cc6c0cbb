// The tokens of a text with their probabilities, and how surprising each one is along the text.
import { lineChart } from "./chart.js";
import { muted } from "./controls.js";
import { element, within } from "./dom.js";
import { TokenChips } from "./token_chips.js";

const HINT = "The probability of each token, given the tokens before it. Choose a token to see the alternatives.";
const CHART_HEIGHT = 200;

export class TokensView {
  constructor({ data, tokens }, state) {
    Object.assign(this, { data, state, hasWritten: data.num_given < data.tokens.length });
    this.chips = new TokenChips(tokens, [null, ...data.choices], state);
    this.figure = element("div", { class: "figure" });
    this.root = element("div", { class: "decoding" },
      element("section", {}, element("h2", {}, "Token probabilities"), muted(data.how), muted(HINT), this.groups(),
        this.chips.alternatives),
      element("section", {}, element("h2", {}, "Surprise along the text"),
        muted("Bits that each token costs: 1 bit where its probability is a half, 10 bits where it is a thousandth."),
        this.figure));
    new ResizeObserver(() => this.draw()).observe(this.figure);
  }

  groups() {
    const { num_given: given } = this.data;
    if (!this.hasWritten) return this.chips.group("Tokens of the text");
    return [element("h3", {}, "Prompt"), this.chips.group("Tokens of the prompt", 0, given),
      element("h3", {}, "Written by the model"), this.chips.group("Tokens that the model wrote", given)];
  }

  update() {
    this.chips.update();
    this.draw();
  }

  draw() {
    const { choices, num_given: given } = this.data;
    const points = choices.map(({ log_probability: number }, place) => [place + 2, -number / Math.LN2]);
    const parts = [[points.slice(0, given - 1), this.hasWritten ? "soft" : "accent"], [points.slice(given - 1), "accent"]];
    this.svg = lineChart({
      series: parts.filter(([some]) => some.length).map(([some, colour]) => ({ points: some, colour, dots: true })),
      width: within(this.figure.clientWidth, 280, 1100), height: CHART_HEIGHT, label: "Bits of each token", floor: 0,
      cursor: this.state.values.choice + 1,
    });
    this.figure.replaceChildren(this.svg);
  }

  picture() {
    return this.svg;
  }
}
