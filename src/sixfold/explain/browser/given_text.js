// The text that the page explains: what was given, and what the model wrote.
import { element } from "./dom.js";
import { visible } from "./token_text.js";

export function givenText({ text, continuation, is_answer: isAnswer }) {
  return element("p", { class: "text", dir: "auto" },
    element("span", { class: continuation ? "soft" : null }, lines(text)), isAnswer ? "\n" : "",
    element("b", {}, lines(continuation)));
}

function lines(text) {
  return text.split("\n").map(visible).join("\n");
}
