/** The Play tab: a game that is played by keys, swipes or a model, with advice beside it. */

import { Advice } from "../advice/advice.js";
import { Autoplay } from "../../viewer/autoplay.js";
import { Gone, Refused } from "../ask/server.js";
import { Arrow } from "../../viewer/arrow.js";
import { BoardView } from "../../viewer/board_view.js";
import { isForPage, moveOf, onSwipe } from "../../viewer/input.js";
import { announce, byId, grouped, make } from "../../viewer/dom.js";
import { describeCell, formatBoard, parseBoard } from "../../viewer/board_text.js";
import { Game, randomSeed } from "../game/game.js";
import { dropGame, keepGame, keptGames, ownGame, restored } from "../game/kept_games.js";
import { MOVE_NAMES, largestOf, tileOf } from "../../viewer/rules.js";
import { exerciseOf } from "../practice/exercise_of.js";
import { FULL, Notebook, UNKEPT } from "../practice/notebook.js";
import { copyOnClick } from "../shell.js";
import { store, stored } from "../storage.js";
import { Editor } from "./editor.js";
import { SpeedControl } from "../../viewer/speed_control.js";

const BEST_KEY = "octofold.best";
const HIDES_KEY = "octofold.advice-hidden";
const FIRST_BOARD = "00001000542268ab"; // from the middle of a game; most views agree on it, but not all
const WIN = 11; // the exponent of 2048
const PANEL_MS = 90; // minimum time between two updates of the advice while a model plays fast

export class PlayTab {
  /**
   * @param {object} source the source of moves
   * @param {import("../ask/models.js").Models} models the models to choose from
   * @param {{board?: number[], onStudy: (record: object) => void}} options `board` is the board to begin with;
   *   `onStudy` opens a game in the replay tab
   */
  constructor(source, models, { board, onStudy }) {
    this._source = source;
    this._view = new BoardView(byId("play-board"), "Board of 2048");
    this._arrow = new Arrow(byId("play-stage"));
    this._advice = new Advice(byId("play-advice"), source, models, { hidesBy: HIDES_KEY });
    this._autoplay = new Autoplay(
      () => this._stepOfModel(),
      (isRunning) => this._runs(isRunning),
    );
    this._speed = new SpeedControl(byId("play-controls"), this._autoplay, { models });
    this._best = Number(stored(BEST_KEY)) || 0;
    this._earlier = []; // games from before edits of the board, for undo
    this._editor = new Editor({
      stage: byId("play-stage"),
      bar: byId("play-edit-bar"),
      board: () => this.game.board,
      onBoard: (board) => this._edit(board),
    });
    this._shown = 0; // time of the last update of the advice
    this._connect(onStudy);
    // A game from the board of a link has no score of the player's own, and must not replace the kept game.
    const kept = board ? linked(board) : ownGame();
    const isFirst = !kept && stored(BEST_KEY) === null;
    this.begin(kept ?? (isFirst ? linked(parseBoard(FIRST_BOARD)) : new Game(randomSeed())));
    if (isFirst) byId("play-comment").textContent = "This is an example from the middle of a game. “New game” begins a game of your own.";
  }

  /** Show a game in place of the previous one. */
  begin(game, earlier = []) {
    this._autoplay.stop();
    this.game = game;
    this._earlier = earlier;
    this._view.show(game.board);
    this._update();
  }

  /** Handle a key press while the tab is shown; returns whether it was for the game. */
  onKey(event) {
    if (!isForPage(event)) return false;
    const move = moveOf(event);
    const key = event.key.toLowerCase();
    if (move !== undefined) this.play(move);
    else if (key === "u" || key === "backspace") this.undo();
    else if (key === "h") this.showBestMoveArrow();
    else if (key === "n") this.restart();
    else if (key === " " && !event.target.closest("button, a, summary")) this._autoplay.toggle();
    else return false;
    return true;
  }

  /** Show an edited board, from which a game may continue. Undo restores the previous game. */
  _edit(board) {
    this.begin(linked(board), [...this._earlier, this.game]);
  }

