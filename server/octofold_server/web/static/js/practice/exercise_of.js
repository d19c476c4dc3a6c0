/** Makes exercises of positions that somebody judged. */

import { costOf, worthOf } from "../../viewer/worth.js";
import { formatBoard } from "../../viewer/board_text.js";

/**
 * An exercise for the notebook.
 *
 * @param {number[]} board
 * @param {{model: object, answer: object}} judged who says which move is best
 * @param {string} source where the position comes from
 */
export function exerciseOf(board, { model, answer }, source) {
  const worth = worthOf(model, answer);
  const costs = worth && worth.values.map((value, move) => (Number.isFinite(value) ? costOf(worth, move) : null));
  return { board: formatBoard(board), better: answer.move, costs, unit: worth?.unit ?? "", judge: model.name, source };
}
