/**
 * Expectimax with a heuristic: the player `expectimax` of `octofold_players`, for browsers, in a worker.
 *
 * A message is `{id, search, boards}`, with the options of the search. The reply is `{id, answers}`.
 *
 * A board is four rows of 16 bits, the first cell lowest. Numbers are rounded where that player rounds them, and the
 * same afterstates are cut off and looked up, so that even the values are equal. The search is that of nneonneo's
 * 2048-ai, the heuristic Petr Moravek's; both are described in https://stackoverflow.com/a/22498940.
 */

import { CHANCE_OF_FOUR } from "../game/spawns.js";

const LARGEST_EXPONENT = 15; // that a row can hold
const SPAWNED = 64; // what the new tiles of a search add at most to the sum of the tiles: 16 times a 4
const MOST = 2 ** (LARGEST_EXPONENT + 1) - 1 - SPAWNED; // with a larger sum, a search may make a tile that does not fit
const LOST = Array.from({ length: 16 }, (_, cell) => 1 + ((cell + (cell >> 2)) & 1)); // a board without moves
const [ALIVE, EMPTY, MERGE, DISORDER, SUM] = [200_000, 270, 700, 47, 11];
const CHANCE_OF_TWO = 1 - CHANCE_OF_FOUR;
const float = Math.fround;

const LEFT = new Uint16Array(1 << 16);
const RIGHT = new Uint16Array(1 << 16);
const OUTGROWS = new Uint8Array(1 << 16); // whether a slide makes a tile that no row can hold
const WORTH = new Float32Array(1 << 16);
for (let row = 0; row < 1 << 16; row += 1) {
  const cells = [row & 15, (row >> 4) & 15, (row >> 8) & 15, row >> 12];
  LEFT[row] = packed(slid(cells));
  RIGHT[row] = packed(slid([...cells].reverse()).reverse());
  OUTGROWS[row] = slid(cells).includes(LARGEST_EXPONENT + 1);
  WORTH[row] = worthOfLine(cells);
}

function slid(cells) {
  const tiles = cells.filter(Boolean);
  const found = [];
  for (let i = 0; i < tiles.length; i += 1) {
    const merges = tiles[i] === tiles[i + 1];
    found.push(merges ? tiles[i] + 1 : tiles[i]);
    if (merges) i += 1;
  }
  while (found.length < 4) found.push(0);
  return found;
}

function packed(cells) {
  return cells.reduce((row, exponent, i) => row | (Math.min(exponent, LARGEST_EXPONENT) << (4 * i)), 0);
}

/** What Moravek's heuristic says a line is worth. */
function worthOfLine(cells) {
  const tiles = cells.filter(Boolean);
  const isEqual = tiles.map((tile, i) => tile === tiles[i + 1]);
  const merges = isEqual.reduce((sum, equal, i) => sum + (equal ? (isEqual[i - 1] ? 1 : 2) : 0), 0);
  const falls = [0, 1, 2].map((i) => cells[i] ** 4 - cells[i + 1] ** 4);
  const sumOf = (numbers) => numbers.reduce((sum, each) => sum + Math.max(0, each), 0);
  const disorder = Math.min(sumOf(falls), sumOf(falls.map((each) => -each)));
  const large = sumOf(cells.map((exponent) => exponent ** 3 * Math.sqrt(exponent)));
  return ALIVE + EMPTY * (4 - tiles.length) + MERGE * merges - DISORDER * disorder - SUM * large;
}

/** Columns of rows, or rows of columns. */
function turned([a, b, c, d], into = [0, 0, 0, 0]) {
  for (let i = 0; i < 4; i += 1) {
    const at = 4 * i;
    into[i] = ((a >> at) & 15) | (((b >> at) & 15) << 4) | (((c >> at) & 15) << 8) | (((d >> at) & 15) << 12);
  }
  return into;
}

function sumOfLines([a, b, c, d]) {
  return float(float(float(WORTH[a] + WORTH[b]) + WORTH[c]) + WORTH[d]);
}

const sumOfBoard = (rows) => float(sumOfLines(rows) + sumOfLines(turned(rows)));

/** The board slid up, right, down or left. */
function slidBoard(rows, move) {
  const table = move === 0 || move === 3 ? LEFT : RIGHT;
  if (move % 2) return rows.map((row) => table[row]);
  return turned(turned(rows).map((column) => table[column]));
}

const isSame = (rows, others) => rows.every((row, i) => row === others[i]);

const sumOfTiles = (exponents) => exponents.reduce((sum, exponent) => sum + (exponent ? 2 ** exponent : 0), 0);

/** The board with its larger tiles halved where that changes no merge, as `downgrading.py` of the player does it. */
function downgraded(board) {
  while (sumOfTiles(board) > MOST) {
    const largest = Math.max(...board);
    const absent = Array.from({ length: largest - 1 }, (_, i) => largest - 1 - i).filter((size) => !board.includes(size));
    let free = absent.find((size) => sumOfTiles(board.filter((exponent) => exponent < size)) + SPAWNED < 2 ** size);
    if (free === undefined) {
      if (largest <= LARGEST_EXPONENT) break;
      if (!absent.length) return LOST; // sixteen different tiles
      free = absent[0];
    }
    board = board.map((exponent) => exponent - (exponent > free ? 1 : 0));
  }
  return board;
}

/**
 * The move of the search on a board.
 *
 * @param {number[]} board 16 exponents
 * @param {{depth: number, cutoff: number}} options moves to look ahead, at least 1; less likely branches are cut off
 * @returns {import("./server.js").Answer}
 */
