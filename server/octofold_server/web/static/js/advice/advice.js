/** The advice of a model and a judge about a board: choosers of models, the verdict, the moves and the views. */

import { Gone, Refused } from "../ask/server.js";
import { loadingText } from "../ask/models.js";
import { askViews } from "../ask/views.js";
import { store, stored } from "../storage.js";
import { announce, make } from "../../viewer/dom.js";
import { MOVE_NAMES } from "../../viewer/rules.js";
import { describeMove } from "./verdict.js";
import { modelSelect } from "./model_select.js";
import { MovesPanel } from "./moves_panel.js";
import { ViewsPanel } from "./views_panel.js";
import { costOf, costText, worthOf } from "../../viewer/worth.js";

const SLOW_MS = 700; // time after which the panel shows that it waits, and hides the answer for the previous board
const DELAY_MS = 60; // delay of a request, so that of several quick moves only the last board is requested

/** A panel of advice for one board at a time. */
export class Advice {
  /**
   * @param {HTMLElement} root
   * @param {object} source the source of moves
   * @param {import("../ask/models.js").Models} models the models to choose from
   * @param {{onModels?: () => void, judge?: object, choosers?: HTMLElement, hidesBy?: string}} options
   *   `onModels` is called when another model or judge is chosen; `judge` is the initial judge; `choosers` is the
   *   parent of the choosers, by default `root`; with `hidesBy`, the user can hide the advice, and this storage
   *   key records it
   */
  constructor(root, source, models, { onModels = () => {}, judge, choosers = root, hidesBy } = {}) {
    this._source = source;
    this._models = models;
    this._number = 0; // number of the newest request; answers to older ones are dropped
    const changed = () => {
      this._judge.update();
      onModels();
      const { _board: board, _played: played } = this;
      if (board) {
        this.clear(); // removes the other model's answer
        this.ask(board, played);
      }
    };
    this._model = modelSelect("Model", models, { on: changed, first: models.first });
    const without = () => this._model.chosen;
    this._judge = modelSelect("Judge", models, { none: "no judge", on: changed, first: judge, without });
    models.addEventListener("loading", () => this._isWaiting && this._sayWaiting());
    this._verdict = make("p.verdict");
    const moves = make("div");
    const views = make("div.views-box");
    const hide = make("button.quiet", { type: "button", on: { click: () => show(!this._isHidden) } });
    choosers.append(make("div.pickers", {}, this._model.label, this._judge.label, hidesBy ? hide : null));
    root.append(this._verdict, moves, views);
    const show = (isHidden) => {
      this._isHidden = isHidden;
      hide.textContent = isHidden ? "Show advice" : "Hide advice";
      for (const part of [this._verdict, moves, views]) part.hidden = isHidden;
      if (this._board) this.ask(this._board, this._played);
      if (hidesBy) store(hidesBy, isHidden);
    };
    this._moves = new MovesPanel(moves);
    this._views = new ViewsPanel(views);
    this.clear();
    show(Boolean(hidesBy) && stored(hidesBy) === "true");
  }

  /** The chosen model; undefined if none is ready. */
  get model() {
    return this._model.chosen;
  }

  /** The chosen judge; undefined for none. */
  get judge() {
    return this._judge.chosen;
  }

  /** The answer of the model for the shown board; null before it has arrived. */
  get answer() {
    return this._answer ?? null;
  }

  /** The judge with its answer, or else the model with its answer; null if neither has answered with a move. */
  get best() {
    const [model, answer] = this._judged ? [this.judge, this._judged] : [this.model, this._answer];
    return answer && answer.move >= 0 ? { model, answer } : null;
  }

  /** Which moves the model and the judge prefer to a player's move; empty if none, or before they have answered. */
  commentOn(move) {
    const others = [
      [this.model, this._answer],
      [this.judge, this._judged],
    ].filter(([, answer]) => answer && answer.move >= 0 && answer.move !== move);
    return others
      .map(([model, answer]) => {
        const worth = worthOf(model, answer);
        const cost = worth && costOf(worth, move);
        return `${model.name} prefers ${MOVE_NAMES[answer.move]}${cost ? `, worth ${costText(worth.scale, cost)} more` : ""}.`;
      })
      .join(" ");
  }

  clear(text = "") {
    this._number += 1;
    this._isWaiting = false;
    this._board = this._answer = this._judged = null;
    this._say(text);
    this._showNothing();
  }

