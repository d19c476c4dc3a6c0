/** Replay: the games of a file, with a curve and what a model and a judge think of their moves. */

import { Advice } from "../advice/advice.js";
import { toldCost, toldThreshold, unitOf } from "../advice/worth.js";
import { Autoplay } from "../ask/autoplay.js";
import { Gone, Refused } from "../ask/server.js";
import { Arrow } from "../board/arrow.js";
import { BoardView } from "../board/board_view.js";
import { isForPage } from "../board/input.js";
import { announce, grouped, make } from "../dom.js";
import { formatBoard } from "../game/board_text.js";
import { ReplayReader, isReplay, positions } from "../game/replays.js";
import { isVerse, readVerse } from "../game/verse.js";
import { MOVE_NAMES, largestOf, slide, tileOf } from "../game/rules.js";
import { Curve } from "../replay/curve.js";
import { GameList } from "../replay/game_list.js";
import { replayLayout } from "../replay/layout.js";
import { MoveList } from "../replay/move_list.js";
import { better, isDisputed, isMistake, study, tally } from "../replay/study.js";
import { Notebook } from "../practice/notebook.js";
import { gameText } from "../replay/text.js";
import { saveFile } from "../storage.js";
import { SpeedControl } from "./speed_control.js";

const MAX_FILE_BYTES = 512 << 20;
const MOST_EXERCISES = 30; // of one game
const ASK_MS = 250; // after the last jump, until the advice follows

/** Make the tab in an empty section. */
export const open = (root, page) => new ReplayTab(root, page);

class ReplayTab {
  constructor(root, page) {
    this._page = page;
    this._at = 0;
    this._studies = 0; // number of the newest study; older ones end
    this._loads = 0; // number of the newest games to show; older ones are dropped
    const listeners = {
      onFile: (file) => this._loadFile(file),
      onStep: (by) => this.seek(this._at + by),
      onDispute: (direction) => this._jump(direction, isDisputed, "disagreement"),
      onMistake: (direction) => this._jumpToMistake(direction),
      onPractise: () => this._practise(),
      onText: () => saveFile(`game-${this._record.game}.txt`, gameText(this._saved())),
      onGif: () => this._saveGif(),
    };
    const ui = (this._ui = replayLayout(root, listeners, page.source.hasResults));
    this._view = new BoardView(ui.board, "Board of the replay");
    this._arrow = new Arrow(ui.stage);
    this._curve = new Curve(ui.curve, (move) => this.seek(move));
    this._moveList = new MoveList(ui.moves, (move) => this.seek(move));
    this._list = new GameList(ui.games, (record) => this._show(record, 0));
    const { models } = page;
    const judge = models.all.find((model) => unitOf(model) && model !== models.first);
    this._advice = new Advice(ui.advice, page.source, models, {
      onModels: () => this._study(),
      judge,
      choosers: ui.choosers,
    });
    this._autoplay = new Autoplay(
      () => this._forward(),
      () => this._speed.update(),
    );
    this._autoplay.speed = 3;
    this._speed = new SpeedControl(ui.controls, this._autoplay, { verb: "Play" });
  }

  /** Show what the address names: `#replay`, or `#replay/RESULT/GAME/MOVE` of a result of the server. */
  async enter([result, game, move]) {
    const { handed } = this._page;
    if (handed) {
      this._page.handed = null;
      if (handed.file) await this._loadFile(handed.file);
      else this._open(handed.games, handed.title);
    } else if (result && result !== this._result) {
      await this._loadResult(result, Number(game), Number(move) || 0);
    } else if (result && this._record) {
      if (Number(game) !== this._record.game) this._showGame(Number(game), Number(move) || 0);
      else if (Number(move) !== this._at) this.seek(Number(move) || 0);
    }
  }

  leave() {
    this._autoplay.stop();
  }

  onKey(event) {
    if (!isForPage(event) || !this._record) return false;
    const key = event.key.toLowerCase();
    const steps = { arrowright: 1, arrowleft: -1, pagedown: 10, pageup: -10, home: -Infinity, end: Infinity };
    if (key in steps) this.seek(this._at + steps[key]);
    else if (key === "d") this._jump(event.shiftKey ? -1 : 1, isDisputed, "disagreement");
    else if (key === "c") this._jumpToMistake(event.shiftKey ? -1 : 1);
    else if (key === " " && !event.target.closest("button, a")) this._autoplay.toggle();
    else return false;
    return true;
  }

  /** Show the position before a move. */
  seek(move, { animate = false } = {}) {
    if (!this._record) return;
    const moves = this._moves;
    const before = this._at;
    this._at = Math.min(Math.max(0, move), moves.length);
    const board = this._boards[this._at];
    if (animate && this._at === before + 1) {
      const made = moves[before];
      this._view.move({ steps: slide(this._boards[before], made.move).steps, spawn: made }, board);
    } else {
      this._view.show(board);
    }
    this._curve.at = this._at;
    this._describe();
    this._ask(board, moves[this._at]?.move ?? -1);
  }

