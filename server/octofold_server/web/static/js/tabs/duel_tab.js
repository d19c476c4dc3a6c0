/** The Duel tab: two models play side by side, with new tiles from the same random numbers. */

import { modelSelect } from "../advice/model_select.js";
import { Autoplay } from "../../viewer/autoplay.js";
import { Gone, Refused } from "../ask/server.js";
import { BoardView } from "../../viewer/board_view.js";
import { isForPage } from "../../viewer/input.js";
import { announce, grouped, make } from "../../viewer/dom.js";
import { Game, randomSeed } from "../game/game.js";
import { largestOf, tileOf } from "../../viewer/rules.js";
import { SpeedControl } from "../../viewer/speed_control.js";

/** Make the tab in an empty section. */
export const open = (root, page) => new DuelTab(root, page);

class DuelTab {
  constructor(root, { source, models, open: study }) {
    this._source = source;
    this._study = study;
    this._sides = [0, 1].map((number) => newSide(number, models, () => this.begin(this._seed)));
    this._autoplay = new Autoplay(
      () => this._step(),
      () => this._speed.update(),
    );
    const controls = make("div.controls");
    this._speed = new SpeedControl(controls, this._autoplay, { models, verb: "Let both play" });
    this._seedField = make("input", {
      type: "text",
      inputmode: "numeric",
      id: "duel-seed",
      on: { change: () => this._beginEnteredSeed() },
    });
    this._lead = make("p.verdict", { role: "status" });
    const button = (text, click) => make("button", { type: "button", on: { click } }, text);
    root.append(
      make(
        "div.duel-bar",
        {},
        controls,
        make("label.seeded", { for: "duel-seed" }, "Seed ", this._seedField),
        button("New seed", () => this.begin(randomSeed())),
        button("Start again", () => this.begin(this._seed)),
      ),
      make("div.duel", {}, ...this._sides.map((side) => side.element)),
      this._lead,
      make("p.note", {}, "Both begin with the same board, and get new tiles from the same random numbers. At full speed, neither waits for the other."),
    );
    this.begin(randomSeed());
  }

  /** Begin both games of a seed. */
  begin(seed) {
    this._autoplay.stop();
    this._seed = seed;
    this._seedField.value = String(seed);
    for (const side of this._sides) {
      side.game = new Game(seed);
      this._show(side, null);
    }
    this._compare();
  }

  onKey(event) {
    if (!isForPage(event) || event.key !== " " || event.target.closest("button, a")) return false;
    this._autoplay.toggle();
    return true;
  }

  leave() {
    this._autoplay.stop();
  }

  _beginEnteredSeed() {
    const text = this._seedField.value.trim();
    if (/^\d{1,20}$/.test(text) && BigInt(text) < 2n ** 64n) this.begin(BigInt(text));
    else this._seedField.value = String(this._seed);
  }

  /** Let each model make a move; returns whether a game continues. At full speed, neither waits for the other. */
  async _step() {
    if (!this._sides.every(({ model }) => model.chosen)) return false;
    const turns = this._sides
      .filter(({ game }) => !game.isOver)
      .map((side) => (side.turn ??= this._move(side).finally(() => (side.turn = null))));
    try {
      if (turns.length) await (this._autoplay.delay ? Promise.all(turns) : Promise.race(turns));
    } catch (error) {
      if (error instanceof Gone) {
        await this._source.whenBack();
        return true;
      }
      if (!(error instanceof Refused)) throw error;
      this._lead.textContent = error.message;
      return false;
    }
    this._compare();
    const goesOn = this._sides.some((side) => !side.game.isOver);
    if (!goesOn) announce(this._lead.textContent);
    return goesOn;
  }

  async _move(side) {
    const { game, model } = side;
    const [answer] = await this._source.infer(model.chosen, [game.board]);
    if (game !== side.game) return;
    const played = game.play(answer.move);
    this._show(side, this._autoplay.isSlow ? played : null);
  }

  _show(side, played) {
    const { game } = side;
    if (played) side.view.move(played, game.board);
    else side.view.show(game.board);
    side.score.textContent = grouped(game.score);
    const over = game.isOver ? ", game over" : "";
    const moves = game.moves.length === 1 ? "1 move" : `${grouped(game.moves.length)} moves`;
    side.state.textContent = `${moves}, tile ${tileOf(largestOf(game.board))}${over}`;
    side.study.disabled = !game.moves.length;
    side.study.onclick = () => this._study([game.record()], `${side.model.chosen?.name ?? "Game"}, seed ${game.seed}`);
  }

  _compare() {
    const [left, right] = this._sides;
    const difference = left.game.score - right.game.score;
    const ahead = difference > 0 ? left : right;
    const isOver = left.game.isOver && right.game.isOver;
    const name = ahead.model.chosen?.name ?? "";
    if (!difference) this._lead.textContent = left.game.moves.length ? "The scores are equal." : "";
    else if (isOver) this._lead.textContent = `${name} wins by ${grouped(Math.abs(difference))} points.`;
    else this._lead.textContent = `${name} is ahead by ${grouped(Math.abs(difference))} points.`;
  }
}

function newSide(number, models, on) {
  const board = make("div");
  const side = {
    model: modelSelect(number ? "Right" : "Left", models, { on, first: number ? models.rival : models.first }),
    score: make("span.big"),
    state: make("span.note"),
    study: make("button", { type: "button" }, "Study this game"),
    view: new BoardView(board, `Board of the model on the ${number ? "right" : "left"}`),
  };
  side.element = make(
    "div.side",
    {},
    side.model.label,
    make("div.side-score", {}, side.score, side.state),
    board,
    make("div.buttons", {}, side.study),
  );
  return side;
}
