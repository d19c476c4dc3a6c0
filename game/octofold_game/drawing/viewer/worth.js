/** What moves are worth to a model that has values, points or a chance of success, and which moves are mistakes. */

/** The largest value in each unit. */
const MOST = { points: Infinity, "chance of success": 1 };

/** From this share of the score to expect on, or of a certain success, a cost makes a move a mistake. */
const MISTAKE = 0.01;

const LEAST = 1e-38; // of float32's probabilities

/**
 * @typedef {object} Scale the unit of a model's costs
 * @property {string} unit
 * @property {number} ceiling the largest cost that it can tell; a move may cost more
 */

/**
 * The scale of a model's costs; undefined if the model has only probabilities.
 *
 * A network that values moves tells probabilities alone, the softmax of the values at its temperature. They give
 * back how the values differ, up to where float32 ends; the two leading digits of that are the ceiling.
 *
 * @returns {Scale|undefined}
 */
export function scaleOf(model) {
  // A value head has a unit, too, but no values of moves.
  if (!model || !(model.player || model.temperature) || !Object.hasOwn(MOST, model.value_unit)) return undefined;
  if (model.player) return { unit: model.value_unit, ceiling: Infinity };
  const most = -model.temperature * Math.log(LEAST);
  const digit = 10 ** (Math.floor(Math.log10(most)) - 1);
  return { unit: model.value_unit, ceiling: digit * Math.floor(most / digit) };
}

/** The largest value that there can be. */
export const mostOf = ({ unit }) => MOST[unit];

/**
 * The worth of the four moves.
 *
 * @param {object} model
 * @param {import("./server.js").Answer} answer
 * @returns {{scale: Scale, values: number[], isWhole: boolean}|null} `-Infinity` for moves that are not legal;
 *   `isWhole`: the values themselves, not only their differences from the best; null for a model without values
 */
export function worthOf(model, answer) {
  const scale = scaleOf(model);
  if (!scale || answer.move < 0) return null;
  if (answer.values) {
    const values = answer.values.map((value, move) => (answer.legal[move] ? (value ?? -Infinity) : -Infinity));
    return values.some(Number.isFinite) ? { scale, values, isWhole: true } : null; // a table gives a move alone
  }
  if (!model.temperature) return null;
  const best = Math.log(Math.max(...answer.probabilities));
  const values = answer.probabilities.map((share, move) =>
    answer.legal[move] ? Math.max(-scale.ceiling, model.temperature * (Math.log(share) - best)) : -Infinity,
  );
  return { scale, values, isWhole: false };
}

/** What a move costs: the best value less its own; never below 0. */
export const costOf = ({ values }, move) => Math.max(0, Math.max(...values) - values[move]);

/**
 * The cost from which on a move is a mistake.
 *
 * @param {{scale: Scale, values: number[], isWhole: boolean}} worth
 * @param {number} score of the board
 * @param {number} usual the average score of the judge, for a judge without whole values
 */
export function costlyFrom({ scale, values, isWhole }, score, usual) {
  const most = mostOf(scale);
  if (most < Infinity) return MISTAKE * most;
  return MISTAKE * (isWhole ? score + Math.max(...values) : Math.max(score, usual));
}

/** A cost for people: "310 points", "at least 26,000 points", "2.1% chance of success". */
export function costText(scale, cost) {
  const unit = scale.unit === "points" && Math.round(cost) === 1 ? "point" : scale.unit;
  return `${cost >= scale.ceiling ? "at least " : ""}${worthText(scale, cost)} ${unit}`;
}

/** A value for people: "12,310", "97.2%". */
export function worthText({ unit }, value) {
  if (unit === "points") return Math.round(value).toLocaleString("en-US");
  const share = value * 100;
  return `${share > 0 && share < 99.95 ? share.toFixed(share < 1 ? 2 : 1) : Math.round(share)}%`;
}

/** From where on a cost is a mistake, in words, as they stand beside figures. */
export const thresholdText = ({ unit }) =>
  unit === "points" ? `${MISTAKE * 100}% of the score to expect` : `${MISTAKE * 100} percentage point of the chance of success`;

/** Whether the model or the judge prefers another move; takes a `Verdict` of `study.js`. */
export const isDisputed = ({ played, model, judge }) => model !== played || (judge >= 0 && judge !== played);

/** Whether a move costs so much that it is a mistake. */
export const isMistake = ({ cost, costly }) => cost > 0 && cost >= costly;

/** The mistakes among the verdicts on a game, the worst first; where the judge cannot tell that, the later one. */
export const mistakesOf = (verdicts) =>
  verdicts
    .map((verdict, move) => ({ verdict, move }))
    .filter(({ verdict }) => isMistake(verdict))
    .sort((a, b) => b.verdict.cost - a.verdict.cost || b.move - a.move);

/** The move that the judge prefers, or the model if there is no judge. */
export const better = ({ model, judge }) => (judge >= 0 ? judge : model);
