/** Describes in a sentence which move a model plays, and why. */

import { percent } from "../../viewer/dom.js";
import { MOVE_NAMES } from "../../viewer/rules.js";
import { costOf, costText, worthOf, worthText } from "../../viewer/worth.js";

const EQUAL = 1e-4; // values or probabilities that differ by less count as equal

/**
 * Describe the model's move and the reason for it, as two parts of a sentence.
 *
 * @returns {{plays: string, because: string}} "flagship plays down", ": 5 of its 8 views vote for it."
 */
export function describeMove(model, answer) {
  if (answer.move < 0) return { plays: "No move is left: the game is over.", because: "" };
  const name = MOVE_NAMES[answer.move];
  const plays = `${model.name} plays ${name}`;
  const legal = [0, 1, 2, 3].filter((move) => answer.legal[move]);
  if (legal.length === 1) return { plays, because: ", the only legal move." };
  if (isUndecided(model, answer, legal)) {
    return { plays: `${model.name} has no preference`, because: `: it rates all legal moves alike. It plays ${name}.` };
  }
  return { plays, because: reason(model, answer, legal) };
}

/** Whether the model rates all legal moves alike. */
function isUndecided(model, answer, legal) {
  const known = legal.map((move) => (answer.values ?? answer.probabilities)[move] ?? 0);
  if (answer.values && known.every((value) => value === 0)) return false; // a table of solved positions chose the move
  if (Math.max(...known) - Math.min(...known) >= EQUAL) return false;
  return model.rule !== "vote" || !answer.votes || legal.every((move) => answer.votes[move] === answer.votes[legal[0]]);
}

function reason(model, answer, legal) {
  const worth = worthOf(model, answer);
  const views = answer.votes?.reduce((sum, votes) => sum + votes, 0) ?? 0;
  if (worth) {
    const others = legal.filter((move) => move !== answer.move);
    const [next] = others.sort((a, b) => worth.values[b] - worth.values[a]);
    const cost = costOf(worth, next) - costOf(worth, answer.move);
    const depth = answer.depth ? `, searched ${answer.depth} moves deep` : "";
    const merged = !answer.depth && views > 1 ? `, in the average of its ${views} views` : "";
    const own = worth.isWhole ? `: ${worthText(worth.scale, worth.values[answer.move])}${worth.scale.unit === "points" ? " points to come" : " chance of success"}` : "";
    const more = own ? worthText(worth.scale, Math.max(0, cost)) : costText(worth.scale, Math.max(0, cost));
    return `${own}${own ? "," : ":"} ${more} more than ${MOVE_NAMES[next]}${merged}${depth}.`;
  }
  if (views > 1 && model.rule === "vote") {
    const rivals = legal.filter((move) => move !== answer.move && answer.votes[move] === answer.votes[answer.move]);
    const tie = rivals.length ? `, as for ${rivals.map((move) => MOVE_NAMES[move]).join(" and ")}; the probability decides` : "";
    return `: ${answer.votes[answer.move]} of its ${views} views vote for it${tie}.`;
  }
  if (!answer.probabilities) return answer.depth ? `, after a search ${answer.depth} moves deep.` : ", by a table of solved positions.";
  const share = percent(answer.probabilities[answer.move]);
  return views > 1 ? `: its ${views} views give it a probability of ${share} on average.` : `, with a probability of ${share}.`;
}
