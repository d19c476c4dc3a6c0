/** Makes exercises from judged positions. */

import { costOf, costlyFrom, worthOf } from "../../viewer/worth.js";
import { formatBoard } from "../../viewer/board_text.js";

/**
 * An exercise for the notebook.
 *
 * @param {number[]} board
 * @param {{model: object, answer: object}} judged the adviser on the best move, and its answer
 * @param {string} source where the position comes from
 * @param {number} score of the board
 */
export function exerciseOf(board, { model, answer }, source, score) {
  const worth = worthOf(model, answer);
  const costs = worth && worth.values.map((value, move) => (Number.isFinite(value) ? costOf(worth, move) : null));
  const costly = worth && costlyFrom(worth, score, model.average ?? 0);
  return { board: formatBoard(board), better: answer.move, costs, costly, ...worth?.scale, judge: model.name, source };
}
