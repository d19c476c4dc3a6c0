/**
 * New tiles, from the counter-based generator of `octofold_game/spawns.py`: the same seed and game give the same
 * tiles here, in `octofold evaluate`, and in a replay.
 */

const GAMMA = 0x9e3779b97f4a7c15n;
const MASK = (1n << 64n) - 1n;
export const CHANCE_OF_FOUR = 0.1;
const FOUR = BigInt(Math.ceil(CHANCE_OF_FOUR * 2 ** 32));

/** The finalizer of splitmix64. */
function mixed(word) {
  let z = word & MASK;
  z = ((z ^ (z >> 30n)) * 0xbf58476d1ce4e5b9n) & MASK;
  z = ((z ^ (z >> 27n)) * 0x94d049bb133111ebn) & MASK;
  return z ^ (z >> 31n);
}

const output = (state, index) => mixed(state + (BigInt(index) + 1n) * GAMMA);

/**
 * The random bits of every spawn of one game.
 *
 * @param {bigint|number} seed 0 to 2 ** 64 - 1
 * @param {bigint|number} game the number of the game among those of the seed
 * @returns {(spawn: number) => bigint} 64 bits for the number of a spawn; 0 and 1 are the starting tiles
 */
export function spawnStream(seed, game) {
  const state = output(mixed(BigInt(seed)), game);
  return (spawn) => output(state, spawn);
}

/**
 * The tile that random bits add to a board.
 *
 * @param {number[]} board an afterstate with an empty cell
 * @param {bigint} bits 64 random bits
 * @returns {{cell: number, exponent: number}}
 */
export function chooseSpawn(board, bits) {
  const empty = [];
  board.forEach((exponent, cell) => exponent || empty.push(cell));
  const chosen = Number(((bits >> 32n) * BigInt(empty.length)) >> 32n);
  return { cell: empty[chosen], exponent: (bits & 0xffffffffn) < FOUR ? 2 : 1 };
}
