/** A viewer that steps through a game, for the page and the HTML report: board, figures, controls and curve. */

import { Arrow } from "./arrow.js";
import { Autoplay } from "./autoplay.js";
import { BoardView } from "./board_view.js";
import { Curve } from "./curve.js";
import { grouped, make } from "./dom.js";
import { isForPage } from "./input.js";
import { positions } from "./replays.js";
import { MOVE_NAMES, largestOf, legalMoves, slide, tileOf } from "./rules.js";
import { SpeedControl } from "./speed_control.js";

const STEPS = { ArrowRight: 1, ArrowLeft: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity };

export class GameViewer {
  /** @param {{onSeek?: (move: number) => void}} options called for every shown position */
  constructor({ onSeek = () => {} } = {}) {
    this._onSeek = onSeek;
    Object.assign(this, { moves: [], boards: [], scores: [], at: 0 });
    const board = make("div", { tabindex: 0 });
    const stage = make("div.stage", {}, board);
    const controls = make("div.controls");
    this._figures = ["Score", "Move", "Tile"].map((name) => [make("dt", {}, name), make("dd")]);
    /** A sentence about the next move. */
    this.said = make("p.verdict.short");
    /** The row of step buttons, to which more buttons can be added. */
    this.steps = make("div.buttons.steps", {}, this._stepButton("‹", "One move back", -1), this._stepButton("›", "One move on", 1));
    this.element = make("div.left", {}, make("dl.scores", {}, ...this._figures.map((pair) => make("div", {}, ...pair))), stage, this.said, controls, this.steps);
    this.curve = new Curve((move) => this.seek(move));
    this._view = new BoardView(board, "Board of the game");
    this._arrow = new Arrow(stage);
    this._autoplay = new Autoplay(() => this._forward(), () => this._speed.update());
    this._autoplay.speed = 3;
    this._speed = new SpeedControl(controls, this._autoplay, { verb: "Play" });
  }

  /** Whether there is time to look at each position. */
  get isSlow() {
    return this._autoplay.isSlow;
  }

  /**
   * Show a game.
   *
   * @param {import("./replays.js").GameRecord} record
   * @param {number} at the number of moves before the position to begin with; Infinity for the last one
   * @throws {Error} a move breaks the rules
   */
  open({ start, moves }, at = 0) {
    this.stop();
    Object.assign(this, { moves, ...positions(start, moves), at: 0 }); // keeps the decoded moves
    this.curve.open(this.boards, this.scores);
    this.seek(at);
  }

  /** Show the position before a move. */
  seek(move, { animate = false } = {}) {
    if (!this.boards.length) return;
    const before = this.at;
    this.at = Math.min(Math.max(0, move), this.moves.length);
    const board = this.boards[this.at];
    const next = this.moves[this.at];
    if (animate && this.at === before + 1) {
      const made = this.moves[before];
      this._view.move({ steps: slide(this.boards[before], made.move).steps, spawn: made }, board);
    } else {
      this._view.show(board);
    }
    this.curve.at = this.at;
    const texts = [grouped(this.scores[this.at]), `${grouped(this.at)} of ${grouped(this.moves.length)}`, grouped(tileOf(largestOf(board)))];
    this._figures.forEach(([, figure], i) => (figure.textContent = texts[i]));
    const end = legalMoves(board).some(Boolean) ? "The record ends here." : "No move is left: the game is over.";
    this.said.textContent = next ? `The player goes ${MOVE_NAMES[next.move]}. ` : end;
    this.point(-1);
    this._onSeek(this.at);
  }

  /** Show an arrow for a move, as `Arrow.point` does. */
  point(move, kind = "") {
    this._arrow.point(move, kind);
  }

  stop() {
    this._autoplay.stop();
  }

  /** Handle a key press; returns whether it was for the game. */
  onKey(event) {
    if (!isForPage(event) || !this.boards.length) return false;
    if (event.key in STEPS) this._step(STEPS[event.key]);
    else if (event.key === " " && !event.target.closest("button, a")) this._autoplay.toggle();
    else return false;
    return true;
  }

  _stepButton(text, label, by) {
    return make("button", { type: "button", "aria-label": label, title: label, on: { click: () => this._step(by) } }, text);
  }

  _step(by) {
    this.stop();
    this.seek(this.at + by);
  }

  /** Show the next position. After the end, the game begins again. Returns whether it continues. */
  async _forward() {
    const isOver = this.at >= this.moves.length;
    this.seek(isOver ? 0 : this.at + 1, { animate: this.isSlow });
    return this.at < this.moves.length;
  }
}
