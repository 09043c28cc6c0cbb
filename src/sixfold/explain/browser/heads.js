// The head role view: a table of layers and heads for each stack.
import { drawing, element, percent } from "./dom.js";
import { themeColour } from "./colour.js";
import { axis, muted } from "./controls.js";
import { ROLES, STACKS, headName, roleNumber, rolesOf } from "./head_roles.js";
import { label, note, picture } from "./svg.js";

const [CELL_WIDTH, CELL_HEIGHT] = [92, 36]; // in a saved picture
const TEXTS = {
  one: (unit) => `Measured on this ${unit} only, so the roles are rough. Choose a head to see its attention.`,
  many: (units) => `What each head mostly attends to, over ${units}. A head has a ` +
    "role if at least a third of its attention goes there. Choose a head to see its attention.",
};

export class HeadsView {
  constructor({ data, unit, figures }, state) {
    Object.assign(this, { data, state });
    const { num_texts: count, stacks } = data.head_roles;
    const open = (stack, { layer, head }) => this.open(stack, layer, head);
    this.root = element("div", { class: "heads" },
      element("h2", {}, "Head roles"), muted(count === 1 ? TEXTS.one(unit.one) : TEXTS.many(unit.measured(count))),
      legend(data.head_roles),
      element("div", { class: "stacks" }, Object.keys(stacks).map((stack) => this.table(stack))),
      figures(data.head_roles, open));
  }

  update() {}

  open(stack, layer, head) {
    this.state.set({ view: "attention", stack, layer, head, from: -1, to: -1 });
  }

  table(stack) {
    const layers = this.data.head_roles.stacks[stack];
    const rows = layers.flatMap((heads, layer) =>
      [axis(layer + 1), ...heads.map((headRole, head) => this.cell(stack, layer, head, headRole))]);
    const numbers = layers[0].map((_, head) => axis(head + 1));
    return element("section", {}, element("h3", {}, STACKS[stack][1]),
      element("div", { class: "roles", style: { "--columns": numbers.length } }, axis(""), numbers, rows));
  }

  cell(stack, layer, head, headRole) {
    const description = `${STACKS[stack][1]}, ${headName(layer, head)}: ${described(headRole, stack)}`;
    return element("button", {
      type: "button", class: `role ${headRole.role}`, "aria-label": description, title: description,
      onclick: () => this.open(stack, layer, head),
    }, element("span", {}, ROLES[headRole.role][0]), element("span", { class: "number" }, roleNumber(headRole)));
  }

  // The tables as one SVG picture.
  picture() {
    const stacks = Object.keys(this.data.head_roles.stacks);
    const width = 40 + CELL_WIDTH * Math.max(...stacks.map((stack) => this.data.head_roles.stacks[stack][0].length));
    const parts = [];
    let top = 8;
    for (const stack of stacks) {
      parts.push(label(STACKS[stack][1], 4, top + 18, { "font-size": 15, "font-weight": 600 }));
      this.data.head_roles.stacks[stack].forEach((heads, layer) => {
        const y = top + 30 + layer * CELL_HEIGHT;
        parts.push(note(layer + 1, 16, y + 21, { "text-anchor": "middle" }));
        heads.forEach((headRole, head) => parts.push(drawnCell(headRole, 32 + head * CELL_WIDTH, y)));
      });
      top += 52 + this.data.head_roles.stacks[stack].length * CELL_HEIGHT;
    }
    return picture("heads", width, top, {}, parts);
  }
}

function described({ role, weights, max_weight: largest, distance }, stack) {
  const parts = Object.entries(weights).filter(([, weight]) => weight >= 0.005)
    .map(([name, weight]) => `${ROLES[name][0]} ${percent(weight)}`);
  const far = stack === "cross" ? "" : `; distance ${distance.toFixed(1)} tokens`;
  return `${ROLES[role][1]} (${parts.join(", ")}; mean largest weight ${percent(largest)}${far})`;
}

function drawnCell(headRole, x, y) {
  const fill = themeColour(`role-${headRole.role}`);
  return drawing("g", {},
    drawing("rect", { x, y, width: CELL_WIDTH - 4, height: CELL_HEIGHT - 4, rx: 6, fill, "fill-opacity": 0.3 }),
    label(`${ROLES[headRole.role][0]} ${roleNumber(headRole)}`, x + 6, y + 20, { "font-size": 12 }));
}

function legend(headRoles) {
  return element("ul", { class: "legend" }, rolesOf(headRoles).map((role) => {
    const [name, meaning] = ROLES[role];
    return element("li", {}, element("span", { class: `key role ${role}` }), element("b", {}, name), ` ${meaning}`);
  }));
}

// A card with heads to choose from; `value` says what makes one special.
export function headCard(title, text, heads, value, open) {
  const links = heads.map((each) => element("button", { type: "button", onclick: () => open(each) },
    headName(each.layer, each.head), element("span", { class: "soft" }, ` · ${value(each)}`)));
  return element("section", { class: "card" },
    element("h3", {}, title), element("p", {}, text), element("div", { class: "links" }, links));
}
