// The roles of heads, in words.
import { percent } from "./dom.js";

export const ROLES = {
  previous: ["previous", "attends to the previous token"],
  next: ["next", "attends to the next token"],
  self: ["self", "attends to the token itself"],
  delimiter: ["delimiter", "attends to BOS, EOS and punctuation"],
  aligned: ["aligned", "attends to the source word being translated"],
  broad: ["broad", "spreads its attention over the whole sentence"],
  mixed: ["mixed", "has no dominant target"],
};
export const STACKS = {
  encoder: ["Encoder", "Encoder self-attention", "How source tokens attend to each other."],
  decoder: ["Decoder", "Decoder self-attention", "How each target token attends to itself and the tokens before it."],
  cross: ["Cross", "Cross-attention", "Which source tokens the model attends to for each target token."],
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

export function roleSentence(headRole, count) {
  const over = count === 1 ? "in this sentence" : `on average over ${count} sentences`;
  const what = ROLES[headRole.role][1];
  if (["mixed", "broad"].includes(headRole.role)) return `This head ${what}, ${over}.`;
  return `This head mostly ${what}: ${roleNumber(headRole)} of its attention, ${over}.`;
}

// Heads that resemble the paper's figures: long distance (3), sharp attention to one word (4), different roles (5).
export function figureHeads(headRoles, count = 3) {
  const heads = headRoles.encoder.flatMap((row, layer) => row.map((headRole, head) => ({ layer, head, headRole })));
  const best = (value) => [...heads].sort((one, other) => value(other.headRole) - value(one.headRole));
  const elsewhere = ({ weights }) =>
    Math.max(0, 1 - weights.self - weights.previous - weights.next - weights.delimiter);
  return {
    distant: best((headRole) => headRole.distance).slice(0, count),
    sharp: best((headRole) => headRole.max_weight * elsewhere(headRole)).slice(0, count),
    roles: ["previous", "next", "self", "delimiter"]
      .map((role) => ({ ...best(({ weights }) => weights[role])[0], role })),
  };
}
