// The translation page: the text on the left, its translation on the right.
import { highlightedDifference, sentenceElement, writeMarked } from "./words.js";

const DEBOUNCE = 350; // milliseconds after the last key press
const ALTERNATIVES = 3;
const MAX_ATTEMPTS = 4; // while the server is busy

const $ = (id) => document.getElementById(id);
const [source, target, mirror] = [$("source"), $("target"), $("mirror")];
const [sourceLanguage, targetLanguage] = [$("source-language"), $("target-language")];
const state = {
  languages: [], mostCharacters: Infinity, result: null, choices: [], current: null, timer: 0, pending: null,
};

// Languages

async function start() {
  const { languages, most_characters: most } = await (await fetch("/api/languages")).json();
  Object.assign(state, { languages, mostCharacters: most });
  sourceLanguage.replaceChildren(
    ...(languages.length > 1 ? [option("auto", "Detect language")] : []),
    ...languages.map(({ code, name }) => option(code, name)),
  );
  fillTargets();
  grow();
  if (source.value) translate();
}

function option(value, name) {
  return Object.assign(document.createElement("option"), { value, textContent: name });
}

function fillTargets() {
  const names = new Intl.DisplayNames(["en"], { type: "language", fallback: "code" });
  const before = targetLanguage.value;
  const from = sourceLanguage.value;
  const usable = state.languages.filter(({ code }) => from === "auto" || code === from);
  const codes = [...new Set(usable.flatMap(({ targets }) => targets))];
  targetLanguage.replaceChildren(...codes.map((code) => option(code, nameOf(code, names))));
  if (codes.includes(before)) targetLanguage.value = before;
  $("swap").disabled = !canSwap();
}

function nameOf(code, names) {
  try {
    return state.languages.find((each) => each.code === code)?.name ?? names.of(code);
  } catch {
    return code;
  }
}

function canSwap() {
  return state.languages.some(
    ({ code, targets }) => code === targetLanguage.value && targets.includes(currentSourceLanguage()),
  );
}

function currentSourceLanguage() {
  return sourceLanguage.value === "auto" ? state.result?.source : sourceLanguage.value;
}

function swap() {
  if (!canSwap()) return;
  const text = translatedText() || source.value;
  const [from, into] = [targetLanguage.value, currentSourceLanguage()];
  sourceLanguage.value = from;
  fillTargets();
  targetLanguage.value = into;
  $("swap").disabled = !canSwap();
  source.value = text;
  edited();
  translate();
}

// Translating

function edited() {
  grow();
  clearTimeout(state.timer);
  state.pending?.abort(); // the server stops translating what nobody waits for
  highlight([]);
  if (source.value.trim()) state.timer = setTimeout(translate, DEBOUNCE);
  else show(null);
}

function grow() {
  source.style.height = "auto";
  source.style.height = `${source.scrollHeight}px`;
  const count = source.value.length;
  const most = state.mostCharacters.toLocaleString();
  $("count").textContent = count ? `${count.toLocaleString()} of ${most} characters` : "";
  $("clear").hidden = !count;
}

async function translate() {
  clearTimeout(state.timer);
  state.pending?.abort();
  if (!source.value.trim()) return;
  const request = (state.pending = new AbortController());
  $("result").setAttribute("aria-busy", "true");
  const fields = {
    text: source.value, source: sourceLanguage.value, target: targetLanguage.value, alternatives: ALTERNATIVES,
  };
  try {
    show(await fetchTranslation(fields, request.signal));
    showStatus("");
  } catch (error) {
    if (request.signal.aborted) return;
    showStatus(error.message);
  }
  $("result").setAttribute("aria-busy", "false");
}

async function fetchTranslation(fields, signal) {
  for (let attempt = 1; ; attempt += 1) {
    const response = await fetch("/api/translate", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(fields),
      signal,
    }).catch((error) => {
      throw signal.aborted ? error : new Error("The server does not respond.");
    });
    const answer = await response.json();
    if (response.ok) return answer;
    const seconds = Number(response.headers.get("retry-after"));
    if (!seconds || attempt === MAX_ATTEMPTS) throw new Error(answer.error);
    showStatus("The server is busy. Retrying …");
    await new Promise((resolve) => setTimeout(resolve, 1000 * seconds));
  }
}

function showStatus(text) {
  $("status").textContent = text;
}

// Showing the translation

function show(result) {
  state.result = result;
  state.choices = result ? result.parts.map(() => 0) : [];
  state.current = null;
  for (const id of ["copy", "explain"]) $(id).hidden = !result;
  if (result?.confidence != null) showDetectedLanguage(result);
  draw();
  const sentences = sentenceNumbers();
  if (sentences.length === 1) showAlternatives(sentences[0]);
  $("swap").disabled = !canSwap();
}

function showDetectedLanguage({ source: code }) {
  const name = state.languages.find((each) => each.code === code)?.name ?? code;
  const auto = sourceLanguage.querySelector('[value="auto"]');
  if (auto) auto.textContent = `${name} (detected)`;
}

function sentenceNumbers() {
  const parts = state.result?.parts ?? [];
  return parts.map((_, number) => number).filter((number) => parts[number].translations.length);
}

function draw() {
  target.lang = targetLanguage.value;
  target.dir = "auto";
  let place = 0;
  target.replaceChildren(
    ...(state.result?.parts ?? []).map((part, number) => {
      const start = place;
      place += part.source.length;
      if (!part.translations.length) return document.createTextNode(part.source);
      const element = sentenceElement(part, state.choices[number], start);
      element.dataset.number = number;
      return element;
    }),
  );
  showWarnings();
  showAlternatives(state.current);
}

