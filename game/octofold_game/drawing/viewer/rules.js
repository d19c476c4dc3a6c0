/**
 * The rules of 2048 on one board, as `octofold_game/rules.py` has them for many.
 *
 * A board is 16 exponents, row by row from the top left: 0 is an empty cell, 1 the tile 2. Moves are 0 up,
 * 1 right, 2 down, 3 left.
 */

export const MOVE_NAMES = ["up", "right", "down", "left"];
export const LARGEST_EXPONENT = 17;

/** For each move, the cells of its four lines, beginning at the edge to which tiles slide. */
const LINES = [0, 1, 2, 3].map((move) =>
  [0, 1, 2, 3].map((line) =>
    [0, 1, 2, 3].map((place) => {
      const far = 3 - place;
      return [place * 4 + line, line * 4 + far, far * 4 + line, line * 4 + place][move];
    }),
  ),
);

/**
 * Make a move.
 *
 * @param {number[]} board 16 exponents
 * @param {number} move 0 to 3
 * @returns {{board: number[], reward: number, legal: boolean, steps: {from: number, to: number, merges: boolean}[]}}
 *   the afterstate, the merge reward, whether the board changed, and the path of every tile
 */
export function slide(board, move) {
  const after = new Array(16).fill(0);
  const steps = [];
  let reward = 0;
  for (const line of LINES[move]) {
    let place = 0;
    let open = 0; // exponent of the last tile if it may still merge
    for (const from of line) {
      const exponent = board[from];
      if (!exponent) continue;
      const merges = exponent === open;
      if (merges) {
        after[line[place - 1]] = exponent + 1;
        reward += 2 ** (exponent + 1);
        steps.push({ from, to: line[place - 1], merges });
        open = 0;
      } else {
        after[line[place]] = exponent;
        steps.push({ from, to: line[place], merges });
        open = exponent;
        place += 1;
      }
    }
  }
  const legal = steps.some((step) => step.merges || step.from !== step.to);
  return { board: after, reward, legal, steps };
}

/**
 * Whether each move is legal.
 *
 * @param {number[]} board 16 exponents
 * @returns {boolean[]} four values; none is true if the game is over
 */
export function legalMoves(board) {
  return [0, 1, 2, 3].map((move) => slide(board, move).legal);
}

/** The tile of an exponent: 2048 for 11. */
export const tileOf = (exponent) => (exponent ? 2 ** exponent : 0);

/** The largest exponent on a board. */
export const largestOf = (board) => board.reduce((most, each) => Math.max(most, each), 0);
