// The heads of a model that continues text with the largest weights on the target of a role.
import { element, percent } from "./dom.js";
import { muted } from "./controls.js";
import { byWeight } from "./head_roles.js";
import { headCard } from "./heads.js";

const CARDS = {
  induction: ["Induction", "An induction head looks for an earlier occurrence of the current token and attends to the " +
    "token after it: the model can go on as the text went on then. Measured on random tokens that are repeated."],
  previous: ["Previous token", "A head that attends to the token before tells each position what precedes it. " +
    "Induction heads in later layers build on that."],
  first: ["First token", "A head's weights sum to 1 even where nothing is worth attending to. They then often rest on " +
    "the first token."],
};
const COUNT = 3;
const LEAST = 1 / 3; // of a role

export function strongestHeads({ stacks: { self: layers } }, open) {
  const roles = Object.keys(CARDS).filter((role) => role in layers[0][0].weights);
  return [element("h2", {}, "Heads that stand out"),
    muted("The heads with the largest weights on three targets, if a third of their attention goes there."),
    element("div", { class: "cards" }, roles.map((role) => {
      const heads = byWeight(layers, role).filter(({ headRole }) => headRole.weights[role] >= LEAST).slice(0, COUNT);
      const [title, text] = CARDS[role];
      return headCard(title, heads.length ? text : `${text} This model has no such head.`, heads,
        ({ headRole }) => percent(headRole.weights[role]), (head) => open("self", head));
    }))];
}
