// The translation as it was decoded: each token's probability, what else was probable, and the beam tree.
import { element, percent, rove, within } from "./dom.js";
import { BeamTree, COLUMN, beamPicture } from "./beam.js";
import { bar, bars, button, soft } from "./controls.js";
import { shownPiece } from "./token_text.js";

const STATES = { ended: "finished", kept: "open", left: "open", pruned: "pruned" };

export class DecodingView {
  constructor(data, state) {
    Object.assign(this, { data, state });
    this.tree = new BeamTree(data.tree);
    this.last = this.tree.steps.length;
    this.chips = data.target_tokens.map((token, place) => this.chip(token, place));
    this.alternatives = element("div", { "aria-live": "polite" });
    this.slider = element("input", {
      type: "range", min: 1, max: this.last, "aria-label": "Step of the search",
      oninput: () => this.go(Number(this.slider.value)),
    });
    this.status = element("p", { class: "status", "aria-live": "polite" });
    this.scroller = element("div", { class: "figure scroller" });
    this.hypotheses = element("div");
    this.root = element("div", { class: "decoding" }, this.tokensPart(), this.searchPart());
  }

  tokensPart() {
    return element("section", {}, element("h2", {}, "Token by token"),
      soft("How probable the model found each token it wrote. Choose one to see what else it considered there."),
      element("div", { class: "chips", role: "group", "aria-label": "Tokens of the translation" }, this.chips),
      this.alternatives);
  }

  searchPart() {
    const { beam } = this.data.tree;
    const kept = beam === 1 ? "best hypothesis is" : `${beam} best hypotheses are`;
    return element("section", {}, element("h2", {}, "The search"),
      soft(`At every step the ${kept} kept and the others pruned. ` +
        "The numbers are the probability of each token in percent."),
      element("div", { class: "stepper" },
        button("«", "First step", () => this.go(1)), button("‹", "Step back", () => this.go(this.step() - 1)),
        this.slider,
        button("›", "Step on", () => this.go(this.step() + 1)), button("»", "Last step", () => this.go(this.last))),
      this.status, this.scroller, legend(), this.hypotheses);
  }

  // Counted from 1; 0 is the whole search.
  step() {
    return Math.min(this.state.values.step || this.last, this.last);
  }

  go(step) {
    this.state.set({ step: within(step, 1, this.last), node: -1 });
  }

  chip(token, place) {
    const probability = Math.exp(this.data.choices[place].log_probability);
    const name = shownPiece(token.piece);
    return element("button", {
      type: "button", class: "chip", "aria-label": `${name}: ${percent(probability)}`,
      onclick: () => this.state.set({ choice: place }), onkeydown: (event) => this.move(event, place),
    }, element("bdi", {}, name), element("span", { class: "number" }, percent(probability)),
    bar(probability, "accent"));
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
    this.alternatives.replaceChildren(this.alternativesOf(choice));
    this.slider.value = this.step();
    this.showTree(this.step() - 1);
  }

  // The token that was written is listed even if a rule made the search choose an improbable one.
  alternativesOf(place) {
    const { log_probability: own, alternatives } = this.data.choices[place];
    const { piece } = this.data.target_tokens[place];
    const all = alternatives.some(([other]) => other === piece) ? alternatives : [...alternatives, [piece, own]];
    const current = all.findIndex(([other]) => other === piece);
    const rows = all.map(([other, number], each) =>
      [shownPiece(other), Math.exp(number), each === current ? "accent" : ""]);
    return element("section", { class: "alternatives" },
      element("h3", {}, `Considered at token ${place + 1}`), bars(rows, current));
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
      ? this.table("The chosen hypothesis", [this.tree.nodes[chosen]])
      : this.table(`In the beam after step ${step + 1}`, this.inBeam(step)));
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
        element("td", {}, element("bdi", {}, this.tree.text(node.place) || "(nothing)")),
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