function translatedText() {
  return target.textContent;
}

function showWarnings() {
  const warnings = sentenceNumbers().flatMap((number) => {
    const { text, flags } = state.result.parts[number].translations[state.choices[number]];
    return flags.map(({ message }) => warningElement(number, text, message));
  });
  $("flags").replaceChildren(...(warnings.length ? [heading("Possible errors"), ...warnings] : []));
  $("flags").hidden = !warnings.length;
}

function heading(text) {
  return Object.assign(document.createElement("h3"), { textContent: text });
}

function warningElement(number, text, message) {
  const warning = Object.assign(document.createElement("button"), { type: "button", className: "warning" });
  const quoted = Object.assign(document.createElement("bdi"), { textContent: text });
  warning.append(message, quoted);
  warning.addEventListener("click", () => select(wordsOfSentence(number)[0]));
  return warning;
}

function showAlternatives(number) {
  state.current = number;
  const part = state.result?.parts[number];
  const shown = part?.translations[state.choices[number]]?.text;
  const others = (part?.translations ?? [])
    .map(({ text }, choice) => [text, choice]).filter(([text]) => text !== shown);
  const list = document.createElement("ul");
  list.append(...others.map(([text, choice]) => alternativeElement(number, text, choice, shown)));
  $("alternatives").replaceChildren(heading("Other translations of this sentence"), list);
  $("alternatives").hidden = !others.length;
}

function alternativeElement(number, text, choice, shown) {
  const item = document.createElement("li");
  const button = Object.assign(document.createElement("button"), { type: "button" });
  button.append(highlightedDifference(text, shown));
  button.addEventListener("click", () => {
    state.choices[number] = choice;
    highlight([]);
    draw();
    $("alternatives").querySelector("button")?.focus();
  });
  item.append(button);
  return item;
}

// Word alignment

function allWords() {
  return [...target.querySelectorAll(".word")];
}

function wordsOfSentence(number) {
  return [...target.querySelectorAll(`[data-number="${number}"] .word`)];
}

function highlight(words) {
  for (const word of target.querySelectorAll(".lit")) word.classList.remove("lit");
  for (const word of words) word.classList.add("lit");
  writeMarked(mirror, source.value, words.flatMap((word) => word.ranges));
}

function select(word) {
  if (!word) return;
  highlight([word]);
  const number = Number(word.closest(".sentence").dataset.number);
  if (number !== state.current) showAlternatives(number);
  const sourceWords = word.ranges.map(([start, stop]) => source.value.slice(start, stop));
  showStatus(`${word.textContent} ← ${sourceWords.join(" ")}`);
  word.scrollIntoView({ block: "nearest" });
}

function selectNext(step) {
  const words = allWords();
  const place = words.findIndex((word) => word.classList.contains("lit"));
  select(words[Math.min(words.length - 1, Math.max(0, place < 0 ? 0 : place + step))]);
}

// Highlights the words that are aligned to the source word at the caret.
function highlightFromCaret() {
  if (document.activeElement !== source || !state.result || source.selectionStart !== source.selectionEnd) return;
  const caret = source.selectionStart;
  highlight(allWords().filter((word) => word.ranges.some(([start, stop]) => start <= caret && caret <= stop)));
}

// Copying and explaining

async function copy() {
  if (!state.result) return;
  const text = translatedText();
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    getSelection().selectAllChildren(target); // where the browser denies clipboard access
    showStatus("Selected: press Ctrl+C.");
    return;
  }
  showStatus("Copied.");
}

function explain() {
  const number = state.current ?? sentenceNumbers()[0];
  if (number === undefined) return;
  const fields = { text: state.result.parts[number].source, source: state.result.source, target: targetLanguage.value };
  for (const form of [$("explain-in-dialog"), $("explain-in-tab")]) {
    form.replaceChildren(
      ...Object.entries(fields).map(([name, value]) =>
        Object.assign(document.createElement("input"), { type: "hidden", name, value }),
      ),
    );
  }
  $("explanation").showModal();
  $("explain-in-dialog").submit();
}

// Events

source.addEventListener("input", edited);
source.addEventListener("keyup", (event) => {
  if (event.key.startsWith("Arrow") || event.key === "Home" || event.key === "End") highlightFromCaret();
});
source.addEventListener("click", highlightFromCaret);
sourceLanguage.addEventListener("change", () => { fillTargets(); translate(); });
targetLanguage.addEventListener("change", () => { $("swap").disabled = !canSwap(); translate(); });
target.addEventListener("click", (event) => select(event.target.closest(".word")));
target.addEventListener("keydown", (event) => {
  if (event.key === "ArrowRight") selectNext(1);
  else if (event.key === "ArrowLeft") selectNext(-1);
  else return;
  event.preventDefault();
});
$("swap").addEventListener("click", swap);
$("copy").addEventListener("click", copy);
$("explain").addEventListener("click", explain);
$("close").addEventListener("click", () => $("explanation").close());
$("clear").addEventListener("click", () => { source.value = ""; edited(); source.focus(); });
addEventListener("resize", grow);
addEventListener("keydown", (event) => {
  const shortcuts = { KeyC: copy, KeyE: explain, KeyS: swap };
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) translate();
  else if (event.key === "Escape" && !$("explanation").open) { highlight([]); showStatus(""); source.focus(); }
  else if (event.altKey && !event.ctrlKey && shortcuts[event.code]) shortcuts[event.code]();
  else return;
  event.preventDefault();
});

start().catch(() => showStatus("The server does not respond."));
