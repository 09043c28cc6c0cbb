// What heads tend to do, in words.
import { percent } from "./dom.js";

export const ROLES = {
  previous: ["previous", "looks at the token before"],
  next: ["next", "looks at the token after"],
  self: ["itself", "looks at the token itself"],
  mark: ["mark", "looks at begin and end marks and punctuation"],
  aligned: ["aligned", "looks at the word that is being translated"],
  wide: ["wide", "spreads its attention over the whole sentence"],
  other: ["mixed", "does no one thing most of the time"],
};
export const STACKS = {
  encoder: ["Encoder", "Encoder self-attention", "How the source tokens look at each other."],
  decoder: ["Decoder", "Decoder self-attention", "How the tokens written so far look at each other, never ahead."],
  cross: ["Cross", "Cross-attention", "Where in the source the model looks while it writes each token."],
};

export function headName(layer, head) {
  if (layer < 0) return "mean of all layers and heads";
  return head < 0 ? `layer ${layer + 1}, mean of its heads` : `layer ${layer + 1}, head ${head + 1}`;
}

// The number that a role stands on; a mixed head has none.
export function roleNumber({ role, shares, entropy }) {
  if (role === "other") return "";
  return percent(role === "wide" ? entropy : shares[role]);
}

export function habitSentence(habit, count) {
  const over = count === 1 ? "in this sentence" : `over ${count} sentences`;
  const what = ROLES[habit.role][1];
  if (["other", "wide"].includes(habit.role)) return `This head ${what}, measured ${over}.`;
  return `This head mostly ${what}: ${roleNumber(habit)} of its attention ${over}.`;
}

// Heads to open for the paper's figures: far reach (3), one word pointing at another (4), different jobs (5).
export function figureHeads(habits, count = 3) {
  const heads = habits.encoder.flatMap((row, layer) => row.map((habit, head) => ({ layer, head, habit })));
  const best = (value) => [...heads].sort((one, other) => value(other.habit) - value(one.habit));
  const elsewhere = ({ shares }) => Math.max(0, 1 - shares.self - shares.previous - shares.next - shares.mark);
  return {
    far: best((habit) => habit.reach).slice(0, count),
    pointing: best((habit) => habit.focus * elsewhere(habit)).slice(0, count),
    jobs: ["previous", "next", "self", "mark"].map((role) => ({ ...best(({ shares }) => shares[role])[0], role })),
  };
}
