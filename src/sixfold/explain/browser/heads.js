// What each head tends to do, as tables of layers and heads.
import { drawing, element, percent } from "./dom.js";
import { themeColour } from "./colour.js";
import { axis, soft } from "./controls.js";
import { ROLES, STACKS, figureHeads, headName, roleNumber } from "./head_roles.js";
import { label, note, picture } from "./svg.js";

const [CELL_WIDTH, CELL_HEIGHT] = [92, 36]; // in a saved picture
const TEXTS = {
  one: "Measured on this sentence alone. Choose a head to open it.",
  many: (count) => `Measured over ${count} sentences and their translations: the share of attention that goes to ` +
    "one kind of place, if it is at least a third. Choose a head to open it.",
  figures: "Figures 3 to 5 of “Attention Is All You Need” show single heads of the encoder. These are the likeliest " +
    "places to find the same here.",
  far: "Heads that connect words far from each other. There, “making” finds “more difficult”.",
  pointing: "Heads with sharp attention that goes neither to the neighbours, nor to the token itself, nor to a " +
    "mark. There, “its” finds “Law”.",
  jobs: "Heads that do different things with the same sentence: the best one for each job.",
};

export class HeadsView {
  constructor(data, state) {
    Object.assign(this, { data, state });
    const { num_sentences: count } = data.habits;
    this.root = element("div", { class: "heads" },
      element("h2", {}, "What each head tends to do"), soft(count === 1 ? TEXTS.one : TEXTS.many(count)),
      legend(), element("div", { class: "stacks" }, Object.keys(STACKS).map((stack) => this.table(stack))),
      element("h2", {}, "The paper's figures, in this model"), soft(TEXTS.figures), this.figures());
  }

  update() {}

  open(stack, layer, head) {
    this.state.set({ view: "attention", stack, layer, head, from: -1, to: -1 });
  }

  table(stack) {
    const layers = this.data.habits[stack];
    const rows = layers.flatMap((habits, layer) =>
      [axis(layer + 1), ...habits.map((habit, head) => this.cell(stack, layer, head, habit))]);
    const numbers = layers[0].map((_, head) => axis(head + 1));
    return element("section", {}, element("h3", {}, STACKS[stack][1]),
      element("div", { class: "roles", style: { "--columns": numbers.length } }, axis(""), numbers, rows));
  }

  cell(stack, layer, head, habit) {
    const told = `${STACKS[stack][1]}, ${headName(layer, head)}: ${described(habit, stack)}`;
    return element("button", {
      type: "button", class: `role ${habit.role}`, "aria-label": told, title: told,
      onclick: () => this.open(stack, layer, head),
    }, element("span", {}, ROLES[habit.role][0]), element("span", { class: "number" }, roleNumber(habit)));
  }

  figures() {
    const { far, pointing, jobs } = figureHeads(this.data.habits);
    return element("div", { class: "cards" },
      this.card("Figure 3: far apart", TEXTS.far, far, ({ habit }) => `${habit.reach.toFixed(1)} tokens away`),
      this.card("Figure 4: one word points at another", TEXTS.pointing, pointing,
        ({ habit }) => `${percent(habit.focus)} on one token`),
      this.card("Figure 5: different jobs", TEXTS.jobs, jobs,
        ({ habit, role }) => `${ROLES[role][0]}, ${percent(habit.shares[role])}`));
  }

  card(title, text, heads, value) {
    const links = heads.map((each) => element("button", {
      type: "button", onclick: () => this.open("encoder", each.layer, each.head),
    }, headName(each.layer, each.head), element("span", { class: "soft" }, ` · ${value(each)}`)));
    return element("section", { class: "card" },
      element("h3", {}, title), element("p", {}, text), element("div", { class: "links" }, links));
  }

  // The tables as one drawing.
  picture() {
    const stacks = Object.keys(STACKS);
    const width = 40 + CELL_WIDTH * Math.max(...stacks.map((stack) => this.data.habits[stack][0].length));
    const parts = [];
    let top = 8;
    for (const stack of stacks) {
      parts.push(label(STACKS[stack][1], 4, top + 18, { "font-size": 15, "font-weight": 600 }));
      this.data.habits[stack].forEach((habits, layer) => {
        const y = top + 30 + layer * CELL_HEIGHT;
        parts.push(note(layer + 1, 16, y + 21, { "text-anchor": "middle" }));
        habits.forEach((habit, head) => parts.push(drawnCell(habit, 32 + head * CELL_WIDTH, y)));
      });
      top += 52 + this.data.habits[stack].length * CELL_HEIGHT;
    }
    return picture("heads", width, top, {}, parts);
  }
}

function described({ role, shares, focus, reach }, stack) {
  const parts = Object.entries(shares).filter(([, share]) => share >= 0.005)
    .map(([name, share]) => `${ROLES[name][0]} ${percent(share)}`);
  const far = stack === "cross" ? "" : `; reach ${reach.toFixed(1)} tokens`;
  return `${ROLES[role][1]} (${parts.join(", ")}; largest weight ${percent(focus)}${far})`;
}

function drawnCell(habit, x, y) {
  const fill = themeColour(`role-${habit.role}`);
  return drawing("g", {},
    drawing("rect", { x, y, width: CELL_WIDTH - 4, height: CELL_HEIGHT - 4, rx: 6, fill, "fill-opacity": 0.3 }),
    label(`${ROLES[habit.role][0]} ${roleNumber(habit)}`, x + 6, y + 20, { "font-size": 12 }));
}

function legend() {
  return element("ul", { class: "legend" }, Object.entries(ROLES).map(([role, [name, what]]) =>
    element("li", {}, element("span", { class: `key role ${role}` }), element("b", {}, name), ` ${what}`)));
}