  /** Make a move of the player. */
  play(move) {
    this._autoplay.stop();
    const comment = this._advice.commentOn(move);
    const before = largestOf(this.game.board);
    const played = this.game.play(move);
    if (!played) {
      this._view.refuse();
      announce(this.game.isOver ? "The game is over." : `${MOVE_NAMES[move]} is not legal.`);
      return;
    }
    this._view.move(played, this.game.board);
    const hasWon = before < WIN && largestOf(this.game.board) === WIN;
    this._update({ comment: comment && `You went ${MOVE_NAMES[move]}; ${comment}`, hasWon });
    const gain = played.reward ? `, plus ${played.reward}` : "";
    const tile = `New ${tileOf(played.spawn.exponent)} at ${describeCell(played.spawn.cell)}.`;
    const over = this.game.isOver ? " No move is left. The game is over." : hasWon ? " You win." : "";
    announce(`${MOVE_NAMES[move]}. Score ${grouped(this.game.score)}${gain}. ${tile}${over}`);
  }

  undo() {
    this._autoplay.stop();
    if (!this.game.undo()) {
      if (!this._earlier.length) return;
      this.game = this._earlier.pop();
    }
    this._view.show(this.game.board);
    this._update();
    announce(`Undone. Score ${grouped(this.game.score)}.`);
  }

  /** Show the model's move with an arrow. */
  async showBestMoveArrow() {
    await this._advice.ask(this.game.board, -1, { aloud: true });
    const move = this._advice.answer?.move ?? -1;
    if (move < 0) return;
    this._arrow.point(move);
  }

  /** Begin another game. An unfinished game stays among the other games. */
  restart() {
    const { game } = this;
    this.begin(new Game(randomSeed()));
    if (game.moves.length && !game.isOver) byId("play-comment").textContent = "Your previous game is kept. You can open it below the board.";
    announce("A new game.");
  }

  /** Add the board to the notebook, with the move of the judge, or else of the model. */
  async _practice() {
    if (!this._advice.best) await this._advice.ask(this.game.board, -1, { aloud: true });
    const judged = this._advice.best;
    if (!judged) {
      byId("play-comment").textContent = "The model has not answered yet.";
      return;
    }
    const notebook = new Notebook();
    const added = notebook.add([exerciseOf(this.game.board, judged, `your game, move ${this.game.moves.length}`, this.game.score)]);
    const why = notebook.isFull ? FULL : "This board is already an exercise.";
    const said = added ? "This board is now an exercise in Practice." : why;
    byId("play-comment").textContent = notebook.isKept ? said : `${said} ${UNKEPT}`;
  }

  /** Let the model make one move; returns whether the game continues. */
  async _stepOfModel() {
    const { game } = this;
    const { board } = game;
    const { model } = this._advice;
    if (!model || game.isOver) return false;
    let answer;
    try {
      [answer] = await this._source.infer(model, [board]);
    } catch (error) {
      if (error instanceof Gone) {
        await this._source.whenBack(); // the next step asks again
        return true;
      }
      if (!(error instanceof Refused)) throw error;
      announce(error.message);
      this._advice.clear(error.message);
      return false;
    }
    if (game !== this.game || board !== game.board) return false; // the player has moved meanwhile
    const before = largestOf(board);
    const played = game.play(answer.move);
    if (!played) return false;
    const hasWon = before < WIN && largestOf(game.board) === WIN;
    if (this._autoplay.isSlow) this._view.move(played, game.board);
    else this._view.show(game.board);
    const comment = hasWon ? `${model.name} has reached the tile 2048 after ${grouped(game.moves.length)} moves.` : undefined;
    this._update({ answer, comment });
    return !game.isOver;
  }

  _runs(isRunning) {
    this._speed.update();
    announce(isRunning ? "The model plays." : `Stopped. Score ${grouped(this.game.score)}.`);
    if (!isRunning) this._update();
  }