  _open(games, title, result = "") {
    this._loads += 1;
    this._result = result;
    this._ui.title.textContent = title;
    this._ui.viewer.hidden = false;
    this._ui.viewer.parentElement.classList.add("has-game");
    this._list.games = games;
    this._games = games;
    this._show(this._list.worst, 0);
  }

  /** A load of games that replaces those on show; returns whether it is still the newest. */
  _newLoad() {
    const load = (this._loads += 1);
    this._result = null;
    return () => load === this._loads;
  }

  async _loadFile(file) {
    const isNewest = this._newLoad();
    try {
      if (file.size > MAX_FILE_BYTES) throw new Error(tooLarge(file.name));
      const reader = new ReplayReader();
      const bytes = await file.arrayBuffer();
      if (!isNewest()) return;
      const text = isReplay(bytes) ? "" : new TextDecoder().decode(bytes);
      if (isVerse(text)) {
        this._open([verseOf(text)], file.name);
        return;
      }
      const games = reader.push(new Uint8Array(bytes));
      reader.end();
      if (!games.length) throw new Error(`${file.name} contains no finished game.`);
      this._open(games, file.name);
    } catch (error) {
      if (isNewest()) this._problem(error.message);
    }
  }

  async _loadResult(result, game, move) {
    const isNewest = this._newLoad();
    this._ui.title.textContent = `Loading ${result}…`;
    try {
      const reader = new ReplayReader();
      const games = [];
      for (;;) {
        const piece = await this._page.source.resultFile(result, "games.replay", reader.bytes);
        if (!isNewest()) return;
        if (!piece?.bytes.length) break;
        if (reader.bytes + piece.bytes.length > MAX_FILE_BYTES) throw new Error(tooLarge(result));
        for (const each of reader.push(piece.bytes)) games.push(each);
      }
      if (!games.length) throw new Error(`There is no finished game in ${result}.`);
      this._open(games, result, result);
      if (Number.isInteger(game)) this._showGame(game, move);
    } catch (error) {
      if (isNewest()) this._problem(error.message);
    }
  }

  _problem(text) {
    this._ui.viewer.hidden = true;
    this._ui.viewer.parentElement.classList.remove("has-game");
    this._ui.title.textContent = text;
  }

  _showGame(number, move) {
    const record = this._games.find(({ game }) => game === number);
    if (record) this._show(record, move);
  }

  /** Show a game from a move on. */
  _show(record, move) {
    this._autoplay.stop();
    try {
      const { moves } = record; // a game of a file unpacks them each time
      const { boards, scores } = positions(record.start, moves);
      Object.assign(this, { _record: record, _moves: moves, _boards: boards, _scores: scores, _verdicts: [] });
    } catch (error) {
      this._problem(`Game ${record.game}: ${error.message}`);
      return;
    }
    this._list.chosen = record;
    this._curve.open(this._boards, this._scores);
    this._moveList.judge([]);
    this._at = 0;
    this.seek(move);
    this._study();
  }

  async _forward() {
    if (!this._record || this._at >= this._moves.length) return false;
    this.seek(this._at + 1, { animate: this._autoplay.isSlow });
    return this._at < this._moves.length;
  }

  _describe() {
    const { record, at, ui } = { record: this._record, at: this._at, ui: this._ui };
    const made = this._moves[at];
    ui.score.textContent = grouped(this._scores[at]);
    ui.move.textContent = `${grouped(at)} of ${grouped(record.length)}`;
    ui.tile.textContent = grouped(tileOf(largestOf(this._boards[at])));
    const verdict = this._verdicts[at];
    ui.said.replaceChildren(made ? `The player goes ${MOVE_NAMES[made.move]}. ` : "No move is left: the game is over.");
    this._arrow.point(-1);
    if (verdict && made) {
      const wrong = better(verdict) !== made.move;
      const cost = wrong && verdict.cost ? `, which costs ${toldCost(this._unit, verdict.cost)}` : "";
      const isBad = wrong && isMistake(verdict, this._unit);
      const prefers = `${this._judging.name} prefers ${MOVE_NAMES[better(verdict)]}${cost}.`;
      ui.said.append(wrong ? make("span", { class: isBad ? "costly" : "" }, prefers.replace("which", `${MOVE_NAMES[made.move]}`)) : "");
      this._arrow.point(better(verdict), isBad ? "is-wrong" : wrong ? "is-other" : "");
    }
    this._moveList.show(this._moves, this._verdicts, at, this._unit);
    ui.link.href = this._result
      ? `#replay/${encodeURIComponent(this._result)}/${record.game}/${at}`
      : `?board=${formatBoard(this._boards[at])}`;
    ui.link.textContent = this._result ? "Link to this move" : "Link to this board";
  }

