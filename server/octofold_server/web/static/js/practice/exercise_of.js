/** Makes exercises from positions whose best move is known. */

import { costOf, costlyFrom, worthOf } from "../../viewer/worth.js";
import { formatBoard } from "../../viewer/board_text.js";

/**
 * An exercise for the notebook.
 *
 * @param {number[]} board
 * @param {{model: object, answer: object}} judged the model that knows the best move, and its answer
 * @param {string} source the origin of the position, such as "your game, move 12"
 * @param {number} score the score of the game at this position
 */
export function exerciseOf(board, { model, answer }, source, score) {
  const worth = worthOf(model, answer);
  const costs = worth && worth.values.map((value, move) => (Number.isFinite(value) ? costOf(worth, move) : null));
  const costly = worth && costlyFrom(worth, score, model.average ?? 0);
  return { board: formatBoard(board), better: answer.move, costs, costly, ...worth?.scale, judge: model.name, source };
}
