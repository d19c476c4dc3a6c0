/** The four moves, with the probability that model and judge give to each. */

import { make, percent } from "../dom.js";
import { MOVE_NAMES } from "../game/rules.js";

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
    root.append(this._list);
  }

  /**
   * @param {import("../ask/server.js").Answer|null} model its answer; null for none
   * @param {import("../ask/server.js").Answer|null} judge
   * @param {number} played the move that the player made; -1 for none
   */
  show(model, judge = null, played = -1) {
    this._list.classList.toggle("is-empty", !model);
    this._list.classList.toggle("has-judge", Boolean(judge));
    const views = model ? model.votes.reduce((sum, votes) => sum + votes, 0) : 0;
    this._rows.forEach((row, move) => {
      const legal = model ? model.legal[move] : true;
      row.element.classList.toggle("is-best", Boolean(model) && model.move === move);
      row.element.classList.toggle("is-illegal", !legal);
      setShare(row.model, model?.probabilities[move]);
      setShare(row.judge, judge?.probabilities[move]);
      row.number.textContent = model && legal ? percent(model.probabilities[move]) : legal ? "" : "–";
      const marks = [];
      if (model && legal && views > 1 && model.votes[move]) marks.push(`${model.votes[move]} of ${views}`);
      if (judge?.move === move && judge.move !== model?.move) marks.push("judge");
      if (played === move) marks.push("played");
      row.mark.textContent = model && !legal ? "not legal" : marks.join(" · ");
    });
  }
}

function setShare(bar, share) {
  bar.style.setProperty("--share", share ?? 0);
}
