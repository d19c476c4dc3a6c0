/** The notebook of exercises: positions with their best move and counts of tries, kept in the browser. */

import { isKept, store, stored } from "../storage.js";

/** The browser's storage key of the notebook. */
export const KEY = "octofold.notebook";
const FORMAT = "octofold-notebook-1";
const MOST = 500;
/** Message of a full notebook. */
export const FULL = `The notebook is full: it holds ${MOST} exercises.`;
/** Message of a notebook that the browser does not keep. */
export const UNKEPT = "This browser keeps nothing more: the notebook ends with the tab.";
/** An exercise is learned when it is solved this many times in a row. */
export const LEARNED = 2;

const NEW = { tries: 0, solved: 0, streak: 0, seen: 0 };

/**
 * @typedef {object} Exercise
 * @property {string} board sixteen digits
 * @property {number} better the best move, by `judge`
 * @property {number[]|null} costs of the four moves, null for those that are not legal; null without values
 * @property {string} unit of the costs, with the largest cost that the judge can tell, `ceiling`
 * @property {number} costly the cost from which on a move is a mistake; 0 if only the best move is right
 * @property {string} judge
 * @property {string} source where the position comes from
 * @property {number} tries
 * @property {number} solved
 * @property {number} streak solved in a row
 * @property {number} seen when it was last tried, in milliseconds; 0 for never
 */

/** A list of exercises that saves itself. Other tabs change it, too, so each change begins with the saved
 * list. */
export class Notebook {
  constructor() {
    /** @type {Exercise[]} */
    this.exercises = [];
    this.read();
  }

  /** Load the saved exercises. */
  read() {
    const kept = JSON.parse(stored(KEY) ?? "{}");
    if (kept.format !== FORMAT) return; // nothing is kept, or it has another version
    // JSON has no infinity.
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

  /** Add new positions; returns how many were new. The notebook holds 500. */
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
    if (!kept) return; // removed in another tab
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

  /** The next exercise: first those that are not learned, the one seen longest ago first; then the others. */
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

/** Exercises are the same if their boards are. */
const isOf = (exercise) => (other) => other.board === exercise?.board;
