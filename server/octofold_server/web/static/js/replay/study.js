/** Compares the moves of a game with those of a model and a judge. */

const BATCH = 256; // boards in a request

/**
 * @typedef {object} Verdict what model and judge say about a move of a game
 * @property {number} played
 * @property {number} model its move
 * @property {number} judge its move; -1 without a judge
 * @property {number} cost the probability that the judge, or else the model, gives its own move, less that of the
 *   move that was played
 */

/**
 * Ask model and judge about every position of a game.
 *
 * @param {object} source of moves
 * @param {{model: object, judge?: object}} asked
 * @param {number[][]} boards every position that a move was made on
 * @param {number[]} moves
 * @param {{onProgress: (share: number, verdicts: Verdict[]) => void, isWanted: () => boolean}} watch is told of
 *   every batch; ends the study when it is not wanted
 * @returns {Promise<Verdict[]>} one for each move, unless it ended
 */
export async function study(source, { model, judge }, boards, moves, { onProgress, isWanted }) {
  const verdicts = [];
  for (let start = 0; start < moves.length && isWanted(); start += BATCH) {
    const batch = boards.slice(start, Math.min(start + BATCH, moves.length));
    const [answers, judged] = await Promise.all([
      source.infer(model, batch),
      judge ? source.infer(judge, batch) : null,
    ]);
    answers.forEach((answer, i) => {
      const played = moves[start + i];
      const values = (judged ?? answers)[i];
      verdicts.push({
        played,
        model: answer.move,
        judge: judged ? judged[i].move : -1,
        cost: Math.max(0, (values.probabilities[values.move] ?? 0) - values.probabilities[played]),
      });
    });
    onProgress(verdicts.length / moves.length, verdicts);
  }
  return verdicts;
}

/** Whether somebody would have made another move. */
export const isDisputed = ({ played, model, judge }) => model !== played || (judge >= 0 && judge !== played);

/** From this loss of probability on, a move counts as costly. */
export const COSTLY = 0.25;

/**
 * What the verdicts on a game come to.
 *
 * @param {Verdict[]} verdicts
 * @returns {{count: number, model: number, judge: number, both: number, costly: number}} moves; those in whose
 *   place the model, the judge, and both of them would have made another; costly moves
 */
export function tally(verdicts) {
  const count = (wanted) => verdicts.filter(wanted).length;
  return {
    count: verdicts.length,
    model: count(({ played, model }) => model !== played),
    judge: count(({ played, judge }) => judge >= 0 && judge !== played),
    both: count(({ played, model, judge }) => model !== played && judge >= 0 && judge !== played),
    costly: count(({ cost }) => cost >= COSTLY),
  };
}
