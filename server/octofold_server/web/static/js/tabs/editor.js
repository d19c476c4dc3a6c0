/** The board editor of the Play tab. It sets tiles by clicks, and turns, mirrors or clears the board. */

import { make } from "../../viewer/dom.js";
import { describeCell } from "../../viewer/board_text.js";
import { LARGEST_EXPONENT, tileOf } from "../../viewer/rules.js";
import { CELLS } from "../game/symmetries.js";

const TURNED = 3; // number of the symmetry that turns the board clockwise
const MIRRORED = 4;

export class Editor {
  /**
   * @param {{stage: HTMLElement, bar: HTMLElement, board: () => number[], onBoard: (board: number[]) => void}} page
   *   `stage` and `bar` are the parents of cells and tools; `board` returns the shown board; `onBoard` receives the
   *   edited board
   */
  constructor({ stage, bar, board, onBoard }) {
    Object.assign(this, { _bar: bar, _board: board, _onBoard: onBoard });
    const tiles = Array.from({ length: LARGEST_EXPONENT + 1 }, (_, exponent) => make("option", { value: exponent }, exponent ? String(tileOf(exponent)) : "empty"));
    this._tile = make("select", { id: "edit-tile" }, ...tiles);
    this._tile.value = "1";
    const button = (text, click) => make("button", { type: "button", on: { click } }, text);
    const turned = (symmetry) => () => onBoard(CELLS[symmetry].map((cell) => board()[cell]));
    bar.append(
      make("label", { for: "edit-tile" }, "Click a cell to set it to ", this._tile),
      button("Rotate", turned(TURNED)),
      button("Mirror", turned(MIRRORED)),
      button("Clear", () => onBoard(new Array(16).fill(0))),
    );
    this._cells = Array.from({ length: 16 }, (_, cell) => make("button", { type: "button", on: { click: () => this._click(cell) } }));
    this._grid = make("div.editor", { hidden: true }, ...this._cells);
    stage.append(this._grid);
    this.isOpen = false;
  }

  toggle() {
    this.isOpen = !this.isOpen;
    this.update();
  }

  /** Update the tools for the current board. */
  update() {
    this._bar.hidden = !this.isOpen;
    this._grid.hidden = !this.isOpen;
    if (!this.isOpen) return;
    const board = this._board();
    this._cells.forEach((button, cell) => {
      const tile = board[cell] ? tileOf(board[cell]) : "empty";
      button.setAttribute("aria-label", `${describeCell(cell)}: ${tile}`);
    });
  }

  _click(cell) {
    const exponent = Number(this._tile.value);
    const board = [...this._board()];
    board[cell] = board[cell] === exponent ? 0 : exponent; // the same tile again clears the cell
    this._onBoard(board);
  }
}
