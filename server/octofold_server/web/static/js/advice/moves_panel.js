/** The four moves, with the opinions of model and judge. */

import { grouped, make, percent } from "../../viewer/dom.js";
import { MOVE_NAMES } from "../../viewer/rules.js";
import { costOf, worthOf, worthText } from "../../viewer/worth.js";

export const ARROWS = ["↑", "→", "↓", "←"];

/** A table of the four moves. */
export class MovesPanel {
  constructor(root) {
    this._rows = MOVE_NAMES.map((name, move) => {
      const row = {
        element: make("li.move-row"),
        model: make("span.bar.of-model"),
        judge: make("span.bar.of-judge"),
        number: make("span.number"),
        mark: make("span.mark"),
      };
      row.element.append(
        make("span.arrow", { "aria-hidden": "true" }, ARROWS[move]),
        make("span.name", {}, name),
        make("span.bars", { "aria-hidden": "true" }, row.model, row.judge),
        row.number,
        row.mark,
      );
      return row;
    });
    this._list = make("ol.moves", {}, ...this._rows.map((row) => row.element));
    this._legend = make("p.note.legend-line");
    root.append(this._list, this._legend);
  }

  /**
   * @param {{model: object, answer: object}|null} asked the model and its answer; null for none
   * @param {{model: object, answer: object}|null} judge
   * @param {number} played the move that the player made; -1 for none
   */
  show(asked, judge = null, played = -1) {
    const answer = asked?.answer;
    this._list.classList.toggle("is-empty", !answer);
    this._list.classList.toggle("has-judge", Boolean(judge));
    const worth = asked && worthOf(asked.model, answer);
    const judged = judge && worthOf(judge.model, judge.answer);
    const views = answer?.votes?.reduce((sum, votes) => sum + votes, 0) ?? 0;
    this._rows.forEach((row, move) => {
      const legal = answer ? answer.legal[move] : true;
      row.element.classList.toggle("is-best", answer?.move === move);
      row.element.classList.toggle("is-illegal", !legal);
      setShare(row.model, answer && legal ? share(answer, move) : 0);
      setShare(row.judge, judge && legal ? share(judge.answer, move) : 0);
      row.number.textContent = answer ? (legal ? number(answer, worth, move) : "–") : "";
      const marks = [];
      if (answer && legal && views > 1 && asked.model.rule === "vote" && answer.votes[move]) {
        marks.push(`${answer.votes[move]} of ${views} views`);
      }
      if (judged && legal && costOf(judged, move) > 0) marks.push(loss(judged, move));
      else if (judge?.answer.move === move && judge.answer.move !== answer?.move) marks.push("judge");
      if (played === move) marks.push("played");
      row.mark.textContent = answer && !legal ? "not legal" : marks.join(" · ");
    });
    this._legend.replaceChildren(...(answer ? legend(asked, judge, worth, judged) : []));
  }
}

const share = ({ values, probabilities }, move) =>
  probabilities ? probabilities[move] : values && Number.isFinite(values[move]) ? relative(values, move) : 0;

/** The value of a move as a share of the best value, for a player without probabilities. */
const relative = (values, move) => Math.max(0, values[move] / Math.max(...values.filter(Number.isFinite)));

function number({ probabilities, values }, worth, move) {
  if (!worth && probabilities) return percent(probabilities[move]);
  if (!worth) return Number.isFinite(values?.[move]) ? lessThanBest(values, move) : "";
  if (worth.isWhole) return worthText(worth.scale, worth.values[move]);
  return costOf(worth, move) ? loss(worth, move) : "best";
}

/** The text for a value whose differences are no costs, such as that of a heuristic. */
function lessThanBest(values, move) {
  const less = Math.max(...values.filter(Number.isFinite)) - values[move];
  return less ? `−${grouped(less)}` : "best";
}

/** The text of a cost: "−310", or "−26,000 or worse" if the model cannot represent the cost. */
function loss({ scale, ...worth }, move) {
  const cost = costOf(worth, move);
  return `−${worthText(scale, cost)}${cost < scale.ceiling ? "" : " or worse"}`;
}

/** The legend, which explains bars and numbers. */
function legend(asked, judge, worth, judged) {
  const key = (kind, text) => make("span", {}, make(`span.legend.${kind}`, { "aria-hidden": "true" }), text);
  const bar = asked.answer.probabilities ? "probability of each move" : "value of each move";
  const parts = [key("is-model", `${asked.model.name}: ${bar}`)];
  if (!worth && asked.answer.values?.some(Number.isFinite)) parts.push(make("span", {}, `number: ${asked.model.value_unit} less than the best move`));
  if (worth) parts.push(make("span", {}, worth.isWhole ? `number: ${worth.scale.unit}` : "number: points less than the best move"));
  const { value } = asked.answer;
  if (Number.isFinite(value)) {
    const said = value.toLocaleString("en-US", { maximumSignificantDigits: 4 });
    parts.push(make("span", {}, `value of the board: ${said} (unit: ${asked.model.value_unit})`));
  }
  if (judge) parts.push(key("is-judge", `${judge.model.name}, the judge${judged ? `: ${judged.scale.unit} that a move loses` : ""}`));
  return parts;
}

function setShare(bar, share) {
  bar.style.setProperty("--share", share ?? 0);
}
