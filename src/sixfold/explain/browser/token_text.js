// Tokens as people read them: U+2581 is a space, <0xE2> is a byte.
const BYTE = /^<0x([0-9A-F]{2})>$/;
const SPACE = "\u2581";

// Characters that cannot be seen, or cannot stand in XML, get a picture.
export function visible(text) {
  return (text.toWellFormed ? text.toWellFormed() : text)
    .replace(/[\u0000-\u001f]/g, (sign) => String.fromCharCode(0x2400 + sign.charCodeAt(0)))
    .replace(/[\u007f-\u009f\u2028\u2029\ufffe\uffff]/g, "\ufffd");
}

export function isMark(piece) {
  return piece === "<s>" || piece === "</s>";
}

// A token that goes on with a word begins with a dot.
export function shownPiece(piece) {
  const byte = BYTE.exec(piece);
  if (byte) return `\u2039${byte[1]}\u203a`;
  if (isMark(piece)) return piece === "<s>" ? "[begin]" : "[end]";
  if (!piece.startsWith(SPACE)) return `${/^[\p{L}\p{M}\p{N}]/u.test(piece) ? "\u00b7" : ""}${visible(piece)}`;
  const text = piece.slice(1);
  return text ? visible(text.replaceAll(SPACE, " ")) : "\u2423";
}

// What tokens spell together; bytes become the characters they are.
export function textOf(pieces) {
  const encoder = new TextEncoder();
  const bytes = pieces.filter((piece) => !isMark(piece)).flatMap((piece) => {
    const byte = BYTE.exec(piece);
    return byte ? [parseInt(byte[1], 16)] : [...encoder.encode(piece.replaceAll(SPACE, " "))];
  });
  return visible(new TextDecoder().decode(new Uint8Array(bytes)).replace(/^ /, ""));
}

export function shortened(text, most) {
  const signs = [...text];
  return signs.length > most ? `${signs.slice(0, most - 1).join("")}\u2026` : text;
}
