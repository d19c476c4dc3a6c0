/** One game: its board, score and moves, with undo. */

import { LARGEST_EXPONENT, largestOf, legalMoves, slide } from "../../viewer/rules.js";
import { chooseSpawn, spawnStream } from "./spawns.js";

/** A game of a seed, or a game that begins with a given board. */
export class Game {
  /**
   * @param {bigint} seed of the new tiles
   * @param {{game?: number, start?: number[]}} options `game` is the number of the game among those of its seed;
   *   `start` is the initial board; by default, it has two tiles
   */
  constructor(seed, { game = 0, start } = {}) {
    this.seed = BigInt(seed);
    this.game = game;
    this.score = 0;
    /** @type {{move: number, cell: number, exponent: number}[]} */
    this.moves = [];
    this._bits = spawnStream(this.seed, game);
    this._before = []; // board and score before each move
    this.board = start ? [...start] : new Array(16).fill(0);
    for (let spawn = 0; !start && spawn < 2; spawn += 1) this._add(chooseSpawn(this.board, this._bits(spawn)));
    this.start = [...this.board];
  }

  /** @returns {boolean[]} which moves are legal */
  get legal() {
    return largestOf(this.board) > LARGEST_EXPONENT ? [false, false, false, false] : legalMoves(this.board);
  }

  get isOver() {
    return !this.legal.includes(true);
  }

  get canUndo() {
    return this._before.length > 0;
  }

  /**
   * Make a move.
   *
   * @param {number} move 0 to 3
   * @returns {{steps: object[], reward: number, spawn: {cell: number, exponent: number}}|null} the effects of
   *   the move; null if it is illegal
   */
  play(move) {
    const { board, reward, legal, steps } = slide(this.board, move);
    if (!legal || this.isOver) return null;
    this._before.push({ board: this.board, score: this.score });
    const spawn = chooseSpawn(board, this._bits(this.moves.length + 2));
    this.board = board;
    this._add(spawn);
    this.score += reward;
    this.moves.push({ move, ...spawn });
    return { steps, reward, spawn };
  }

  /** Take the last move back. The same move then brings the same tile again. */
  undo() {
    const before = this._before.pop();
    if (!before) return false;
    Object.assign(this, before);
    this.moves.pop();
    return true;
  }

  /** The game as a record, like those that `replays.js` reads from files. */
  record() {
    const { seed, game, score, start, moves } = this;
    return { seed, game, score, start, length: moves.length, moves: [...moves], finalBoard: [...this.board] };
  }

  _add({ cell, exponent }) {
    this.board = this.board.map((each, i) => (i === cell ? exponent : each));
  }
}

/** A random seed below 2 ** 32: short enough to read aloud. */
export const randomSeed = () => BigInt(crypto.getRandomValues(new Uint32Array(1))[0]);
