// The explain page of one translation.
import { AttentionView } from "./attention.js";
import { DecodingView } from "./decoding.js";
import { strongest } from "./head_roles.js";
import { HeadsView } from "./heads.js";
import { pageData, showPage } from "./page.js";
import { paperFigures } from "./paper_figures.js";
import { PositionsView } from "./positions.js";
import { sentencePair } from "./sentence_pair.js";

const data = pageData();
const { source_tokens: source, target_tokens: target } = data;
const inputs = [{ piece: "<s>", word: -1 }, ...target.slice(0, -1)];

showPage({
  data,
  title: "Explanation of a translation",
  header: [sentencePair(data)],
  views: {
    attention: ["Attention", AttentionView], decoding: ["Decoding", DecodingView], heads: ["Heads", HeadsView],
    positions: ["Positions", PositionsView],
  },
  sides: { encoder: [source, source], decoder: [inputs, inputs], cross: [target, source] },
  // The head that follows the word alignment most closely is the easiest to read.
  start: { stack: "cross", ...strongest(data.head_roles.stacks.cross, "aligned"), step: 0, node: -1 },
  tidy: ({ step, node }) => ({ step: Math.max(0, step), node: Math.max(-1, node) }),
  numTokens: target.length,
  unit: {
    one: "sentence", several: (count) => `${count} sentences`,
    measured: (count) => `${count} sentences and their translations`,
  },
  figures: paperFigures,
});
