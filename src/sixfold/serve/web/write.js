// The page to write on: a text that the model goes on with, or a conversation.
import { stream } from "./completion.js";
import { Alternatives, Passage } from "./tokens.js";

const NUM_ALTERNATIVES = 8;
const LONGEST = 512; // tokens that the slider goes to

const $ = (id) => document.getElementById(id);
const [text, messages, message] = [$("text"), $("messages"), $("message")];
const state = { models: [], isChat: false, conversation: [], pending: null };
const alternatives = new Alternatives($("alternatives"), choose);

// Settings

async function start() {
  state.models = (await (await fetch("/v1/models")).json()).data;
  $("model").replaceChildren(
    ...state.models.map(({ id }) => Object.assign(document.createElement("option"), { value: id, textContent: id })),
  );
  $("model-setting").hidden = state.models.length < 2;
  $("translate-page").hidden = location.pathname === "/";
  chooseModel();
}

function model() {
  return state.models.find(({ id }) => id === $("model").value);
}

function chooseModel() {
  const { has_chat: hasChat, max_model_len: longest } = model();
  $("modes").hidden = !hasChat;
  $("length").max = Math.min(longest, LONGEST);
  showSettings();
  setMode(hasChat);
}

function setMode(isChat) {
  stop();
  alternatives.close();
  state.isChat = isChat;
  text.hidden = isChat;
  $("chat").hidden = !isChat;
  $("text-mode").setAttribute("aria-pressed", String(!isChat));
  $("chat-mode").setAttribute("aria-pressed", String(isChat));
  $("write").textContent = isChat ? "Send" : "Write";
  (isChat ? message : text).focus();
}

function showSettings() {
  $("temperature-value").textContent = Number($("temperature").value) ? Number($("temperature").value).toFixed(2) : "0: greedy";
  $("top-p-value").textContent = Number($("top-p").value).toFixed(2);
  $("length-value").textContent = `${$("length").value} tokens`;
  document.body.classList.toggle("coloured", $("colours").checked);
}

function settings() {
  return {
    model: $("model").value,
    temperature: Number($("temperature").value),
    top_p: Number($("top-p").value),
    max_tokens: Number($("length").value),
  };
}

// Writing

function write() {
  if (state.pending) return;
  if (state.isChat) send();
  else if (text.textContent) goOn(new Passage(text, text.textContent));
}

function send() {
  if (!message.value.trim()) return;
  said("user").append(message.value);
  state.conversation.push({ role: "user", content: message.value });
  message.value = "";
  grow();
  const passage = new Passage(said("assistant"), null);
  state.conversation.push({ role: "assistant", passage });
  follow(passage, "/v1/chat/completions", {
    messages: state.conversation.slice(0, -1).map(({ role, content, passage: written }) => ({
      role, content: content ?? written.text,
    })),
    logprobs: true, top_logprobs: NUM_ALTERNATIVES,
  });
}

function said(role) {
  const item = Object.assign(document.createElement("li"), { className: "said" });
  item.dataset.role = role;
  messages.append(item);
  return item;
}

function goOn(passage) {
  follow(passage, "/v1/completions", { prompt: passage.prompt, logprobs: NUM_ALTERNATIVES });
}

async function follow(passage, path, fields) {
  const request = (state.pending = new AbortController());
  showWriting(passage.parent, true);
  const began = performance.now();
  let count = 0;
  try {
    for await (const part of stream(path, { ...settings(), ...fields }, request.signal, showStatus)) {
      passage.promptIds ??= part.prompt;
      passage.add(part.text, part.tokens);
      count += part.tokens.length;
      showSpeed(count, began, part.finished);
      passage.parent.lastChild?.scrollIntoView?.({ block: "nearest" });
    }
  } catch (error) {
    showStatus(request.signal.aborted ? "Stopped." : error.message);
  }
  if (state.pending === request) state.pending = null;
  showWriting(passage.parent, false);
}

