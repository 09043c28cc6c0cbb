// The source and its translation; hovering over a word highlights the words that are aligned to it.
import { element } from "./dom.js";
import { groupsOf } from "./attention_matrix.js";
import { textOf } from "./token_text.js";

export function sentencePair(data) {
  const words = [new Map(), new Map()]; // the elements of each side, by word index
  const highlight = (side, number, isOn) => {
    const links = data.links.filter((link) => link[side] === number);
    const others = links.map((link) => words[1 - side].get(link[1 - side]));
    [words[side].get(number), ...others].forEach((node) => node?.classList.toggle("lit", isOn));
  };
  const wordElement = (side, number, text) => {
    const node = element("span", {
      class: "word", onpointerenter: () => highlight(side, number, true),
      onpointerleave: () => highlight(side, number, false),
    }, text);
    words[side].set(number, node);
    return node;
  };
  return element("div", { class: "pair" },
    line("source", data.model.source_language, wordsOf(data.source_tokens, (...word) => wordElement(0, ...word))),
    line("target", data.model.target_language, wordsOf(data.target_tokens, (...word) => wordElement(1, ...word))));
}

function line(side, language, words) {
  return element("p", { class: side, dir: "auto", lang: language || null },
    element("span", { class: "language" }, language || side), element("span", { class: "words" }, words));
}

// The words of a text as elements; spaces stay between them.
function wordsOf(tokens, made) {
  return groupsOf(tokens.filter((token) => token.word >= 0), true).flatMap((group) => {
    const first = tokens[group[0]];
    const node = made(first.word, textOf(group.map((place) => tokens[place].piece)));
    return [first.piece.startsWith("\u2581") && group[0] ? " " : "", node];
  });
}