function searched(board, { depth, cutoff }) {
  const small = downgraded(board);
  const rows = [0, 4, 8, 12].map((first) => packed(small.slice(first, first + 4)));
  const values = [0, 1, 2, 3].map((move) => {
    const after = slidBoard(rows, move);
    if ((move % 2 ? rows : turned(rows)).some((line) => OUTGROWS[line])) return sumOfBoard(after);
    if (isSame(after, rows)) return -Infinity;
    if (depth === 1 || cutoff > 1) return sumOfBoard(after);
    return new Search(cutoff).expected(after, depth - 1, 1);
  });
  const legal = values.map(Number.isFinite);
  const move = legal.includes(true) ? values.indexOf(Math.max(...values)) : -1;
  return { move, legal, values: values.map((value, i) => (legal[i] ? value : null)), depth: move < 0 ? 0 : depth, views: null };
}

/** The search of one move, which remembers the afterstates that it has searched. */
class Search {
  constructor(cutoff) {
    this._cutoff = float(cutoff);
    this._known = new Map(); // by the upper rows, then by the lower ones
  }

  /** The mean over the new tiles of the best move's worth; `depth` is above 0. */
  expected(rows, depth, probability) {
    const upper = rows[0] | (rows[1] << 16);
    const lower = rows[2] | (rows[3] << 16);
    if (!this._known.has(upper)) this._known.set(upper, new Map());
    const known = this._known.get(upper);
    const found = known.get(lower);
    if (found?.depth >= depth) return found.worth;
    let empty = 0;
    for (let cell = 0; cell < 16; cell += 1) empty += (rows[cell >> 2] >> (4 * (cell & 3))) & 15 ? 0 : 1;
    const share = float(probability / empty);
    const [ofTwo, ofFour] = [float(share * float(CHANCE_OF_TWO)), float(share * float(CHANCE_OF_FOUR))];
    let sum = 0;
    if (depth === 1 || ofTwo < this._cutoff) {
      sum = lastMoves(rows, 1);
    } else {
      const fours = ofFour >= this._cutoff;
      if (!fours) sum = lastMoves(rows, 2);
      for (let cell = 0; cell < 16; cell += 1) {
        if ((rows[cell >> 2] >> (4 * (cell & 3))) & 15) continue;
        sum += CHANCE_OF_TWO * this._best(rows, cell, 1, depth, ofTwo);
        if (fours) sum += CHANCE_OF_FOUR * this._best(rows, cell, 2, depth, ofFour);
      }
    }
    sum /= empty;
    known.set(lower, { depth, worth: float(sum) });
    return sum;
  }

  /** The worth of the best move after a new tile; 0 if the game is over. */
  _best(rows, cell, exponent, depth, likely) {
    const board = [...rows];
    board[cell >> 2] |= exponent << (4 * (cell & 3));
    let best = 0;
    for (const move of [0, 2, 3, 1]) { // in this order, which decides what is known already
      const after = slidBoard(board, move);
      if (!isSame(after, board)) best = Math.max(best, this.expected(after, depth - 1, likely));
    }
    return best;
  }
}

/** A board slid in each direction: its lines, what crosses them, which lines have changed, and the lines' worth. */
const SLIDES = [LEFT, RIGHT, LEFT, RIGHT].map((table) => ({ table, lines: [0, 0, 0, 0], crossing: [0, 0, 0, 0], changed: 0, worth: 0 }));
const columns = [0, 0, 0, 0];

/**
 * The sum over the new tiles, from `least` on, of their chance times the worth of the best move.
 *
 * Most of the time goes here. A new tile changes one row and one column; so the board is slid once without it.
 */
function lastMoves(rows, least) {
  turned(rows, columns);
  SLIDES.forEach((slide, i) => slideAll(slide, i < 2 ? rows : columns));
  const [left, right, up, down] = SLIDES;
  let total = 0;
  for (let row = 0; row < 4; row += 1) {
    for (let column = 0; column < 4; column += 1) {
      if ((rows[row] >> (4 * column)) & 15) continue;
      for (let exponent = least; exponent < 3; exponent += 1) {
        const across = rows[row] | (exponent << (4 * column));
        const along = columns[column] | (exponent << (4 * row));
        const best = Math.max(
          worthWith(left, across, row),
          worthWith(right, across, row),
          worthWith(up, along, column),
          worthWith(down, along, column),
        );
        total += (exponent === 1 ? CHANCE_OF_TWO : CHANCE_OF_FOUR) * Math.max(0, best);
      }
    }
  }
  return total;
}

function slideAll(slide, lines) {
  slide.changed = 0;
  for (let i = 0; i < 4; i += 1) {
    slide.lines[i] = slide.table[lines[i]];
    if (slide.lines[i] !== lines[i]) slide.changed |= 1 << i;
  }
  turned(slide.lines, slide.crossing);
  slide.worth = sumOfLines(slide.lines);
}

/** The worth of a slid board whose line `at` is another one; 0 if the slide changes nothing. */
function worthWith({ table, lines, crossing, changed, worth }, line, at) {
  const fresh = table[line];
  if (fresh === line && !(changed & ~(1 << at))) return 0;
  const shift = 4 * at;
  const others = ~(15 << shift);
  const sum = float(
    float(
      float(WORTH[(crossing[0] & others) | ((fresh & 15) << shift)] + WORTH[(crossing[1] & others) | (((fresh >> 4) & 15) << shift)]) +
        WORTH[(crossing[2] & others) | (((fresh >> 8) & 15) << shift)],
    ) + WORTH[(crossing[3] & others) | ((fresh >> 12) << shift)],
  );
  return float(float(float(worth - WORTH[lines[at]]) + WORTH[fresh]) + sum);
}

addEventListener("message", ({ data: { id, search, boards } }) => {
  postMessage({ id, answers: boards.map((board) => searched(board, search)) });
});