  /** Ask for advice, once the jumps have come to rest. */
  _ask(board, played) {
    clearTimeout(this._asking);
    const wait = this._autoplay.isSlow ? 0 : ASK_MS;
    this._asking = setTimeout(() => this._advice.ask(board, played), wait);
  }

  /** Ask model and judge about all moves of the game. */
  async _study() {
    const number = (this._studies += 1);
    const { model, judge } = this._advice;
    const { progress, tally: text } = this._ui;
    if (!this._record || !model) return;
    const moves = this._moves.map(({ move }) => move);
    this._judging = judge ?? model;
    this._unit = unitOf(this._judging);
    for (const button of [...this._ui.mistakes, this._ui.practise]) button.disabled = !this._unit;
    progress.style.visibility = "visible";
    progress.value = 0;
    const onProgress = (share, verdicts) => {
      progress.value = share;
      this._verdicts = verdicts;
      this._curve.judge(verdicts, this._unit, this._judging.name);
      this._moveList.judge(verdicts, this._unit);
      this._showTally(tally(verdicts, { model, judge }), model, judge);
    };
    try {
      await study(this._page.source, { model, judge }, this._boards, moves, {
        onProgress,
        isWanted: () => number === this._studies,
      });
    } catch (error) {
      if (number !== this._studies) return;
      if (!(error instanceof Refused || error instanceof Gone)) throw error;
      text.textContent = error.message;
      if (error instanceof Gone) this._page.source.whenBack().then(() => this._study());
    }
    if (number !== this._studies) return;
    progress.style.visibility = "hidden";
    this._describe();
  }

  /** Put the costliest mistakes into the notebook, and open it. */
  _practise() {
    const found = this._verdicts
      .map((verdict, move) => ({ verdict, move }))
      .filter(({ verdict }) => isMistake(verdict, this._unit))
      .sort((a, b) => b.verdict.cost - a.verdict.cost)
      .slice(0, MOST_EXERCISES)
      .map(({ verdict, move }) => ({
        board: formatBoard(this._boards[move]),
        better: better(verdict),
        costs: verdict.costs,
        unit: this._unit,
        judge: this._judging.name,
        source: `${this._ui.title.textContent}, game ${this._record.game}, move ${move}`,
      }));
    const added = new Notebook().add(found);
    announce(`${added} new exercises.`);
    location.hash = "#practice";
  }

  _saved() {
    return { title: `${this._ui.title.textContent}, game ${this._record.game}`, boards: this._boards, scores: this._scores, moves: this._moves };
  }

  async _saveGif() {
    const { gameGif } = await import("../replay/gif.js");
    saveFile(`game-${this._record.game}.gif`, await gameGif(this._saved()), "image/gif");
  }

  _jumpToMistake(direction) {
    if (this._unit) this._jump(direction, (verdict) => isMistake(verdict, this._unit), "mistake");
    else announce("Choose a judge that has values: without one, nobody knows what a move costs.");
  }

  /** The accuracy with its formula, and how often others would have moved otherwise. */
  _showTally(found, model, judge) {
    const { accuracy, tally: text } = this._ui;
    const { name } = judge ?? model;
    const how = found.isRatio
      ? `100 × the mean, over ${grouped(found.count)} moves, of (value of the move) / (value of the best move)`
      : `${grouped(found.equal)} of ${grouped(found.count)} moves are those of ${name}`;
    const mistakes = found.unit
      ? ` · ${grouped(found.mistakes)} mistakes (a move that costs ${toldThreshold(found.unit)} or more)`
      : ` · ${name} has no values, so no move has a cost`;
    const total = found.cost ? `, ${grouped(found.cost)} points in all` : "";
    accuracy.replaceChildren(
      make("strong", {}, `${found.accuracy.toFixed(1)}% accuracy`),
      make("span.note", {}, ` by ${name}: ${how}${mistakes}${total}.`),
    );
    text.textContent = tallied(found, model, judge);
  }

  _jump(direction, isWanted, what) {
    for (let move = this._at + direction; this._verdicts[move]; move += direction) {
      if (!isWanted(this._verdicts[move])) continue;
      this.seek(move);
      announce(`Move ${move}.`);
      return;
    }
    announce(`There is no other ${what}.`);
  }
}

function verseOf(text) {
  try {
    return readVerse(text);
  } catch (error) {
    throw new Error(`This is not a replay file of Octofold, and as one of 2048verse.com it is damaged: ${error.message}`);
  }
}

const tooLarge = (name) => `${name} is larger than 512 MiB.`;

function tallied({ count, model: byModel, judge: byJudge, both }, model, judge) {
  const share = (number) => `${grouped(number)} (${((100 * number) / Math.max(1, count)).toFixed(1)}%)`;
  const parts = [`${model.name} would choose another move in ${share(byModel)} of ${grouped(count)} positions`];
  if (judge) parts.push(`, ${judge.name} in ${share(byJudge)}, both in ${share(both)}`);
  return `${parts.join("")}.`;
}
