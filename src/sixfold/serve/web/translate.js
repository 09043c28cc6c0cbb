// The page: type on the left, read on the right.
import { comparedElement, sentenceElement, writeMarked } from "./words.js";

const PAUSE = 350; // milliseconds after the last key
const ALTERNATIVES = 3;
const MOST_TRIES = 4; // while the server is busy

const $ = (id) => document.getElementById(id);
const [source, target, mirror] = [$("source"), $("target"), $("mirror")];
const [sourceLanguage, targetLanguage] = [$("source-language"), $("target-language")];
const state = { languages: [], mostCharacters: Infinity, result: null, choices: [], current: null, timer: 0, asking: null };

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
    ({ code, targets }) => code === targetLanguage.value && targets.includes(spokenLanguage()),
  );
}

function spokenLanguage() {
  return sourceLanguage.value === "auto" ? state.result?.source : sourceLanguage.value;
}

function swap() {
  if (!canSwap()) return;
  const text = translatedText() || source.value;
  const [from, into] = [targetLanguage.value, spokenLanguage()];
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
  state.asking?.abort(); // the server stops working on what nobody waits for
  light([]);
  if (source.value.trim()) state.timer = setTimeout(translate, PAUSE);
  else show(null);
}

function grow() {
  source.style.height = "auto";
  source.style.height = `${source.scrollHeight}px`;
  const count = source.value.length;
  $("count").textContent = count ? `${count.toLocaleString()} of ${state.mostCharacters.toLocaleString()} characters` : "";
  $("clear").hidden = !count;
}

async function translate() {
  clearTimeout(state.timer);
  state.asking?.abort();
  if (!source.value.trim()) return;
  const asking = (state.asking = new AbortController());
  $("result").setAttribute("aria-busy", "true");
  const wish = { text: source.value, source: sourceLanguage.value, target: targetLanguage.value, alternatives: ALTERNATIVES };
  try {
    show(await ask(wish, asking.signal));
    say("");
  } catch (error) {
    if (asking.signal.aborted) return;
    say(error.message);
  }
  $("result").setAttribute("aria-busy", "false");
}

async function ask(wish, signal) {
  for (let tries = 1; ; tries += 1) {
    const response = await fetch("/api/translate", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(wish),
      signal,
    }).catch((error) => {
      throw signal.aborted ? error : new Error("The server does not answer.");
    });
    const answer = await response.json();
    if (response.ok) return answer;
    const pause = Number(response.headers.get("retry-after"));
    if (!pause || tries === MOST_TRIES) throw new Error(answer.error);
    say("The server is busy; one moment …");
    await new Promise((resolve) => setTimeout(resolve, 1000 * pause));
  }
}

function say(text) {
  $("status").textContent = text;
}

// Reading

function show(result) {
  state.result = result;
  state.choices = result ? result.parts.map(() => 0) : [];
  state.current = null;
  for (const id of ["copy", "explain"]) $(id).hidden = !result;
  if (result?.confidence != null) namedDetection(result);
  draw();
  const sentences = sentenceNumbers();
  if (sentences.length === 1) offer(sentences[0]);
  $("swap").disabled = !canSwap();
}

function namedDetection({ source: code }) {
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
  showFlags();
  offer(state.current);
}

function translatedText() {
  return target.textContent;
}

function showFlags() {
  const notes = sentenceNumbers().flatMap((number) => {
    const { text, flags } = state.result.parts[number].translations[state.choices[number]];
    return flags.map(({ message }) => noteElement(number, text, message));
  });
  $("flags").replaceChildren(...(notes.length ? [heading("Look twice"), ...notes] : []));
  $("flags").hidden = !notes.length;
}

function heading(text) {
  return Object.assign(document.createElement("h3"), { textContent: text });
}

function noteElement(number, text, message) {
  const note = Object.assign(document.createElement("button"), { type: "button", className: "note" });
  const quoted = Object.assign(document.createElement("bdi"), { textContent: text });
  note.append(message, quoted);
  note.addEventListener("click", () => select(wordsOfSentence(number)[0]));
  return note;
}

