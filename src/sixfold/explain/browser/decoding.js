// The decoding view: the probability of each token, its alternatives, and the beam search step by step.
import { element, within } from "./dom.js";
import { BeamTree, COLUMN, beamPicture } from "./beam.js";
import { button, muted } from "./controls.js";
import { TokenChips } from "./token_chips.js";

const STATES = { ended: "finished", kept: "unfinished", left: "unfinished", pruned: "pruned" };

export class DecodingView {
  constructor({ data }, state) {
    Object.assign(this, { data, state });
    this.tree = new BeamTree(data.tree);
    this.last = this.tree.steps.length;
    this.tokens = new TokenChips(data.target_tokens, data.choices, state);
    this.slider = element("input", {
      type: "range", min: 1, max: this.last, "aria-label": "Search step",
      oninput: () => this.go(Number(this.slider.value)),
    });
    this.status = element("p", { class: "status", "aria-live": "polite" });
    this.scroller = element("div", { class: "figure scroller" });
    this.hypotheses = element("div");
    this.root = element("div", { class: "decoding" }, this.tokensPart(), this.searchPart());
  }

  tokensPart() {
    return element("section", {}, element("h2", {}, "Token probabilities"),
      muted("The probability of each token of the translation, given the tokens before it. " +
        "Choose a token to see the alternatives."),
      this.tokens.group("Tokens of the translation"), this.tokens.alternatives);
  }

  searchPart() {
    const { beam } = this.data.tree;
    const kept = beam === 1 ? "the best hypothesis is" : `the ${beam} best hypotheses are`;
    return element("section", {}, element("h2", {}, "Beam search"),
      muted(`At each step, ${kept} kept and the others pruned. ` +
        "The number in a node is the probability of its token, in percent."),
      element("div", { class: "stepper" },
        button("«", "First step", () => this.go(1)), button("‹", "Previous step", () => this.go(this.step() - 1)),
        this.slider,
        button("›", "Next step", () => this.go(this.step() + 1)), button("»", "Last step", () => this.go(this.last))),
      this.status, this.scroller, legend(), this.hypotheses);
  }

  // The current step, from 1; 0 in the address means the last one.
  step() {
    return Math.min(this.state.values.step || this.last, this.last);
  }

  go(step) {
    this.state.set({ step: within(step, 1, this.last), node: -1 });
  }

  update() {
    this.tokens.update();
    this.slider.value = this.step();
    this.showTree(this.step() - 1);
  }

  showTree(step) {
    const { node } = this.state.values;
    const chosen = node < this.tree.nodes.length ? node : -1;
    const focused = document.activeElement?.dataset.node;
    this.svg = beamPicture(this.tree, step, chosen, (place) =>
      this.state.set({ node: place === chosen ? -1 : place }));
    this.scroller.replaceChildren(this.svg);
    if (focused) this.svg.querySelector(`[data-node="${Number(focused)}"]`)?.focus();
    else this.scroller.scrollLeft = (step + 1 - this.tree.columns(step)[0]) * COLUMN + 16 - this.scroller.clientWidth;
    this.status.textContent = this.statusOf(step);
    this.hypotheses.replaceChildren(chosen >= 0
      ? this.table("Selected hypothesis", [this.tree.nodes[chosen]])
      : this.table(`Beam after step ${step + 1}`, this.inBeam(step)));
  }

  statusOf(step) {
    const count = (...fates) => this.tree.steps[step].filter((node) => fates.includes(node.fate)).length;
    return `Step ${step + 1} of ${this.last}: ${count("kept", "left")} kept, ${count("pruned")} pruned, ` +
      `${count("ended")} finished`;
  }

  inBeam(step) {
    const finished = this.tree.nodes.filter((node) => node.fate === "ended" && node.step <= step);
    const open = this.tree.steps[step].filter((node) => ["kept", "left"].includes(node.fate));
    return [...finished.sort((one, other) => other.score - one.score), ...open];
  }

  table(title, nodes) {
    const head = ["Hypothesis", "", "Log-probability", "Score"].map((name) => element("th", { scope: "col" }, name));
    const number = (value) => element("td", { class: "number" }, value.toFixed(2));
    const rows = nodes.map((node) =>
      element("tr", { class: node.place === this.data.tree.winner ? "winner" : null },
        element("td", {}, element("bdi", {}, this.tree.text(node.place) || "(empty)")),
        element("td", { class: "soft" }, STATES[node.fate]), number(node.total), number(node.score)));
    return element("section", {}, element("h3", {}, title), element("div", { class: "wide" },
      element("table", {}, element("thead", {}, element("tr", {}, head)), element("tbody", {}, rows))));
  }

  picture() {
    return this.svg;
  }
}

function legend() {
  const kinds = { winner: "the translation", kept: "kept", ended: "finished", pruned: "pruned" };
  return element("ul", { class: "legend" }, Object.entries(kinds).map(([kind, text]) =>
    element("li", {}, element("span", { class: `key ${kind}` }), text)));
}
