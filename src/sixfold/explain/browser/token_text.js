// Readable token labels. In SentencePiece, U+2581 is a space and <0xE2> is a byte.
const BYTE = /^<0x([0-9A-F]{2})>$/;
const SPACE = "\u2581";

// Replaces invisible characters, and characters that XML does not allow, by visible ones.
export function visible(text) {
  return (text.toWellFormed ? text.toWellFormed() : text)
    .replace(/[\u0000-\u001f]/g, (character) => String.fromCharCode(0x2400 + character.charCodeAt(0)))
    .replace(/[\u007f-\u009f\u2028\u2029\ufffe\uffff]/g, "\ufffd");
}

export function isSpecial(piece) {
  return piece === "<s>" || piece === "</s>";
}

// The label of a token; a token inside a word begins with a dot.
export function tokenLabel(piece) {
  const byte = BYTE.exec(piece);
  if (byte) return `\u2039${byte[1]}\u203a`;
  if (isSpecial(piece)) return piece === "<s>" ? "[BOS]" : "[EOS]";
  if (!piece.startsWith(SPACE)) return `${/^[\p{L}\p{M}\p{N}]/u.test(piece) ? "\u00b7" : ""}${visible(piece)}`;
  const text = piece.slice(1);
  return text ? visible(text.replaceAll(SPACE, " ")) : "\u2423";
}

// The text of tokens; bytes are decoded as UTF-8.
export function textOf(pieces) {
  const encoder = new TextEncoder();
  const bytes = pieces.filter((piece) => !isSpecial(piece)).flatMap((piece) => {
    const byte = BYTE.exec(piece);
    return byte ? [parseInt(byte[1], 16)] : [...encoder.encode(piece.replaceAll(SPACE, " "))];
  });
  return visible(new TextDecoder().decode(new Uint8Array(bytes)).replace(/^ /, ""));
}

export function shortened(text, most) {
  const characters = [...text];
  return characters.length > most ? `${characters.slice(0, most - 1).join("")}\u2026` : text;
}
