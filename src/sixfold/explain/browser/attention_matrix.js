// Attention matrices, unpacked when they are first shown. Rows sum to 1, unless only the largest weights were stored.
const SQUARES = Float32Array.from({ length: 256 }, (_, level) => (level / 255) ** 2);

export async function inflate(text) {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

export class AttentionMatrices {
  constructor(attention) {
    this.attention = attention;
    this.stack = null;
    this.levels = [];
  }

  // Only one stack is kept unpacked: a long sentence has millions of weights.
  async levelsOf(stack, layer) {
    if (this.stack !== stack) [this.stack, this.levels] = [stack, []];
    const levels = this.levels;
    levels[layer] ??= inflate(this.attention.stacks[stack][layer].content);
    return levels[layer];
  }

  // Layer or head -1 is the mean over all.
  async matrix(stack, layer, head) {
    const layers = layer < 0 ? this.attention.stacks[stack].map((_, each) => each) : [layer];
    const { heads, queries, keys } = this.attention.stacks[stack][0];
    const chosen = head < 0 ? Array.from({ length: heads }, (_, one) => one) : [head];
    const values = new Float32Array(queries * keys);
    for (const each of layers) {
      const levels = await this.levelsOf(stack, each);
      for (const one of chosen) add(values, levels.subarray(one * values.length, (one + 1) * values.length));
    }
    const count = layers.length * chosen.length;
    const matrix = { rows: queries, columns: keys, values: values.map((value) => value / count) };
    return this.attention.largest >= keys ? normalised(matrix) : matrix;
  }
}

function add(values, levels) {
  for (let place = 0; place < values.length; place += 1) values[place] += SQUARES[levels[place]];
}

export function normalised({ rows, columns, values }) {
  for (let row = 0; row < rows; row += 1) {
    const part = values.subarray(row * columns, (row + 1) * columns);
    const total = part.reduce((sum, value) => sum + value, 0) || 1;
    for (let place = 0; place < columns; place += 1) part[place] /= total;
  }
  return { rows, columns, values };
}

// Merges tokens into words: the mean over the query tokens of a word, the sum over its key tokens.
export function merged(matrix, rowGroups, columnGroups) {
  const values = new Float32Array(rowGroups.length * columnGroups.length);
  const numbers = new Int32Array(matrix.columns);
  columnGroups.forEach((group, number) => group.forEach((place) => (numbers[place] = number)));
  rowGroups.forEach((group, number) => group.forEach((row) => {
    for (let column = 0; column < matrix.columns; column += 1) {
      values[number * columnGroups.length + numbers[column]] +=
        matrix.values[row * matrix.columns + column] / group.length;
    }
  }));
  return { rows: rowGroups.length, columns: columnGroups.length, values };
}

// Groups the tokens of each word; special tokens (word -1) are groups of their own.
export function groupsOf(tokens, isMerged) {
  const groups = [];
  tokens.forEach((token, place) => {
    const continues = isMerged && place > 0 && token.word >= 0 && token.word === tokens[place - 1].word;
    if (continues) groups.at(-1).push(place);
    else groups.push([place]);
  });
  return groups;
}

export function rowOf(matrix, row) {
  return Array.from(matrix.values.subarray(row * matrix.columns, (row + 1) * matrix.columns));
}

export function columnOf(matrix, column) {
  return Array.from({ length: matrix.rows }, (_, row) => matrix.values[row * matrix.columns + column]);
}

// The indices of the largest values, largest first.
export function largest(values, count) {
  return values.map((_, place) => place).filter((place) => values[place] > 0)
    .sort((one, other) => values[other] - values[one]).slice(0, count);
}
