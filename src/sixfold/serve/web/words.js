// A translation as words that know where they come from. All text reaches the page as text, never as markup.

// Positions from the server count characters; those of JavaScript count halves of the rarer ones twice.
export function unitsOf(text) {
  const units = [0];
  for (const character of text) units.push(units.at(-1) + character.length);
  return units;
}

// A sentence as spans, one for each word that has links, with the source's places beside it.
export function sentenceElement(part, choice, sourceStart) {
  const { text, links, flags } = part.translations[choice];
  const units = unitsOf(text);
  const sourceUnits = unitsOf(part.source);
  const element = document.createElement("span");
  element.className = flags.length ? "sentence doubtful" : "sentence";
  let end = 0;
  for (const [start, stop, ranges] of wordsOf(links)) {
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

// The words of the target in order, each with the ranges of the source it is linked to.
function wordsOf(links) {
  const words = new Map();
  for (const [sourceStart, sourceEnd, start, stop] of links) {
    if (!words.has(start)) words.set(start, [start, stop, []]);
    words.get(start)[2].push([sourceStart, sourceEnd]);
  }
  return [...words.values()].sort((one, other) => one[0] - other[0]);
}

// Write a text with some ranges marked.
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
  element.append(text.slice(end), "\n"); // the last line of a text field has a height even when it is empty
}

// Another translation with the words that the current one does not have set apart.
export function comparedElement(text, current) {
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
