/** The eight symmetries of the square, with the numbers of `octofold_game/symmetries.py`. */

const turned = (cells) => cells.map((_, i) => cells[(i % 4) * 4 + 3 - Math.floor(i / 4)]);
const mirrored = (cells) => cells.map((_, i) => cells[Math.floor(i / 4) * 4 + 3 - (i % 4)]);

const BOARD = Array.from({ length: 16 }, (_, i) => i);
const turns = (first) => {
  const found = [first];
  while (found.length < 4) found.push(turned(found.at(-1)));
  return found;
};

/** Cell `i` of view `s` is cell `CELLS[s][i]` of the board. */
export const CELLS = [...turns(BOARD), ...turns(mirrored(BOARD))];

const STEPS = [-4, 1, 4, -1]; // steps between cell numbers: up, right, down, left

/** Move `m` on the board is move `MOVES[s][m]` on view `s`. */
export const MOVES = CELLS.map((cells) =>
  STEPS.map((step) => STEPS.indexOf(cells.indexOf(5 + step) - cells.indexOf(5))),
);

/** The symmetries of a model's views, by the number of views. */
export const VIEWS = { 8: [0, 1, 2, 3, 4, 5, 6, 7], 4: [0, 1, 2, 3], 2: [0, 2], 1: [0] };

/** A board under a symmetry. */
export const viewOf = (board, symmetry) => CELLS[symmetry].map((cell) => board[cell]);
