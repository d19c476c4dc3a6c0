/** The notebook of exercises: positions with their best move and counts of tries, kept in the browser. */

import { isKept, store, stored } from "../storage.js";

/** The browser's storage key of the notebook. */
export const KEY = "octofold.notebook";
const FORMAT = "octofold-notebook-1";
const MOST = 500;
/** The message that the notebook is full. */
export const FULL = `The notebook is full: it holds ${MOST} exercises.`;
/** The message that the browser cannot store the notebook. */
export const UNKEPT = "The browser cannot store the notebook, so it is lost when you close the tab.";
/** The number of times in a row that an exercise must be solved to count as learned. */
export const LEARNED = 2;

const NEW = { tries: 0, solved: 0, streak: 0, seen: 0 };

/**
 * @typedef {object} Exercise
 * @property {string} board the board as sixteen digits
 * @property {number} better the best move, by `judge`
 * @property {number[]|null} costs the costs of the four moves, null for illegal moves; null if they are not known
 * @property {string} unit the unit of the costs
 * @property {number} ceiling the largest cost that the judge can give
 * @property {number} costly the cost from which a move is a mistake; 0 if only the best move is right
 * @property {string} judge the name of the model that knows the best move
 * @property {string} source the origin of the position
 * @property {number} tries the number of tries
 * @property {number} solved the number of tries that solved the exercise
 * @property {number} streak the number of successes in a row since the last failure
 * @property {number} seen the time of the last try in milliseconds; 0 for never
 */

/** A list of exercises that saves its changes. Other tabs may change it, too, so a change first reads the saved list. */
export class Notebook {
  constructor() {
    /** @type {Exercise[]} */
    this.exercises = [];
    this.read();
  }

  /** Load the saved exercises. */
  read() {
    const kept = JSON.parse(stored(KEY) ?? "{}");
    if (kept.format !== FORMAT) return; // nothing is saved, or the format has another version
    // An infinite ceiling is null in JSON.
    this.exercises = kept.exercises.map((each) => ({ ...NEW, ...each, ceiling: each.ceiling ?? Infinity }));
  }

  /** Whether the browser keeps the notebook. */
  get isKept() {
    return isKept(KEY);
  }

  /** Whether there is no room for another exercise. */
  get isFull() {
    return this.exercises.length >= MOST;
  }

  /** Add exercises as far as there is room, without those that are known; returns how many were added. */
  add(exercises) {
    this.read();
    const known = new Set(this.exercises.map(({ board }) => board));
    const fresh = exercises.filter(({ board }) => !known.has(board) && known.add(board));
    const added = fresh.slice(0, Math.max(0, MOST - this.exercises.length));
    this.exercises.push(...added.map((each) => ({ ...NEW, ...each })));
    this._keep();
    return added.length;
  }

  /** Count a try. */
  count(exercise, isSolved) {
    this.read();
    const kept = this.exercises.find(isOf(exercise));
    if (!kept) return; // another tab has removed the exercise
    kept.tries += 1;
    kept.solved += isSolved ? 1 : 0;
    kept.streak = isSolved ? kept.streak + 1 : 0;
    kept.seen = Date.now();
    this._keep();
  }

  remove(exercise) {
    this.read();
    this.exercises = this.exercises.filter((each) => !isOf(exercise)(each));
    this._keep();
  }

  /** The exercise that was tried longest ago, if possible one that is not learned, and not `except`. */
  next(except) {
    const rank = ({ streak, seen }) => (streak >= LEARNED ? 1e15 : 0) + seen;
    const others = this.exercises.filter((each) => !isOf(except)(each));
    return [...(others.length ? others : this.exercises)].sort((a, b) => rank(a) - rank(b))[0];
  }

  get progress() {
    const sum = (name) => this.exercises.reduce((total, each) => total + each[name], 0);
    const learned = this.exercises.filter(({ streak }) => streak >= LEARNED).length;
    return { count: this.exercises.length, learned, tries: sum("tries"), solved: sum("solved") };
  }

  _keep() {
    store(KEY, JSON.stringify({ format: FORMAT, exercises: this.exercises }));
  }
}

/** Whether two exercises have the same board. */
const isOf = (exercise) => (other) => other.board === exercise?.board;
