// A text that a model writes, as one element for each token. Text enters the page as text nodes, never as markup.

// What is written after one prompt: its tokens can be cut and continued exactly as long as nobody edits the text.
export class Passage {
  constructor(parent, promptText) {
    Object.assign(this, { parent, promptText, promptIds: null, isExact: true, spans: [], pending: [] });
  }

  get ids() {
    return this.spans.flatMap((span) => span.tokens.map((token) => token.token_id));
  }

  // The prompt for what follows: token ids, or text where ids are not known or no longer those of the text.
  get prompt() {
    return this.isExact && this.promptIds ? [...this.promptIds, ...this.ids] : this.promptText + this.text;
  }

  get text() {
    return this.spans.map((span) => span.textContent).join("");
  }

  // Tokens that do not complete a character wait for those that do.
  add(text, tokens) {
    this.pending.push(...tokens);
    if (!text || !this.pending.length) return;
    const span = document.createElement("span");
    span.className = "token";
    span.textContent = text;
    Object.assign(span, { passage: this, tokens: this.pending });
    const probability = Math.exp(this.pending.reduce((sum, token) => sum + token.logprob, 0));
    span.style.setProperty("--surprise", surprise(probability).toFixed(3));
    this.pending = [];
    this.spans.push(span);
    this.parent.append(span);
  }

  // Removes a token and all that follows it.
  cutAt(span) {
    const place = this.spans.indexOf(span);
    for (let node = span; node;) {
      const next = node.nextSibling;
      node.remove();
      node = next;
    }
    this.spans.length = place;
    this.pending = [];
  }
}

// From 0 for a certain token to 1 for one of a probability of 1 in 1,000 or less.
function surprise(probability) {
  return Math.min(1, -Math.log10(Math.max(probability, 1e-3)) / 3);
}

// The list of the tokens that could have stood in a place.
export class Alternatives {
  constructor(element, choose) {
    Object.assign(this, { element, choose, span: null });
  }

  open(span) {
    this.close();
    this.span = span;
    span.classList.add("open");
    const [token] = span.tokens;
    const others = token.top_logprobs.filter((each) => each.token_id !== token.token_id);
    const all = [token, ...others].sort((one, other) => other.logprob - one.logprob);
    const list = document.createElement("ul");
    list.append(...all.map((each) => this.item(each, token, all)));
    this.element.replaceChildren(list);
    this.element.hidden = false;
    this.place(span);
    (this.element.querySelector("button:not(:disabled)") ?? span).focus();
  }

  item(token, chosen, all) {
    const item = document.createElement("li");
    const button = Object.assign(document.createElement("button"), { type: "button" });
    const percent = Object.assign(document.createElement("span"), {
      className: "percent number", textContent: shownProbability(Math.exp(token.logprob)),
    });
    button.append(shownToken(token), percent);
    button.style.setProperty("--probability", Math.exp(token.logprob).toFixed(4));
    button.disabled = isPartOfCharacter(token);
    if (button.disabled) button.title = "A part of a character, which the page cannot show alone";
    button.classList.toggle("chosen", token === chosen);
    button.addEventListener("click", () => {
      const { span } = this;
      this.close();
      this.choose(span, { ...token, top_logprobs: all });
    });
    item.append(button);
    return item;
  }

  // Below the token, inside the window.
  place(span) {
    const box = span.getClientRects()[0];
    const left = Math.min(box.left, document.documentElement.clientWidth - this.element.offsetWidth - 8);
    this.element.style.left = `${scrollX + Math.max(8, left)}px`;
    this.element.style.top = `${scrollY + box.bottom + 8}px`;
    this.element.scrollIntoView({ block: "nearest" });
  }

  move(step) {
    const buttons = [...this.element.querySelectorAll("button:not(:disabled)")];
    const place = buttons.indexOf(document.activeElement) + step;
    buttons[(place + buttons.length) % buttons.length]?.focus();
  }

  close() {
    this.span?.classList.remove("open");
    this.span = null;
    this.element.hidden = true;
  }
}

function isPartOfCharacter(token) {
  return token.token.startsWith("bytes:") && token.bytes.length > 0 && new TextDecoder().decode(new Uint8Array(token.bytes)).includes("\ufffd");
}

function shownProbability(probability) {
  return probability < 0.001 ? "< 0.1%" : `${(100 * probability).toFixed(1)}%`;
}

// A token with its white space made visible.
function shownToken({ token, bytes }) {
  const element = document.createElement("bdi");
  if (!bytes.length) {
    element.append(Object.assign(document.createElement("i"), { textContent: "end of text" }));
    return element;
  }
  for (const piece of token.split(/(\s)/)) {
    const sign = { " ": "␣", "\n": "⏎", "\t": "⇥" }[piece];
    element.append(sign ? Object.assign(document.createElement("i"), { textContent: sign }) : piece);
  }
  return element;
}
