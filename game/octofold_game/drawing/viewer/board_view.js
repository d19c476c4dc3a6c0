/** Shows a board, and moves its tiles. */

import { describeBoard } from "./board_text.js";
import { tileOf } from "./rules.js";
import { make, prefersStillness } from "./dom.js";

const SLIDE_MS = 100; // as in board.css

/** A board that is drawn with one element for each tile, so that CSS can move them. */
export class BoardView {
  /**
   * @param {HTMLElement} root an empty element
   * @param {string} label for screen readers
   */
  constructor(root, label) {
    root.classList.add("board");
    root.setAttribute("role", "group");
    root.setAttribute("aria-label", label);
    this._text = make("p.said");
    const cells = Array.from({ length: 16 }, () => make("div.cell"));
    this._layer = make("div.tiles", { "aria-hidden": "true" });
    root.append(make("div.cells", { "aria-hidden": "true" }, ...cells), this._layer, this._text);
    this.root = root;
    this._board = new Array(16).fill(0);
    this._tiles = new Array(16).fill(null); // the element in each cell
    this._timer = 0;
    this._frame = 0;
  }

  /** Show a board at once. Of several calls within a frame, only the last is drawn. */
  show(board) {
    this._end();
    this._want(board);
    this._frame = requestAnimationFrame(() => {
      this._frame = 0;
      this._draw(this._wanted);
    });
  }

  /**
   * Show a move: slides, merges and the new tile.
   *
   * @param {{steps: object[], spawn: object}} played the result of `Game.play`
   * @param {number[]} board after the move
   */
  move({ steps, spawn }, board) {
    const isLate = this._end(); // the previous move is still being shown
    if (isLate) this._draw(this._wanted);
    this._want(board);
    if (prefersStillness()) {
      this._draw(board, spawn.cell);
      return;
    }
    for (const { from, to } of steps) if (this._tiles[from]) place(this._tiles[from], to);
    const merged = steps.filter((step) => step.merges).map((step) => step.to);
    this._timer = setTimeout(() => {
      this._end();
      this._draw(board, spawn.cell, merged);
    }, SLIDE_MS);
  }

  /** Shake the board to show that a move is illegal. */
  refuse() {
    this.root.classList.remove("refused");
    void this.root.offsetWidth; // starts the animation again
    this.root.classList.add("refused");
  }

  _want(board) {
    this._wanted = board;
    this._text.textContent = describeBoard(board);
  }

  /** Draw the cells that have changed. */
  _draw(board, spawned = -1, merged = []) {
    board.forEach((exponent, cell) => {
      if (exponent === this._board[cell]) return;
      this._tiles[cell]?.remove();
      this._tiles[cell] = exponent ? newTile(exponent, cell) : null;
      if (!exponent) return;
      if (cell === spawned) this._tiles[cell].classList.add("new");
      if (merged.includes(cell)) this._tiles[cell].classList.add("merged");
      this._layer.append(this._tiles[cell]);
    });
    this._board = [...board];
  }

  /** End the current animation; returns whether there was one. Moving tiles are removed. */
  _end() {
    const isUnderWay = Boolean(this._timer || this._frame);
    clearTimeout(this._timer);
    cancelAnimationFrame(this._frame);
    if (this._timer) {
      this._layer.replaceChildren();
      this._tiles.fill(null);
      this._board.fill(0);
    }
    this._timer = this._frame = 0;
    return isUnderWay;
  }
}

/** A small board that never moves, for lists of boards. */
export function smallBoard(board, label = describeBoard(board)) {
  const cells = board.map((exponent) =>
    make("span", { class: `small-cell t${exponent}` }, exponent ? shortTile(exponent) : ""),
  );
  return make("div.small-board", { role: "img", "aria-label": label }, ...cells);
}

/** Change the board of a small board. */
export function updateSmallBoard(element, board) {
  board.forEach((exponent, i) => {
    const cell = element.children[i];
    const kind = `small-cell t${exponent}`;
    if (cell.className === kind) return;
    cell.className = kind;
    cell.textContent = exponent ? shortTile(exponent) : "";
  });
  element.setAttribute("aria-label", describeBoard(board));
}

/** A short text for a small cell: 16k for 16384. */
const shortTile = (exponent) => (exponent > 13 ? `${2 ** (exponent - 10)}k` : String(tileOf(exponent)));

function newTile(exponent, cell) {
  const tile = String(tileOf(exponent));
  const element = make("div", { class: `tile t${exponent} d${tile.length}` }, tile);
  place(element, cell);
  return element;
}

function place(element, cell) {
  element.style.setProperty("--x", cell % 4);
  element.style.setProperty("--y", Math.floor(cell / 4));
}
