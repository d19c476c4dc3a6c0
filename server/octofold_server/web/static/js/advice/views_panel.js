/** The views of a board, each with its vote and the probability of the move that it votes for. */

import { smallBoard } from "../../viewer/board_view.js";
import { make, percent } from "../../viewer/dom.js";
import { MOVE_NAMES } from "../../viewer/rules.js";
import { showHelp } from "../shell.js";
import { ARROWS } from "./moves_panel.js";

const KINDS = [
  "as it is",
  "turned left",
  "turned around",
  "turned right",
  "mirrored",
  "mirrored, turned left",
  "mirrored, turned around",
  "mirrored, turned right",
];

/** A view gets a frame if it rates another move more probable by at least this much. */
const CLEARLY = 0.05;

/** A grid of up to eight small boards. */
export class ViewsPanel {
  constructor(root) {
    this._note = make("p.note");
    this._grid = make("div.views");
    this._title = make("h2", { hidden: true });
    root.append(this._title, this._grid, this._note);
  }

  /**
   * @param {import("../ask/views.js").View[]|null} views the views; null if they are not known
   * @param {number} move the move of the model
   * @param {string} note the text to show without views
   */
  show(views, move, note = "") {
    this._note.replaceChildren(...(views ? EXPLAINED() : [note]));
    this._note.hidden = !views && !note;
    this._title.hidden = !views;
    if (views) {
      this._title.replaceChildren(`How ${counted(views.length)} of the board ${views.length === 1 ? "votes" : "vote"}`);
    }
    this._grid.replaceChildren(...(views ?? []).map((view) => figure(view, move)));
  }

  /** Whether nothing is shown. */
  get isEmpty() {
    return !this._grid.childElementCount;
  }
}

const counted = (count) => (count === 8 ? "eight views" : count === 1 ? "one view" : `${count} views`);

const EXPLAINED = () => [
  "A view is the board turned or mirrored. Below each view are the move of your board that it prefers, and the probability of this move. An ",
  make("span.differs-word", {}, "orange frame"),
  " marks views that clearly prefer another move. ",
  make("button.link", { type: "button", on: { click: showHelp } }, "More"),
];

function figure(view, move) {
  const differs = view.probabilities[view.vote] - view.probabilities[move] >= CLEARLY;
  const name = MOVE_NAMES[view.vote];
  return make(
    "figure.view",
    { class: `view ${view.vote === move ? "agrees" : differs ? "differs" : ""}` },
    smallBoard(view.board, `The board ${KINDS[view.symmetry]}`),
    make(
      "figcaption",
      {},
      make("span.vote", { "aria-hidden": "true" }, ARROWS[view.vote]),
      make("span.said", {}, `votes ${name}, `),
      percent(view.probabilities[view.vote]),
    ),
  );
}
