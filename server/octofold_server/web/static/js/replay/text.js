/** Writes a game as text. */

import { grouped } from "../../viewer/dom.js";
import { MOVE_NAMES, tileOf } from "../../viewer/rules.js";

/**
 * The text of every position of a game.
 *
 * @param {{title: string, boards: number[][], scores: number[], moves: {move: number}[]}} game
 */
export function gameText({ title, boards, scores, moves }) {
  const blocks = boards.map((board, at) => {
    const next = moves[at] ? `next: ${MOVE_NAMES[moves[at].move]}` : "the game is over";
    return `move ${grouped(at)} of ${grouped(moves.length)}\nscore ${grouped(scores[at])}, ${next}\n${boardText(board)}\n`;
  });
  return `${title}\n\n${blocks.join("\n")}`;
}

function boardText(board) {
  const tiles = board.map((exponent) => String(exponent ? tileOf(exponent) : ".").padStart(7));
  return [0, 4, 8, 12].map((row) => tiles.slice(row, row + 4).join("")).join("\n");
}
