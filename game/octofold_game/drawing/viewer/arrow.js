/** An arrow over a board that shows the direction of a move. */

import { MOVE_NAMES } from "./rules.js";

const SVG = "http://www.w3.org/2000/svg";

export class Arrow {
  /** @param {HTMLElement} stage the element around the board */
  constructor(stage) {
    this._svg = document.createElementNS(SVG, "svg");
    this._svg.setAttribute("viewBox", "0 0 100 100");
    this._svg.setAttribute("aria-hidden", "true");
    const path = document.createElementNS(SVG, "path");
    path.setAttribute("d", "M50 8 L64 28 H55 V58 H45 V28 H36 Z"); // up; CSS turns it
    this._svg.append(path);
    stage.append(this._svg);
    this.point(-1);
  }

  /** Point in the direction of a move; -1 hides the arrow. `kind` is a class, such as `is-wrong`. */
  point(move, kind = "") {
    this._svg.setAttribute("class", `arrow-on-board toward-${MOVE_NAMES[move] ?? "none"} ${kind}`);
  }
}