function offer(number) {
  state.current = number;
  const part = state.result?.parts[number];
  const shown = part?.translations[state.choices[number]]?.text;
  const others = (part?.translations ?? []).map(({ text }, choice) => [text, choice]).filter(([text]) => text !== shown);
  const list = document.createElement("ul");
  list.append(...others.map(([text, choice]) => alternativeElement(number, text, choice, shown)));
  $("alternatives").replaceChildren(heading("Other translations of this sentence"), list);
  $("alternatives").hidden = !others.length;
}

function alternativeElement(number, text, choice, shown) {
  const item = document.createElement("li");
  const button = Object.assign(document.createElement("button"), { type: "button" });
  button.append(comparedElement(text, shown));
  button.addEventListener("click", () => {
    state.choices[number] = choice;
    light([]);
    draw();
    $("alternatives").querySelector("button")?.focus();
  });
  item.append(button);
  return item;
}

// Where words come from

function allWords() {
  return [...target.querySelectorAll(".word")];
}

function wordsOfSentence(number) {
  return [...target.querySelectorAll(`[data-number="${number}"] .word`)];
}

function light(words) {
  for (const word of target.querySelectorAll(".lit")) word.classList.remove("lit");
  for (const word of words) word.classList.add("lit");
  writeMarked(mirror, source.value, words.flatMap((word) => word.ranges));
}

function select(word) {
  if (!word) return;
  light([word]);
  const number = Number(word.closest(".sentence").dataset.number);
  if (number !== state.current) offer(number);
  const origins = word.ranges.map(([start, stop]) => source.value.slice(start, stop));
  say(`${word.textContent} ← ${origins.join(" ")}`);
  word.scrollIntoView({ block: "nearest" });
}

function walk(step) {
  const words = allWords();
  const place = words.findIndex((word) => word.classList.contains("lit"));
  select(words[Math.min(words.length - 1, Math.max(0, place < 0 ? 0 : place + step))]);
}

// The other way round: the words that come from where the caret is.
function lightFromSource() {
  if (document.activeElement !== source || !state.result || source.selectionStart !== source.selectionEnd) return;
  const caret = source.selectionStart;
  light(allWords().filter((word) => word.ranges.some(([start, stop]) => start <= caret && caret <= stop)));
}

// Taking it away

async function copy() {
  if (!state.result) return;
  const text = translatedText();
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    getSelection().selectAllChildren(target); // where a page may not copy, Ctrl+C does
    say("Selected: press Ctrl+C.");
    return;
  }
  say("Copied.");
}

function explain() {
  const number = state.current ?? sentenceNumbers()[0];
  if (number === undefined) return;
  const wish = { text: state.result.parts[number].source, source: state.result.source, target: targetLanguage.value };
  for (const form of [$("explaining"), $("explaining-anew")]) {
    form.replaceChildren(
      ...Object.entries(wish).map(([name, value]) =>
        Object.assign(document.createElement("input"), { type: "hidden", name, value }),
      ),
    );
  }
  $("sheet").showModal();
  $("explaining").submit();
}

// Hands

source.addEventListener("input", edited);
source.addEventListener("keyup", (event) => {
  if (event.key.startsWith("Arrow") || event.key === "Home" || event.key === "End") lightFromSource();
});
source.addEventListener("click", lightFromSource);
sourceLanguage.addEventListener("change", () => { fillTargets(); translate(); });
targetLanguage.addEventListener("change", () => { $("swap").disabled = !canSwap(); translate(); });
target.addEventListener("click", (event) => select(event.target.closest(".word")));
target.addEventListener("keydown", (event) => {
  if (event.key === "ArrowRight") walk(1);
  else if (event.key === "ArrowLeft") walk(-1);
  else return;
  event.preventDefault();
});
$("swap").addEventListener("click", swap);
$("copy").addEventListener("click", copy);
$("explain").addEventListener("click", explain);
$("close").addEventListener("click", () => $("sheet").close());
$("clear").addEventListener("click", () => { source.value = ""; edited(); source.focus(); });
addEventListener("resize", grow);
addEventListener("keydown", (event) => {
  const shortcuts = { KeyC: copy, KeyE: explain, KeyS: swap };
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) translate();
  else if (event.key === "Escape" && !$("sheet").open) { light([]); say(""); source.focus(); }
  else if (event.altKey && !event.ctrlKey && shortcuts[event.code]) shortcuts[event.code]();
  else return;
  event.preventDefault();
});

start().catch(() => say("The server does not answer."));