  /**
   * Show score, buttons and advice for the board.
   *
   * @param {{answer?: object, comment?: string, hasWon?: boolean}} last the last move: `answer` is the answer of the
   *   model that made it, `comment` what model and judge say about a move of the player, and `hasWon` whether it
   *   made the tile 2048
   */
  _update({ answer, comment, hasWon = false } = {}) {
    const { game } = this;
    this._arrow.point(-1);
    if (comment !== undefined || !answer) byId("play-comment").textContent = comment ?? "";
    byId("play-score").textContent = grouped(game.score);
    byId("play-moves").textContent = grouped(game.moves.length);
    if (answer) game.isHelped = true; // a model's score is not the player's best
    if (!game.isHelped && game.score > this._best) {
      this._best = Math.max(game.score, Number(stored(BEST_KEY)) || 0); // another tab may have a better one
      store(BEST_KEY, this._best);
    }
    byId("play-best").textContent = grouped(this._best);
    this._showEnd(hasWon);
    byId("play-undo").disabled = !game.canUndo && !this._earlier.length;
    this._editor.update();
    byId("play-study").disabled = !game.moves.length;
    byId("play-seed").textContent = String(game.seed);
    if (answer && !this._autoplay.isSlow && !game.isOver) {
      const now = performance.now();
      if (now - this._shown > PANEL_MS) {
        this._shown = now;
        this._advice.showKnown(answer);
      }
    } else {
      this._advice.ask(game.board);
    }
    byId("play-link").href = `?board=${formatBoard(game.board)}`;
    // After this, a reload restores the game, and not the board of the link with which it began.
    if (location.search && game.moves.length && !game.isOver) history.replaceState(null, "", location.pathname + location.hash);
    if (this._autoplay.isSlow) this._keep();
  }

  /** Keep the game, and offer the other kept games. */
  _keep() {
    const { game } = this;
    if (game.isOver) dropGame(game);
    else if (game.moves.length) byId("play-unkept").hidden = keepGame(game);
    const others = keptGames().filter(({ id }) => id !== game.id);
    const click = (kept) => () => this.begin(restored(kept) ?? this.game);
    byId("play-others").hidden = !others.length;
    byId("play-others").replaceChildren(
      "Other games: ",
      ...others.map((kept) => make("button.link", { type: "button", on: { click: click(kept) } }, `${grouped(kept.score)} points`)),
    );
  }

  /** Show that the game is over or won. A won game continues. */
  _showEnd(hasWon) {
    const { game } = this;
    byId("play-over").hidden = !game.isOver && !hasWon;
    byId("play-go-on").hidden = game.isOver;
    byId("play-why").hidden = byId("play-over-undo").hidden = !game.isOver || !game.canUndo;
    if (this._editor.isOpen) byId("play-over").hidden = true; // it would cover the cells to click
    if (byId("play-over").hidden) return;
    byId("play-over-title").textContent = game.isOver ? "Game over" : "You made 2048!";
    const tile = game.isOver ? `No move is left. ${grouped(game.score)} points, tile ${tileOf(largestOf(game.board))}` : "";
    byId("play-over-text").textContent = tile || `You win with ${grouped(game.score)} points. You can keep going.`;
  }

  _connect(onStudy) {
    onSwipe(byId("play-stage"), (move) => this.play(move));
    byId("play-new").addEventListener("click", () => this.restart());
    byId("play-again").addEventListener("click", () => this.restart());
    byId("play-undo").addEventListener("click", () => this.undo());
    byId("play-go-on").addEventListener("click", () => (byId("play-over").hidden = true));
    byId("play-over-undo").addEventListener("click", () => this.undo());
    byId("play-hint-button").addEventListener("click", () => this.showBestMoveArrow());
    byId("play-edit").addEventListener("click", () => {
      this._editor.toggle();
      byId("play-edit").setAttribute("aria-expanded", String(this._editor.isOpen));
      this._update();
    });
    copyOnClick(byId("play-link"));
    addEventListener("pagehide", () => this._autoplay.stop()); // stopping also stores the game
    byId("play-practice").addEventListener("click", () => this._practice());
    for (const id of ["play-study", "play-why"]) {
      byId(id).addEventListener("click", () => onStudy(this.game.record()));
    }
  }
}

/** A game that begins with the board of a link. */
const linked = (start) => Object.assign(new Game(randomSeed(), { start }), { isHelped: true });
