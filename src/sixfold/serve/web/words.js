// A translation as words with their aligned source words. Text enters the page as text nodes, never as markup.

// The server counts code points and JavaScript counts UTF-16 units: returns the unit at which each code point begins.
export function unitsOf(text) {
  const units = [0];
  for (const character of text) units.push(units.at(-1) + character.length);
  return units;
}

// A sentence with a span for each aligned word; `ranges` of the span are its source words, as positions in the text.
export function sentenceElement(part, choice, sourceStart) {
  const { text, links, flags } = part.translations[choice];
  const units = unitsOf(text);
  const sourceUnits = unitsOf(part.source);
  const element = document.createElement("span");
  element.className = flags.length ? "sentence suspicious" : "sentence";
  let end = 0;
  for (const [start, stop, ranges] of alignedWords(links)) {
    element.append(text.slice(end, units[start]));
    const word = document.createElement("span");
    word.className = "word";
    word.textContent = text.slice(units[start], units[stop]);
    word.ranges = ranges.map(([from, to]) => [sourceStart + sourceUnits[from], sourceStart + sourceUnits[to]]);
    element.append(word);
    end = units[stop];
  }
  element.append(text.slice(end));
  return element;
}

// The aligned words of the target in order, each with its source ranges.
function alignedWords(links) {
  const words = new Map();
  for (const [sourceStart, sourceEnd, start, stop] of links) {
    if (!words.has(start)) words.set(start, [start, stop, []]);
    words.get(start)[2].push([sourceStart, sourceEnd]);
  }
  return [...words.values()].sort((one, other) => one[0] - other[0]);
}

// Fill an element with a text in which some ranges are marked.
export function writeMarked(element, text, ranges) {
  element.replaceChildren();
  let end = 0;
  for (const [start, stop] of [...ranges].sort((one, other) => one[0] - other[0])) {
    if (start < end) continue;
    const mark = document.createElement("mark");
    mark.textContent = text.slice(start, stop);
    element.append(text.slice(end, start), mark);
    end = stop;
  }
  element.append(text.slice(end), "\n"); // so that an empty last line has a height, as in a text field
}

// An alternative translation, with the words that the current one does not have highlighted.
export function highlightedDifference(text, current) {
  const known = new Set(current.split(/\s+/));
  const element = document.createElement("span");
  for (const piece of text.split(/(\s+)/)) {
    if (!piece.trim() || known.has(piece)) {
      element.append(piece);
    } else {
      const changed = document.createElement("span");
      changed.className = "changed";
      changed.textContent = piece;
      element.append(changed);
    }
  }
  return element;
}