  _showNothing() {
    this._moves.show(null);
    this._views.show(null, -1);
  }

  /**
   * Ask about a board and show the answers.
   *
   * @param {number[]} board
   * @param {number} played the move that was made on the board; -1 for none
   * @param {{aloud?: boolean}} options `aloud`: announce the verdict to screen readers, even if the advice is
   *   hidden
   */
  async ask(board, played = -1, { aloud = false } = {}) {
    const number = (this._number += 1);
    [this._board, this._played, this._answer, this._judged] = [board, played, null, null];
    this._isWaiting = false;
    if (!this.model || (this._isHidden && !aloud)) return;
    if (!aloud) await new Promise((resolve) => setTimeout(resolve, DELAY_MS));
    if (number !== this._number) return;
    const { model, judge } = this;
    const slow = setTimeout(() => {
      if (number !== this._number) return;
      this._isWaiting = true;
      this._showNothing();
      this._sayWaiting();
    }, SLOW_MS);
    try {
      const [{ answer, views }, judged] = await Promise.all([
        askViews(this._source, model, board),
        judge ? this._source.infer(judge, [board]).then(([first]) => first) : null,
      ]);
      if (number !== this._number) return;
      this._show(answer, judged, played);
      const over = answer.move < 0;
      this._views.show(views, answer.move, views || over || !answer.votes ? "" : withoutViews(model, answer));
      if (aloud) announce(this._verdict.textContent);
    } catch (error) {
      if (number !== this._number) return;
      if (!(error instanceof Refused || error instanceof Gone)) throw error;
      this._showNothing();
      this._say(error.message);
      if (error.status === 404) this._models.refresh().catch(() => {}); // the model was removed
      if (error instanceof Gone) this._source.whenBack().then(() => number === this._number && this.ask(board, played));
    } finally {
      clearTimeout(slow);
      if (number === this._number) this._isWaiting = false;
    }
  }

  /** Show a known answer, without views. */
  showKnown(answer, judged = null, played = -1) {
    this._number += 1;
    this._board = null;
    this._show(answer, judged, played);
    if (!this._views.isEmpty) this._views.show(null, -1, "At this speed, the views are hidden. They come back when the game is slower.");
  }

  /** Show that an answer is awaited, and whether the server is loading the model or the judge for it. */
  _sayWaiting() {
    const awaited = [this.model, this.judge].find((model) => model && loadingText(model)) ?? this.model;
    const loading = loadingText(awaited);
    this._say(loading ? `${awaited.name} is ${loading}.` : `Waiting for ${awaited.name}…`);
  }

  _say(text) {
    this._verdict.textContent = text;
  }

  _show(answer, judged, played) {
    this._answer = answer;
    this._judged = judged;
    const judge = judged && this.judge ? { model: this.judge, answer: judged } : null;
    this._moves.show({ model: this.model, answer }, judge, played);
    const { plays, because } = describeMove(this.model, answer);
    const parts = [make("strong", {}, plays), `${because} `];
    if (judge && answer.move >= 0) parts.push(judgment(judge, answer));
    this._verdict.replaceChildren(...parts);
  }
}

/** Explain why the views of a model cannot be shown. */
function withoutViews(model, { votes, why_no_views: why }) {
  const count = votes.reduce((sum, each) => sum + each, 0);
  const voted = votes.map((each, move) => [each, MOVE_NAMES[move]]).filter(([each]) => each);
  const [most, ...others] = voted.sort(([a], [b]) => b - a);
  if (!most) return `${model.name} does not show how its views vote.`;
  const rest = others.map(([each, name]) => `, ${each} ${name}`).join("");
  return (
    `${most[0]} of ${model.name}'s ${count} views vote ${most[1]}${rest}. The votes of single views cannot be shown, ` +
    `because ${why ?? "its graph does not output the answers of single views"}. Asking about turned boards would not ` +
    "show them either, because each answer merges all views."
  );
}

function judgment({ model, answer: judged }, answer) {
  if (judged.move === answer.move) return make("span.agrees", {}, `${model.name} agrees.`);
  const worth = worthOf(model, judged);
  const cost = worth && costOf(worth, answer.move);
  const more = cost ? `, worth ${costText(worth.scale, cost)} more` : "";
  return make("span.differs", {}, `${model.name} would play ${MOVE_NAMES[judged.move]}${more}.`);
}
