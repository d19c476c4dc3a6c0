/** The worth of moves by a model with values (points or a chance of success), and the mistakes among them. */

/** The largest value in each unit. */
const MOST = { points: Infinity, "chance of success": 1 };

/** A move is a mistake if it costs at least this share of the expected score, or of certain success. */
const MISTAKE = 0.01;

const LEAST = 1e-38; // smallest probability of float32

/**
 * @typedef {object} Scale the unit of a model's costs
 * @property {string} unit
 * @property {number} ceiling the largest cost that can be determined; a move may cost more
 */

/**
 * The scale of a model's costs; undefined if the model has only probabilities.
 *
 * A network that values moves only returns probabilities, the softmax of its values at its temperature. They
 * reveal the differences of the values within the range of float32. The ceiling is this range, rounded to two
 * digits.
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

/** The largest possible value in a unit. */
export const mostOf = ({ unit }) => MOST[unit];

/**
 * The worth of the four moves.
 *
 * @param {object} model
 * @param {import("./server.js").Answer} answer
 * @returns {{scale: Scale, values: number[], isWhole: boolean}|null} `-Infinity` for moves that are not
 *   legal; `isWhole`: whether these are the values themselves, not only their differences from the best; null
 *   without values
 */
export function worthOf(model, answer) {
  const scale = scaleOf(model);
  if (!scale || answer.move < 0) return null;
  if (answer.values) {
    const values = answer.values.map((value, move) => (answer.legal[move] ? (value ?? -Infinity) : -Infinity));
    return values.some(Number.isFinite) ? { scale, values, isWhole: true } : null; // a table gives only a move
  }
  if (!model.temperature) return null;
  const best = Math.log(Math.max(...answer.probabilities));
  const values = answer.probabilities.map((share, move) =>
    answer.legal[move] ? Math.max(-scale.ceiling, model.temperature * (Math.log(share) - best)) : -Infinity,
  );
  return { scale, values, isWhole: false };
}

/** The cost of a move: the best value minus its own; never below 0. */
export const costOf = ({ values }, move) => Math.max(0, Math.max(...values) - values[move]);

/**
 * The minimum cost of a mistake.
 *
 * @param {{scale: Scale, values: number[], isWhole: boolean}} worth
 * @param {number} score of the board
 * @param {number} usual the average score of the judge, used without complete values
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

/** The threshold of a mistake in words, shown next to figures. */
export const thresholdText = ({ unit }) =>
  unit === "points" ? `${MISTAKE * 100}% of the score to expect` : `${MISTAKE * 100} percentage point of the chance of success`;

/** Whether the model or the judge prefers another move than the one that was played. */
export const isDisputed = ({ played, model, judge }) => model !== played || (judge >= 0 && judge !== played);

/** Whether a move costs so much that it is a mistake. */
export const isMistake = ({ cost, costly }) => cost > 0 && cost >= costly;

/** The mistakes among the verdicts on a game, the worst first; of equal ones, the latest first. */
export const mistakesOf = (verdicts) =>
  verdicts
    .map((verdict, move) => ({ verdict, move }))
    .filter(({ verdict }) => isMistake(verdict))
    .sort((a, b) => b.verdict.cost - a.verdict.cost || b.move - a.move);

/** The move that the judge prefers; without a judge, the move that the model prefers. */
export const better = ({ model, judge }) => (judge >= 0 ? judge : model);
