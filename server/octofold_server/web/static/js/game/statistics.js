/** Averages with intervals, and histograms, of the scores of games. */

const NORMAL_95 = 1.96;

/** The largest of many numbers, or `least`; as arguments of one call, a million would be too many. */
export const largestIn = (numbers, least = -Infinity) =>
  numbers.reduce((most, number) => (number > most ? number : most), least);

/** The smallest of many numbers. */
export const smallestIn = (numbers) => -largestIn(numbers.map((number) => -number));

/**
 * Average, best, and the normal 95% interval of the average.
 *
 * @param {number[]} scores
 * @returns {{count: number, average: number, margin: number|null, median: number, best: number}}
 *   the margin is null for less than two scores
 */
export function summarize(scores) {
  const count = scores.length;
  if (!count) return { count, average: 0, margin: null, median: 0, best: 0 };
  const average = scores.reduce((sum, score) => sum + score, 0) / count;
  const squares = scores.reduce((sum, score) => sum + (score - average) ** 2, 0);
  const sorted = [...scores].sort((a, b) => a - b);
  const middle = Math.floor(count / 2);
  return {
    count,
    average,
    margin: count > 1 ? NORMAL_95 * Math.sqrt(squares / (count - 1) / count) : null,
    median: count % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2,
    best: sorted[count - 1],
  };
}

/**
 * Average and margin after each game, for a picture of how they settle.
 *
 * @param {number[]} scores in the order in which the games finished
 * @returns {{average: number, margin: number}[]}
 */
export function running(scores) {
  let average = 0;
  let squares = 0;
  return scores.map((score, index) => {
    const before = average;
    average += (score - average) / (index + 1); // Welford's method
    squares += (score - before) * (score - average);
    const margin = index ? NORMAL_95 * Math.sqrt(squares / index / (index + 1)) : 0;
    return { average, margin };
  });
}

/**
 * A histogram with bins of a round width.
 *
 * @param {number[]} scores
 * @param {number} wanted about how many bins
 * @returns {{width: number, counts: number[]}} bin `i` counts the scores from `i * width` on
 */
export function histogram(scores, wanted = 24) {
  const most = largestIn(scores, 1);
  const raw = most / wanted;
  const power = 10 ** Math.floor(Math.log10(raw));
  const width = Math.max(1, power * ([1, 2, 5, 10].find((step) => step * power >= raw) ?? 10));
  const counts = new Array(Math.floor(most / width) + 1).fill(0);
  for (const score of scores) counts[Math.floor(score / width)] += 1;
  return { width, counts };
}

/**
 * Wilson's 95% interval of a share.
 *
 * @param {number} hits
 * @param {number} count at least 1
 * @returns {[number, number]}
 */
export function wilson(hits, count) {
  const z2 = NORMAL_95 ** 2;
  const share = hits / count;
  const center = (share + z2 / (2 * count)) / (1 + z2 / count);
  const half =
    (NORMAL_95 / (1 + z2 / count)) * Math.sqrt((share * (1 - share)) / count + z2 / (4 * count ** 2));
  return [Math.max(0, center - half), Math.min(1, center + half)];
}

/**
 * The difference of the averages of two players, with its 95% margin: game by game where both played the same games.
 *
 * @param {{seed: bigint, game: number, score: number}[]} first
 * @param {{seed: bigint, game: number, score: number}[]} second
 * @returns {{difference: number, margin: number|null, isPaired: boolean, count: number}}
 */
export function differenceOf(first, second) {
  const keyOf = ({ seed, game }) => `${seed}/${game}`;
  const scores = new Map(second.map((each) => [keyOf(each), each.score]));
  const common = first.filter((each) => scores.has(keyOf(each)));
  if (common.length > 1) {
    const { average, margin } = summarize(common.map((each) => each.score - scores.get(keyOf(each))));
    return { difference: average, margin, isPaired: true, count: common.length };
  }
  const [a, b] = [first, second].map((games) => summarize(games.map(({ score }) => score)));
  const margin = a.margin === null || b.margin === null ? null : Math.hypot(a.margin, b.margin);
  return { difference: a.average - b.average, margin, isPaired: false, count: a.count + b.count };
}
