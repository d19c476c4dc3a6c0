/** The list of the moves around the current one, and the list of the worst mistakes. A click on a move shows it. */

import { better, costText, isMistake, mistakesOf } from "../../viewer/worth.js";
import { ARROWS } from "../advice/moves_panel.js";
import { grouped, make } from "../../viewer/dom.js";
import { MOVE_NAMES } from "../../viewer/rules.js";

const AROUND = 3; // moves before and after the current one
const WORST = 8;

export class MoveList {
  /**
   * @param {HTMLElement} root
   * @param {(move: number) => void} onSeek
   */
  constructor(root, onSeek) {
    this._onSeek = onSeek;
    this._moves = make("ol.move-list", { "aria-label": "Moves" });
    this._worst = make("ol.worst", { "aria-label": "Worst mistakes" });
    this._title = make("h3", { hidden: true }, "Worst mistakes");
    root.append(this._moves, make("div", {}, this._title, this._worst));
  }

  /**
   * Show the moves around the current one.
   *
   * @param {{move: number}[]} moves the moves of the game
   * @param {import("./study.js").Verdict[]} verdicts the verdicts that are known
   * @param {number} at the number of the current move
   * @param {import("../../viewer/worth.js").Scale|undefined} scale the scale of the costs
   */
  show(moves, verdicts, at, scale) {
    const first = Math.max(0, Math.min(at - AROUND, moves.length - 2 * AROUND - 1));
    const rows = moves.slice(first, first + 2 * AROUND + 1).map(({ move }, i) => {
      const number = first + i;
      const verdict = verdicts[number];
      return this._row(number, move, verdict, number === at, scale);
    });
    this._moves.replaceChildren(...rows);
  }

  /** Show the worst mistakes. */
  judge(verdicts, scale) {
    const found = mistakesOf(verdicts).slice(0, WORST);
    this._title.hidden = !found.length;
    this._worst.replaceChildren(
      ...found.map(({ verdict, move }) =>
        make("li", {}, this._button(move, `Move ${grouped(move)}: ${costText(scale, verdict.cost)}`)),
      ),
    );
  }

  _row(number, move, verdict, isCurrent, scale) {
    const wrong = verdict && better(verdict) !== move;
    const kind = wrong && isMistake(verdict) ? "costly" : "note";
    const cost = wrong && verdict.cost ? `, costs ${costText(scale, verdict.cost)}` : "";
    return make(
      "li",
      { class: isCurrent ? "is-current" : "" },
      this._button(number, `${grouped(number)}. ${ARROWS[move]} ${MOVE_NAMES[move]}`, isCurrent),
      wrong ? make("span", { class: kind }, `better ${ARROWS[better(verdict)]} ${MOVE_NAMES[better(verdict)]}${cost}`) : null,
    );
  }

  _button(number, text, isCurrent = false) {
    const properties = { type: "button", on: { click: () => this._onSeek(number) } };
    return make("button.link", { ...properties, "aria-current": isCurrent ? "true" : false }, text);
  }
}
