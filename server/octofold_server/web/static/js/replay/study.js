/** Compares the moves of a game with those of a model and a judge. */

import { CHANCE_OF_FOUR } from "../game/spawns.js";
import { slide } from "../../viewer/rules.js";
import { better, costOf, costlyFrom, isMistake, scaleOf, worthOf } from "../../viewer/worth.js";

const BATCH = 256; // maximum boards in a request
const CELLS = Array.from({ length: 16 }, (_, cell) => cell);
const SEARCHED = 16; // boards in the first request to a player, because a search takes long
const [FAST_MS, SLOW_MS] = [500, 1500]; // faster requests become larger, and slower ones smaller

/**
 * @typedef {object} Verdict the opinions of model and judge on a move of a game
 * @property {number} played the move of the game
 * @property {number} model the move of the model
 * @property {number} judge the move of the judge; -1 without a judge
 * @property {number|null} cost the cost of the played move by the judge, or else by the model; null without values
 * @property {number|null} costly the cost from which a move is a mistake
 * @property {(number|null)[]|null} costs the costs of all four moves
 * @property {number|null} value the value of the best move, if the values are complete
 * @property {number|null} ratio the value of the played move, divided by that of the best move
 * @property {number} [luck] the luck of the tile after the move, by `addLuck`
 * @property {number} [next] the value of the board after the tile, by `addLuck`
 */

/**
 * Ask model and judge about every position of a game. They begin with the last positions, which show how the game was
 * lost.
 *
 * @param {object} source the source of moves
 * @param {{model: object, judge?: object}} asked
 * @param {{boards: number[][], scores: number[], moves: {move: number}[]}} game every position with its score
 * @param {{onProgress: (share: number, verdicts: Verdict[]) => void, isWanted: () => boolean}} watch
 *   `onProgress` receives the verdicts after every batch, with gaps where they are not known yet; the study ends when
 *   `isWanted` returns false
 * @returns {Promise<Verdict[]>} a verdict for each move; fewer if `isWanted` ended the study
 */
export async function study(source, { model, judge }, { boards, scores, moves }, { onProgress, isWanted }) {
  const usual = (judge ?? model).average ?? scores.at(-1); // the score of this game if the average is not known
  const verdicts = new Array(moves.length);
  let size = [model, judge].some((each) => each?.player) ? SEARCHED : BATCH;
  for (let end = moves.length; end > 0 && isWanted(); ) {
    const start = Math.max(0, end - size);
    const batch = boards.slice(start, end);
    const begun = performance.now();
    const [answers, judged] = await Promise.all([
      source.infer(model, batch),
      judge ? source.infer(judge, batch) : null,
    ]);
    if (!isWanted()) break; // otherwise this could replace the results of a newer study
    answers.forEach((answer, i) => {
      const worth = judged ? worthOf(judge, judged[i]) : worthOf(model, answer);
      const { move: played } = moves[start + i];
      verdicts[start + i] = {
        played,
        model: answer.move,
        judge: judged ? judged[i].move : -1,
        ...valued(worth, played),
        costly: worth && costlyFrom(worth, scores[start + i], usual),
        costs: worth && worth.values.map((value, move) => (Number.isFinite(value) ? costOf(worth, move) : null)),
      };
    });
    const took = performance.now() - begun;
    if (took < FAST_MS) size = Math.min(BATCH, 2 * size);
    else if (took > SLOW_MS) size = Math.max(1, size >> 1);
    end = start;
    onProgress(1 - end / moves.length, verdicts);
  }
  return verdicts;
}

/**
 * Add the luck of the tiles to the verdicts: `luck`, and `next`, the value of the board after the tile.
 *
 * The luck of a tile is the value of its board minus the mean value over all possible tiles. So its expected
 * value is 0, even with wrong values. `octofold_client/evaluation/luck.py` defines it in the same way.
 *
 * @param {object} source the source of moves
 * @param {object} judge a model with complete values, in points
 * @param {{boards: number[][], moves: {move: number, cell: number, exponent: number}[]}} game
 * @param {Verdict[]} verdicts the verdicts on all moves of the game
 * @param {{onProgress: (share: number) => void, isWanted: () => boolean}} watch
 */
export async function addLuck(source, judge, { boards, moves }, verdicts, { onProgress, isWanted }) {
  for (let end = 0; end < moves.length && isWanted(); ) {
    const after = []; // all possible next boards of some moves
    for (let size = 0; end < moves.length && size < BATCH; end += 1) {
      const { board } = slide(boards[end], moves[end].move);
      const empty = CELLS.filter((cell) => !board[cell]);
      after.push({ move: end, tiles: empty.flatMap((cell) => [1, 2].map((exponent) => ({ cell, exponent }))), board });
      size += 2 * empty.length;
    }
    const nextBoards = after.flatMap(({ tiles, board }) => tiles.map(({ cell, exponent }) => board.with(cell, exponent)));
    const values = (await source.infer(judge, nextBoards)).map((answer) => bestOf(answer));
    for (const { move, tiles } of after) {
      const own = values.splice(0, tiles.length);
      const chances = tiles.map(({ exponent }) => (exponent === 2 ? CHANCE_OF_FOUR : 1 - CHANCE_OF_FOUR) / (tiles.length / 2));
      const expected = own.reduce((sum, value, i) => sum + chances[i] * value, 0);
      const { cell, exponent } = moves[move];
      const next = own[tiles.findIndex((tile) => tile.cell === cell && tile.exponent === exponent)];
      Object.assign(verdicts[move], { luck: next - expected, next });
    }
    onProgress(end / moves.length);
  }
}

/** The value of the best move; 0 after the end of the game. */
const bestOf = ({ move, values }) => (move < 0 ? 0 : Math.max(...values.filter(Number.isFinite)));

function valued(worth, played) {
  if (!worth) return { cost: null, value: null, ratio: null };
  const cost = costOf(worth, played);
  const best = Math.max(...worth.values);
  if (!worth.isWhole || !Number.isFinite(best)) return { cost, value: null, ratio: null };
  return { cost, value: best, ratio: best > 0 ? Math.max(0, worth.values[played]) / best : 1 };
}

/**
 * Count the verdicts on a game.
 *
 * @param {Verdict[]} verdicts
 * @param {{model: object, judge?: object}} asked
 * @returns {object} the number of moves; the numbers of moves with which the model, the judge and both disagree;
 *   `accuracy` in percent: the mean of the known `ratio`s if `isRatio`, else the share of `equal` moves; the mistakes
 */
export function tally(verdicts, { model, judge }) {
  const count = (wanted) => verdicts.filter(wanted).length;
  const known = count(() => true);
  const scale = scaleOf(judge ?? model);
  const ratios = verdicts.map(({ ratio }) => ratio).filter((ratio) => ratio !== null);
  const isRatio = ratios.length > 0;
  const equal = count((verdict) => better(verdict) === verdict.played);
  const sum = ratios.reduce((total, ratio) => total + ratio, 0);
  return {
    count: known,
    model: count(({ played, model }) => model !== played),
    judge: count(({ played, judge }) => judge >= 0 && judge !== played),
    both: count(({ played, model, judge }) => model !== played && judge >= 0 && judge !== played),
    equal,
    isRatio,
    accuracy: known ? 100 * (isRatio ? sum / ratios.length : equal / known) : 0,
    scale,
    mistakes: count(isMistake),
  };
}
