/** Statistics of the scores of games: averages with intervals, differences, shares and histograms. */

const NORMAL_95 = 1.959963984540054;

/** Minimum games for an interval of an average. */
export const FEWEST = 10;

/** The largest number, or `least` if none is larger. `Math.max` fails with a million arguments. */
export const largestIn = (numbers, least = -Infinity) =>
  numbers.reduce((most, number) => (number > most ? number : most), least);

/** The smallest number of a list, which may be long. */
export const smallestIn = (numbers) => -largestIn(numbers.map((number) => -number));

/**
 * The 97.5% quantile of Student's distribution, as the client's `intervals.py` computes it.
 *
 * @param {number} n degrees of freedom
 */
function student(n) {
  const z = NORMAL_95;
  return (
    z +
    (z ** 3 + z) / (4 * n) +
    (5 * z ** 5 + 16 * z ** 3 + 3 * z) / (96 * n ** 2) +
    (3 * z ** 7 + 19 * z ** 5 + 17 * z ** 3 - 15 * z) / (384 * n ** 3)
  );
}

/**
 * The 95% interval of an average score, as `octofold evaluate` computes it: Student's, for the logarithm of the average.
 *
 * @param {number} count the number of games
 * @param {number} average the average of their scores, which are not negative
 * @param {number|null} deviation the standard deviation of their scores
 * @returns {[number, number]|null} null for fewer than `FEWEST` games
 */
export function averageInterval(count, average, deviation) {
  if (count < FEWEST) return null;
  if (average <= 0) return [average, average];
  const factor = Math.exp((student(count - 1) * deviation) / Math.sqrt(count) / average);
  return [average / factor, average * factor];
}

/** Average and variance of a sample. The variance is null for fewer than two numbers. */
function moments(numbers) {
  const count = numbers.length;
  const average = numbers.reduce((sum, number) => sum + number, 0) / count;
  const squares = numbers.reduce((sum, number) => sum + (number - average) ** 2, 0);
  return { count, average, variance: count > 1 ? squares / (count - 1) : null };
}

/**
 * The average of scores with its 95% interval, their median and their maximum.
 *
 * @param {number[]} scores
 * @returns {{count: number, average: number, interval: [number, number]|null, median: number, best: number}}
 */
export function summarize(scores) {
  const count = scores.length;
  if (!count) return { count, average: 0, interval: null, median: 0, best: 0 };
  const { average, variance } = moments(scores);
  const sorted = [...scores].sort((a, b) => a - b);
  const middle = Math.floor(count / 2);
  return {
    count,
    average,
    interval: averageInterval(count, average, Math.sqrt(variance)),
    median: count % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2,
    best: sorted[count - 1],
  };
}

/**
 * A histogram with bins of a round width.
 *
 * @param {number[]} scores
 * @param {number} wanted the approximate number of bins
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

/** The identity of a game. Games with the same seed and number get the same tiles. */
export const gameKey = ({ seed, game }) => `${seed}/${game}`;

/**
 * The difference of the averages of two players, with the 95% interval that `octofold compare` gives.
 *
 * If both have played the same games, the interval is Student's for the differences of these games, and null if fewer
 * than `FEWEST` games differ. Otherwise it is Welch's, and null if a player has fewer than `FEWEST` games, or if the
 * scores of both do not vary.
 *
 * @param {{seed: bigint, game: number, score: number}[]} first
 * @param {{seed: bigint, game: number, score: number}[]} second
 * @returns {{difference: number, interval: [number, number]|null, isPaired: boolean, count: number}}
 */
export function differenceOf(first, second) {
  const scores = new Map(second.map((each) => [gameKey(each), each.score]));
  const common = first.filter((each) => scores.has(gameKey(each)));
  if (common.length > 1) {
    const differences = common.map((each) => each.score - scores.get(gameKey(each)));
    const { count, average, variance } = moments(differences);
    const isEnough = differences.filter(Boolean).length >= FEWEST;
    const interval = isEnough ? around(average, student(count - 1) * Math.sqrt(variance / count)) : null;
    return { difference: average, interval, isPaired: true, count };
  }
  const both = [first, second].map((games) => moments(games.map(({ score }) => score)));
  const difference = both[0].average - both[1].average;
  const square = both.reduce((sum, { variance, count }) => sum + variance / count, 0);
  const isEnough = both.every(({ count }) => count >= FEWEST) && square > 0;
  const freedom = square ** 2 / both.reduce((sum, { variance, count }) => sum + (variance / count) ** 2 / (count - 1), 0);
  const interval = isEnough ? around(difference, student(freedom) * Math.sqrt(square)) : null;
  return { difference, interval, isPaired: false, count: both[0].count + both[1].count };
}

const around = (center, half) => [center - half, center + half];
