// Readable token labels. U+2581 is a space, and <0xE2> a byte of a character that the token does not have whole.
const BYTES = /^(?:<0x[0-9A-F]{2}>)+$/;
const SPACE = "\u2581";

// Replaces invisible characters, and characters that XML does not allow, by visible ones.
export function visible(text) {
  return (text.toWellFormed ? text.toWellFormed() : text).replaceAll("\n", "\u21b5").replaceAll("\t", "\u21e5")
    .replace(/[\u0000-\u001f]/g, (character) => String.fromCharCode(0x2400 + character.charCodeAt(0)))
    .replace(/[\u007f-\u009f\u2028\u2029\ufffe\uffff]/g, "\ufffd");
}

export function isSpecial(piece) {
  return piece === "<s>" || piece === "</s>";
}

// The label of a token; a word that no space stands before begins with a dot.
export function tokenLabel(piece) {
  if (BYTES.test(piece)) return bytesLabel(bytesOf(piece));
  if (isSpecial(piece)) return piece === "<s>" ? "[BOS]" : "[EOS]";
  if (!piece.startsWith(SPACE)) return `${/^[\p{L}\p{M}\p{N}]/u.test(piece) ? "\u00b7" : ""}${visible(piece)}`;
  const text = piece.slice(1).replaceAll(SPACE, " ");
  return text.trim() ? visible(text) : `\u2423${visible(text).replaceAll(" ", "\u2423")}`;
}

function bytesOf(piece) {
  return piece.match(/[0-9A-F]{2}/g).map((digits) => parseInt(digits, 16));
}

// A control character has a sign of its own; other bytes are shown as numbers.
function bytesLabel(bytes) {
  if (bytes.length === 1 && bytes[0] < 0x20) return visible(String.fromCharCode(bytes[0]));
  return `\u2039${bytes.map((byte) => byte.toString(16).toUpperCase().padStart(2, "0")).join(" ")}\u203a`;
}

// The text of tokens; bytes are decoded as UTF-8.
export function textOf(pieces) {
  const encoder = new TextEncoder();
  const bytes = pieces.filter((piece) => !isSpecial(piece)).flatMap((piece) => {
    return BYTES.test(piece) ? bytesOf(piece) : [...encoder.encode(piece.replaceAll(SPACE, " "))];
  });
  return visible(new TextDecoder().decode(new Uint8Array(bytes)).replace(/^ /, ""));
}

export function shortened(text, most) {
  const characters = [...text];
  return characters.length > most ? `${characters.slice(0, most - 1).join("")}\u2026` : text;
}
