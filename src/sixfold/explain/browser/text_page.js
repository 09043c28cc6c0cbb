// The explain page of a text that a model continued, or read.
import { AttentionView } from "./attention.js";
import { givenText } from "./given_text.js";
import { strongest } from "./head_roles.js";
import { HeadsView } from "./heads.js";
import { pageData, showPage } from "./page.js";
import { PositionsView } from "./positions.js";
import { strongestHeads } from "./strongest_heads.js";
import { TokensView } from "./tokens.js";

const data = pageData();
const wrote = data.num_given < data.tokens.length;
const tokens = data.tokens.map((token, place) => ({ ...token, isGiven: wrote && place < data.num_given }));
const read = tokens.slice(0, -1); // the last token has not been read

showPage({
  data,
  tokens,
  title: "Explanation of a text",
  header: [givenText(data)],
  views: {
    tokens: ["Tokens", TokensView], attention: ["Attention", AttentionView], heads: ["Heads", HeadsView],
    positions: ["Positions", PositionsView],
  },
  sides: { self: [read, read] },
  start: { stack: "self", ...strongest(data.head_roles.stacks.self, "previous"), choice: wrote ? data.num_given : 1 },
  numTokens: tokens.length,
  unit: { one: "text", several: (count) => `${count} texts`, measured: (count) => `the beginnings of ${count} texts` },
  figures: strongestHeads,
});
