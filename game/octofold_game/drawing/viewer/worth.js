/** What moves are worth to a model that has values, points or a chance of success, and which moves are mistakes. */

/**
 * How the values of a unit are compared and told. From `costly` on, a move is a mistake: the same for all games.
 * `isPositive`: no value is below 0, so that the ratio of two means something.
 */
const UNITS = {
  points: { costly: 1000, isPositive: true, most: Infinity },
  "chance of success": { costly: 0.01, isPositive: true, most: 1 },
};

const LEAST = 1e-38; // of float32's probabilities

/** The unit of a model's values that costs can be told in; undefined if the model has only probabilities. */
export const unitOf = (model) =>
  // A value head has a unit, too, but no values of moves.
  model && (model.player || model.temperature) && Object.hasOwn(UNITS, model.value_unit) ? model.value_unit : undefined;

/** From this cost on, a move counts as a mistake. */
export const costlyFrom = (unit) => UNITS[unit]?.costly ?? 0;

/** The largest value that there can be. */
export const mostOf = (unit) => UNITS[unit].most;

/**
 * The worth of the four moves.
 *
 * A network that values moves tells probabilities alone, the softmax of the values at its temperature. They give
 * back how the values differ, but not how large they are; and no difference above 87 temperatures, where float32 ends.
 *
 * @param {object} model
 * @param {import("./server.js").Answer} answer
 * @returns {{unit: string, values: number[], isWhole: boolean}|null} `-Infinity` for moves that are not legal;
 *   `isWhole`: the values themselves, not only their differences from the best; null for a model without values
 */
export function worthOf(model, answer) {
  const unit = unitOf(model);
  if (!unit || answer.move < 0) return null;
  if (answer.values) {
    const values = answer.values.map((value, move) => (answer.legal[move] ? (value ?? -Infinity) : -Infinity));
    return values.some(Number.isFinite) ? { unit, values, isWhole: true } : null; // a table gives a move alone
  }
  if (!model.temperature) return null;
  const best = Math.log(Math.max(...answer.probabilities));
  const values = answer.probabilities.map((share, move) =>
    answer.legal[move] ? model.temperature * (Math.log(Math.max(share, LEAST)) - best) : -Infinity,
  );
  return { unit, values, isWhole: false };
}

/** What a move costs: the best value less its own; never below 0. */
export const costOf = ({ values }, move) => Math.max(0, Math.max(...values) - values[move]);

/** A cost for people: "310 points", "2.1% of success". */
export function costText(unit, cost) {
  if (unit === "points") return `${worthText(unit, cost)} ${Math.round(cost) === 1 ? "point" : "points"}`;
  return `${worthText(unit, cost)} chance of success`;
}

/** A value for people: "12,310", "97.2%". */
export function worthText(unit, value) {
  if (unit === "points") return Math.round(value).toLocaleString("en-US");
  const share = value * 100;
  return `${share > 0 && share < 99.95 ? share.toFixed(share < 1 ? 2 : 1) : Math.round(share)}%`;
}

/** The threshold in words, as it stands beside figures. */
export const thresholdText = (unit) =>
  unit === "points" ? `${costlyFrom(unit).toLocaleString("en-US")} points` : `${costlyFrom(unit) * 100} percentage point of the chance of success`;

/** Whether somebody would have made another move; of a `Verdict` of `study.js`, like the next two. */
export const isDisputed = ({ played, model, judge }) => model !== played || (judge >= 0 && judge !== played);

/** Whether a move costs so much that it is a mistake, in the unit of who judges. */
export const isMistake = ({ cost }, unit) => unit !== undefined && cost !== null && cost >= costlyFrom(unit);

/** The move that who judges would have made. */
export const better = ({ model, judge }) => (judge >= 0 ? judge : model);