function showWriting(element, isWriting) {
  element.classList.toggle("growing", isWriting);
  text.contentEditable = isWriting ? "false" : "plaintext-only";
  $("write").hidden = isWriting;
  $("stop").hidden = !isWriting;
  if (!isWriting) {
    if (state.isChat) message.focus();
    else caretToEnd();
  }
}

function caretToEnd() {
  text.focus({ preventScroll: true });
  getSelection().selectAllChildren(text);
  getSelection().collapseToEnd();
}

function showSpeed(count, began, finished) {
  if (!count) return;
  const speed = (1000 * count) / (performance.now() - began);
  const reason = { stop: " · the model ended the text", length: " · the length is reached" }[finished] ?? "";
  showStatus(`${count} token${count > 1 ? "s" : ""} · ${speed.toFixed(0)} per second${reason}`);
}

function showStatus(content) {
  $("status").textContent = content;
}

function stop() {
  state.pending?.abort();
}

// Another token in the place of one that was written: all that follows is written anew.
function choose(span, token) {
  if (state.pending) return;
  const { passage } = span;
  if (!state.isChat) passage.promptText = textBefore(passage.spans[0]);
  passage.cutAt(span);
  if (state.isChat) forgetAfter(passage);
  if (!token.bytes.length) return;
  passage.add(token.token, [token]);
  goOn(passage);
}

function textBefore(span) {
  const range = document.createRange();
  range.setStart(text, 0);
  range.setEndBefore(span);
  return range.toString();
}

function forgetAfter(passage) {
  const place = state.conversation.findIndex((each) => each.passage === passage);
  state.conversation.length = place + 1;
  while (passage.parent.nextSibling) passage.parent.nextSibling.remove();
}

// Whoever edits the text changes its tokens: from then on it is sent as text.
function edited() {
  alternatives.close();
  for (const span of text.querySelectorAll(".token")) span.passage.isExact = false;
}

function openAtCaret() {
  const node = getSelection().focusNode;
  const span = (node?.nodeType === Node.TEXT_NODE ? node.parentElement : node)?.closest?.(".token");
  if (span) alternatives.open(span);
}

// Copying and clearing

async function copy() {
  const whole = state.isChat ? messages : text;
  const content = state.isChat ? [...messages.children].map((each) => each.textContent).join("\n\n") : text.textContent;
  try {
    await navigator.clipboard.writeText(content);
    showStatus("Copied.");
  } catch {
    getSelection().selectAllChildren(whole); // where the browser denies clipboard access
    showStatus("Selected: press Ctrl+C.");
  }
}

function clear() {
  stop();
  alternatives.close();
  state.conversation = [];
  for (const element of [text, messages]) element.replaceChildren();
  showStatus("");
  (state.isChat ? message : text).focus();
}

function grow() {
  message.style.height = "auto";
  message.style.height = `${message.scrollHeight}px`;
}

// Events

for (const id of ["temperature", "top-p", "length", "colours"]) $(id).addEventListener("input", showSettings);
$("model").addEventListener("change", chooseModel);
$("text-mode").addEventListener("click", () => setMode(false));
$("chat-mode").addEventListener("click", () => setMode(true));
$("write").addEventListener("click", write);
$("stop").addEventListener("click", stop);
$("copy").addEventListener("click", copy);
$("clear").addEventListener("click", clear);
text.addEventListener("input", edited);
message.addEventListener("input", grow);
message.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    write();
  }
});
addEventListener("click", (event) => {
  const span = event.target.closest?.(".token");
  if (span && !state.pending) alternatives.open(span);
  else if (!event.target.closest?.("#alternatives")) alternatives.close();
});
addEventListener("keydown", (event) => {
  const isOpen = alternatives.span !== null;
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) write();
  else if (event.key === "Escape" && isOpen) alternatives.close();
  else if (event.key === "Escape") stop();
  else if (isOpen && event.key === "ArrowDown") alternatives.move(1);
  else if (isOpen && event.key === "ArrowUp") alternatives.move(-1);
  else if (event.altKey && event.key === "ArrowDown") openAtCaret();
  else if (event.altKey && event.code === "KeyC") copy();
  else return;
  event.preventDefault();
});

start().catch(() => showStatus("The server does not respond."));
