/** Shows a board, and moves its tiles. */

import { describeBoard } from "../game/board_text.js";
import { tileOf } from "../game/rules.js";
import { make, prefersStillness } from "../dom.js";

const SLIDE_MS = 100; // as in tiles.css

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

  /** Show a board at once; several calls within a frame draw only the last. */
  show(board) {
    this._stop();
    this._wanted = board;
    this._frame ||= requestAnimationFrame(() => {
      this._frame = 0;
      this._draw(this._wanted);
    });
  }

  /**
   * Show a move: slides, merges and the new tile.
   *
   * @param {{steps: object[], spawn: object}} played what `Game.play` returned
   * @param {number[]} board after it
   */
  move({ steps, spawn }, board) {
    if (prefersStillness()) {
      this._stop();
      this._draw(board, spawn.cell);
      return;
    }
    this._finish();
    const tiles = new Array(16).fill(null);
    for (const { from, to } of steps) {
      const tile = this._tiles[from];
      if (!tile) continue;
      place(tile, to);
      if (!tiles[to]) tiles[to] = tile;
    }
    const merged = steps.filter((step) => step.merges).map((step) => step.to);
    this._timer = setTimeout(() => this._settle(board, merged, spawn.cell), SLIDE_MS);
    this._wanted = board;
  }

  /** Shake the board: a move is not legal. */
  refuse() {
    this.root.classList.remove("refused");
    void this.root.offsetWidth; // starts the animation again
    this.root.classList.add("refused");
  }

  _settle(board, merged, spawned) {
    this._timer = 0;
    for (const tile of [...this._layer.children]) tile.remove();
    this._tiles.fill(null);
    this._board.fill(0);
    this._draw(board, spawned, merged);
  }

  /** Draw the cells that differ. */
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
    this._text.textContent = describeBoard(board);
  }

  /** End an animation now. */
  _finish() {
    const pending = this._timer || this._frame;
    this._stop();
    if (!pending) return;
    for (const tile of [...this._layer.children]) tile.remove();
    this._tiles.fill(null);
    this._board.fill(0);
    this._draw(this._wanted);
  }

  _stop() {
    clearTimeout(this._timer);
    if (this._timer) {
      // The tiles are on their way: draw all of them anew.
      for (const tile of [...this._layer.children]) tile.remove();
      this._tiles.fill(null);
      this._board.fill(0);
    }
    cancelAnimationFrame(this._frame);
    this._timer = this._frame = 0;
  }
}

/** A small board that never moves, for lists of boards. */
export function smallBoard(board, label = describeBoard(board)) {
  const cells = board.map((exponent) =>
    make("span", { class: `small-cell t${exponent}` }, exponent ? shortTile(exponent) : ""),
  );
  return make("div.small-board", { role: "img", "aria-label": label }, ...cells);
}

/** Show another board in a small one. */
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

/** 16k for 16384: what fits into a small cell. */
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
