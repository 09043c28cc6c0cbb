// Heads of the encoder that resemble figures 3 to 5 of the paper.
import { element, percent } from "./dom.js";
import { muted } from "./controls.js";
import { ROLES, byWeight } from "./head_roles.js";
import { headCard } from "./heads.js";

const TEXTS = {
  figures: "Figures 3 to 5 of “Attention Is All You Need” show single heads of the encoder. These heads of this " +
    "model come closest to them.",
  distant: "Heads with the longest mean attention distance. In the paper, “making” attends to “more difficult”.",
  sharp: "Heads with sharp attention to tokens other than neighbours, delimiters and the token itself. In the paper, " +
    "“its” attends to “Law”.",
  roles: "Heads with different roles: for each role, the head with the largest weight.",
};

export function paperFigures({ stacks: { encoder } }, open) {
  const { distant, sharp, roles } = figureHeads(encoder);
  const card = (title, text, heads, value) => headCard(title, text, heads, value, (head) => open("encoder", head));
  return [element("h2", {}, "The paper's figures in this model"), muted(TEXTS.figures), element("div", { class: "cards" },
    card("Figure 3: long distance", TEXTS.distant, distant,
      ({ headRole }) => `${headRole.distance.toFixed(1)} tokens on average`),
    card("Figure 4: sharp attention", TEXTS.sharp, sharp,
      ({ headRole }) => `${percent(headRole.max_weight)} on one token`),
    card("Figure 5: different roles", TEXTS.roles, roles,
      ({ headRole, role }) => `${ROLES[role][0]}, ${percent(headRole.weights[role])}`))];
}

// Long distance (3), sharp attention to one word (4), different roles (5).
export function figureHeads(layers, count = 3) {
  const heads = layers.flatMap((row, layer) => row.map((headRole, head) => ({ layer, head, headRole })));
  const best = (value) => [...heads].sort((one, other) => value(other.headRole) - value(one.headRole));
  const elsewhere = ({ weights }) =>
    Math.max(0, 1 - weights.self - weights.previous - weights.next - weights.delimiter);
  return {
    distant: best((headRole) => headRole.distance).slice(0, count),
    sharp: best((headRole) => headRole.max_weight * elsewhere(headRole)).slice(0, count),
    roles: ["previous", "next", "self", "delimiter"].map((role) => ({ ...byWeight(layers, role)[0], role })),
  };
}
