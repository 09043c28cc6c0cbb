// The roles of heads, in words.
import { percent } from "./dom.js";

export const ROLES = {
  previous: ["previous", "attends to the previous token"],
  next: ["next", "attends to the next token"],
  self: ["self", "attends to the token itself"],
  first: ["first", "rests on the first token"],
  delimiter: ["delimiter", "attends to special tokens and punctuation"],
  aligned: ["aligned", "attends to the source word being translated"],
  induction: ["induction", "attends to the token after an earlier occurrence of the current one"],
  broad: ["broad", "spreads its attention over the whole text"],
  mixed: ["mixed", "has no dominant target"],
};
export const STACKS = {
  encoder: ["Encoder", "Encoder self-attention", "How source tokens attend to each other."],
  decoder: ["Decoder", "Decoder self-attention", "How each target token attends to itself and the tokens before it."],
  cross: ["Cross", "Cross-attention", "Which source tokens the model attends to for each target token."],
  self: ["Self", "Self-attention", "How each token attends to itself and the tokens before it."],
};

export function headName(layer, head) {
  if (layer < 0) return "mean of all layers and heads";
  return head < 0 ? `layer ${layer + 1}, mean of all heads` : `layer ${layer + 1}, head ${head + 1}`;
}

// The weight, or the entropy, that the role is based on; a mixed head has none.
export function roleNumber({ role, weights, entropy }) {
  if (role === "mixed") return "";
  return percent(role === "broad" ? entropy : weights[role]);
}

// `unit` names what heads were measured on: `count` of them.
export function roleSentence(headRole, count, unit) {
  const over = count === 1 ? `in this ${unit.one}` : `on average over ${unit.several(count)}`;
  const [, what] = ROLES[headRole.role];
  if (["mixed", "broad"].includes(headRole.role)) return `This head ${what}, ${over}.`;
  if (headRole.role === "induction") {
    return `On random tokens that are repeated, this head ${what}, with ${roleNumber(headRole)} of its attention. ` +
      `Of its attention ${over}, ${percent(headRole.weights.first)} rests on the first token.`;
  }
  return `This head mostly ${what}: ${roleNumber(headRole)} of its attention, ${over}.`;
}

// All heads, those first that attend most to the target of a role.
export function byWeight(layers, role) {
  const heads = layers.flatMap((row, layer) => row.map((headRole, head) => ({ layer, head, headRole })));
  const weight = ({ headRole }) => headRole.weights[role] ?? 0;
  return heads.sort((one, other) => weight(other) - weight(one));
}

export function strongest(layers, role) {
  const [{ layer, head }] = byWeight(layers, role);
  return { layer, head };
}

// The roles that the heads of a page can have.
export function rolesOf({ stacks }) {
  const measured = Object.values(stacks).flatMap(([[{ weights }]]) => Object.keys(weights));
  return Object.keys(ROLES).filter((role) => [...measured, "broad", "mixed"].includes(role));
}
