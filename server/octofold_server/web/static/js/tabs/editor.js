/** The editor of the board on the tab Play: tiles by click, turns, and new tiles that the player places. */

import { make } from "../../viewer/dom.js";
import { describeCell } from "../../viewer/board_text.js";
import { LARGEST_EXPONENT, tileOf } from "../../viewer/rules.js";
import { CELLS } from "../game/symmetries.js";

const TURNED = 3; // clockwise, among the symmetries
const MIRRORED = 4;

export class Editor {
  /**
   * @param {{stage: HTMLElement, bar: HTMLElement, board: () => number[], onBoard: (board: number[]) => void,
   *   onPlace: (cell: number, exponent: number) => void}} page where cells and tools go; the board that is shown; told
   *   of another board, and of the cell of a new tile that `wantTile` asked for
   */
  constructor({ stage, bar, board, onBoard, onPlace }) {
    Object.assign(this, { _bar: bar, _board: board, _onBoard: onBoard, _onPlace: onPlace });
    const tiles = Array.from({ length: LARGEST_EXPONENT + 1 }, (_, exponent) => make("option", { value: exponent }, exponent ? String(tileOf(exponent)) : "empty"));
    this._tile = make("select", { id: "edit-tile" }, ...tiles);
    this._tile.value = "1";
    this._places = make("input", { type: "checkbox", id: "edit-places" });
    const button = (text, click) => make("button", { type: "button", on: { click } }, text);
    const turned = (symmetry) => () => onBoard(CELLS[symmetry].map((cell) => board()[cell]));
    bar.append(
      make("label", { for: "edit-tile" }, "Click a cell for ", this._tile),
      button("Rotate", turned(TURNED)),
      button("Mirror", turned(MIRRORED)),
      button("Clear", () => onBoard(new Array(16).fill(0))),
      make("label", { for: "edit-places" }, this._places, " I place the new tiles"),
    );
    this._cells = Array.from({ length: 16 }, (_, cell) => make("button", { type: "button", on: { click: () => this._click(cell) } }));
    this._grid = make("div.editor", { hidden: true }, ...this._cells);
    stage.append(this._grid);
    this.isOpen = false;
    this._wantsTile = false;
  }

  /** Whether the player places the new tiles. */
  get placesTiles() {
    return this.isOpen && this._places.checked;
  }

  toggle() {
    this.isOpen = !this.isOpen;
    this._wantsTile = false;
    this.update();
  }

  /** Ask for the cell of a new tile on an afterstate. */
  wantTile(isWanted) {
    this._wantsTile = isWanted;
    this.update();
  }

  /** Show the tools for the board that is shown. */
  update() {
    this._bar.hidden = !this.isOpen;
    this._grid.hidden = !this.isOpen;
    if (!this.isOpen) return;
    const board = this._board();
    this._cells.forEach((button, cell) => {
      const tile = board[cell] ? tileOf(board[cell]) : "empty";
      button.setAttribute("aria-label", `${describeCell(cell)}: ${tile}`);
      button.disabled = this._wantsTile && board[cell] > 0;
    });
  }

  _click(cell) {
    const exponent = Number(this._tile.value);
    if (this._wantsTile) {
      this._onPlace(cell, exponent === 2 ? 2 : 1);
      return;
    }
    const board = [...this._board()];
    board[cell] = board[cell] === exponent ? 0 : exponent; // the same tile again clears the cell
    this._onBoard(board);
  }
}
