/** Each view's answer, from the model's views or from one call for each view. */

import { MOVES, VIEWS, viewOf } from "../game/symmetries.js";

/**
 * @typedef {object} View
 * @property {number} symmetry
 * @property {number[]} board the board under this symmetry
 * @property {number[]} probabilities of the moves of the original board
 * @property {number} vote the move of the original board that this view prefers
 */

/**
 * Find how each view of a board votes.
 *
 * A model with one view is called for each of the eight symmetric boards. This shows how much its answer depends
 * on the orientation of the board. A model with several views merges them in its graph, which may also return
 * the answer of each view.
 *
 * @param {object} source the source of moves
 * @param {object} model
 * @param {number[]} board
 * @returns {Promise<{answer: import("./server.js").Answer, views: View[]|null}>} `views` is null if the graph does
 *   not return them, or if the game is over
 */
export async function askViews(source, model, board) {
  if (model.symmetries === 1) {
    const symmetries = VIEWS[8];
    const answers = await source.infer(model, symmetries.map((symmetry) => viewOf(board, symmetry)));
    const own = answers.map(({ probabilities }, s) => MOVES[s].map((move) => probabilities[move]));
    return { answer: answers[0], views: described(board, symmetries, own, answers[0].legal) };
  }
  const answer = await source.views(model, board);
  const symmetries = answer.views && VIEWS[answer.views.length];
  return { answer, views: symmetries ? described(board, symmetries, answer.views, answer.legal) : null };
}

function described(board, symmetries, probabilities, legal) {
  if (!legal.includes(true)) return null;
  return symmetries.map((symmetry, i) => {
    const vote = probabilities[i].indexOf(Math.max(...probabilities[i].filter((_, move) => legal[move])));
    return { symmetry, board: viewOf(board, symmetry), probabilities: probabilities[i], vote };
  });
}
