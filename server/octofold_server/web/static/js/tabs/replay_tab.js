/** The Replay tab: the games of a file, with a curve and with the opinions of a model and a judge on the moves. */

import { Advice } from "../advice/advice.js";
import { Gone, Refused } from "../ask/server.js";
import { FULL, Notebook } from "../practice/notebook.js";
import { GameList } from "../replay/game_list.js";
import { replayLayout } from "../replay/layout.js";
import { MoveList } from "../replay/move_list.js";
import { addLuck, study, tally } from "../replay/study.js";
import { gameText } from "../replay/text.js";
import { saveFile } from "../storage.js";
import { formatBoard } from "../../viewer/board_text.js";
import { announce, grouped, make } from "../../viewer/dom.js";
import { GameViewer } from "../../viewer/game_viewer.js";
import { isForPage } from "../../viewer/input.js";
import { ReplayReader } from "../../viewer/replays.js";
import { MOVE_NAMES } from "../../viewer/rules.js";
import { better, costText, isDisputed, isMistake, mistakesOf, scaleOf, thresholdText } from "../../viewer/worth.js";

const MAX_FILE_BYTES = 512 << 20;
const MOST_EXERCISES = 30; // maximum exercises from one game
const MOST_RESULTS = 8; // maximum results in the list
const ASK_MS = 250; // delay of the advice after the last jump

/** Make the tab in an empty section. */
export const open = (root, page) => new ReplayTab(root, page);

class ReplayTab {
  constructor(root, page) {
    this._page = page;
    this._studies = 0; // number of the newest study; older studies end
    this._loads = 0; // number of the newest load of games; the games of older loads are dropped
    const listeners = {
      onFile: (file) => this._loadFile(file),
      onDispute: (direction) => this._jump(direction, isDisputed, "disagreement"),
      onMistake: (direction) => this._jumpToMistake(direction),
      onPractice: () => this._practice(),
      onText: () => saveFile(`game-${this._record.game}.txt`, gameText(this._saved())),
      onGif: () => this._saveGif(),
    };
    this._verdicts = [];
    this._viewer = new GameViewer({ onSeek: (at) => this._onSeek(at) });
    const ui = (this._ui = replayLayout(root, this._viewer, listeners));
    this._moveList = new MoveList(ui.moves, (move) => this._viewer.seek(move));
    this._list = new GameList(ui.games, (record) => this._show(record));
    const { models } = page;
    const judge = models.all.find((model) => scaleOf(model) && model !== models.first);
    this._advice = new Advice(ui.advice, page.source, models, {
      onModels: () => this._study(),
      judge,
      choosers: ui.choosers,
    });
  }

  /** Show what the address names: `#replay`, or `#replay/RESULT/GAME/MOVE` for a result of the server. */
  async enter([result, ...numbers]) {
    const { handed } = this._page;
    const [game, move] = numbers.map((text) => (/^\d{1,9}$/.test(text) ? Number(text) : undefined));
    if (handed) {
      this._page.handed = null;
      if (handed.file) await this._loadFile(handed.file);
      else this._open(handed.games, handed.title);
    } else if (result && result !== this._result) {
      await this._loadResult(result, game, move);
    } else if (result && this._games && game !== undefined) {
      if (game !== this._record?.game) this._showGame(game, move);
      else if (move !== undefined && move !== this._viewer.at) this._viewer.seek(move);
    }
    if (!this._games) await this._listResults();
  }

  leave() {
    this._viewer.stop();
  }

  onKey(event) {
    if (!isForPage(event) || !this._record) return false;
    const key = event.key.toLowerCase();
    if (key === "d") this._jump(event.shiftKey ? -1 : 1, isDisputed, "disagreement");
    else if (key === "c") this._jumpToMistake(event.shiftKey ? -1 : 1);
    else return this._viewer.onKey(event);
    return true;
  }

  _open(games, title, result = "") {
    this._loads += 1;
    Object.assign(this, { _result: result, _title: title, _games: games });
    this._list.games = games;
    this._show(this._list.worst);
  }

  /** Begin to load other games. Returns a function that tells whether this load is still the newest. */
  _newLoad() {
    const load = (this._loads += 1);
    this._result = this._games = null;
    return () => load === this._loads;
  }

  async _loadFile(file) {
    const isNewest = this._newLoad();
    try {
      if (file.size > MAX_FILE_BYTES) throw new Error(tooLarge(file.name));
      if (!file.size) throw new Error(`${file.name} is empty.`);
      const reader = new ReplayReader();
      const bytes = await file.arrayBuffer();
      if (!isNewest()) return;
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
        if (!piece) throw new Error(`There is no result named ${result}.`);
        if (!piece.bytes.length) break;
        if (reader.bytes + piece.bytes.length > MAX_FILE_BYTES) throw new Error(tooLarge(result));
        for (const each of reader.push(piece.bytes)) games.push(each);
      }
      if (!games.length) throw new Error(`There is no finished game in ${result}.`);
      this._open(games, result, result);
      if (game !== undefined) this._showGame(game, move);
    } catch (error) {
      if (!isNewest()) return;
      this._problem(error.message);
      if (!(error instanceof Gone)) return;
      await this._page.source.whenBack();
      if (isNewest()) await this._loadResult(result, game, move);
    }
  }

  _problem(text) {
    this._record = null;
    this._studies += 1; // ends the study of the previous game
    this._viewer.stop();
    this._ui.viewer.hidden = true;
    this._ui.viewer.parentElement.classList.remove("has-game");
    this._ui.title.textContent = text;
  }

  _showGame(number, move) {
    const record = this._games.find(({ game }) => game === number);
    if (record) this._show(record, move);
    else this._problem(`There is no game ${number} in ${this._title}.`);
  }

  /** Show a game at a move, by default at its end, which shows how it was lost. */
  _show(record, move = Infinity) {
    Object.assign(this, { _record: record, _verdicts: [] });
    try {
      this._viewer.open(record, move);
    } catch (error) {
      this._problem(`Game ${record.game}: ${error.message}`);
      return;
    }
    this._ui.title.textContent = this._title;
    this._ui.viewer.hidden = false;
    this._ui.viewer.parentElement.classList.add("has-game");
    this._list.chosen = record;
    this._moveList.judge([]);
    this._study();
  }

  /** Show the opinions of model and judge on the move in the current position. */
  _onSeek(at) {
    this._describe();
    this._ask(this._viewer.boards[at], this._viewer.moves[at]?.move ?? -1);
  }

  _describe() {
    const { _record: record, _ui: ui, _viewer: viewer } = this;
    const { at, moves } = viewer;
    const made = moves[at];
    const verdict = this._verdicts[at];
    const [goes] = viewer.said.childNodes;
    viewer.said.replaceChildren(goes);
    viewer.point(-1);
    if (verdict && made) {
      const wrong = better(verdict) !== made.move;
      const cost = wrong && verdict.cost ? `, ${MOVE_NAMES[made.move]} costs ${costText(this._scale, verdict.cost)}` : "";
      const isBad = wrong && isMistake(verdict);
      const prefers = `${this._judging.name} prefers ${MOVE_NAMES[better(verdict)]}${cost}.`;
      viewer.said.append(wrong ? make("span", { class: isBad ? "costly" : "" }, prefers) : "");
      viewer.point(better(verdict), isBad ? "is-wrong" : wrong ? "is-other" : "");
    }
    if (!made) viewer.said.append(" ", this._linkToWorst());
    this._moveList.show(moves, this._verdicts, at, this._scale);
    ui.link.href = this._result
      ? `#replay/${encodeURIComponent(this._result)}/${record.game}/${at}`
      : `?board=${formatBoard(viewer.boards[at])}`;
    ui.link.textContent = this._result ? "Link to this move" : "Link to this board";
  }

  /** Make a button that shows the worst mistake of the game; empty if no mistake is known. */
  _linkToWorst() {
    const [worst] = mistakesOf(this._verdicts);
    if (!worst) return "";
    const known = this._isStudying ? " so far" : "";
    const text = `The worst mistake${known} is move ${grouped(worst.move)}: it costs ${costText(this._scale, worst.verdict.cost)}.`;
    return make("button.link.costly", { type: "button", on: { click: () => this._viewer.seek(worst.move) } }, text);
  }

  /** Ask for advice, after a delay in which a further jump cancels it. */
  _ask(board, played) {
    clearTimeout(this._asking);
    const wait = this._viewer.isSlow ? 0 : ASK_MS;
    this._asking = setTimeout(() => this._advice.ask(board, played), wait);
  }

  /** Ask model and judge about all moves of the game. */
  async _study() {
    const number = (this._studies += 1);
    const { model, judge } = this._advice;
    const { asking, progress, asked, tally: text } = this._ui;
    if (!this._record || !model) return;
    const { boards, scores, moves } = this._viewer;
    this._judging = judge ?? model;
    this._scale = scaleOf(this._judging);
    for (const button of [...this._ui.mistakes, this._ui.practice]) button.disabled = !this._scale;
    this._verdicts = []; // removes the verdicts of the previous models
    this._describe();
    this._isStudying = true;
    asking.style.visibility = "visible";
    progress.value = 0;
    asked.textContent = `asking ${[model, judge].map((each) => each?.name).filter(Boolean).join(" and ")}`;
    const onProgress = (share, verdicts) => {
      const { at } = this._viewer;
      const isNews = at === moves.length || (verdicts[at] && !this._verdicts[at]);
      progress.value = share;
      asked.textContent = `${grouped(share * moves.length)} of ${grouped(moves.length)} moves`;
      this._verdicts = verdicts.slice();
      if (isNews) this._describe();
      this._viewer.curve.judge(verdicts, this._scale, this._judging.name);
      this._moveList.judge(verdicts, this._scale);
      this._showTally(tally(verdicts, { model, judge }), model, judge);
    };
    const isWanted = () => number === this._studies;
    try {
      const verdicts = await study(this._page.source, { model, judge }, { boards, scores, moves }, { onProgress, isWanted });
      if (isWanted() && this._scale?.unit === "points" && verdicts.every(({ value }) => value !== null)) {
        const onLuck = (share) => {
          progress.value = share;
          asked.textContent = "computing the luck of the tiles";
        };
        await addLuck(this._page.source, this._judging, { boards, moves }, verdicts, { onProgress: onLuck, isWanted });
        if (isWanted()) this._viewer.curve.judge(verdicts, this._scale, this._judging.name);
      }
    } catch (error) {
      if (number !== this._studies) return;
      if (!(error instanceof Refused || error instanceof Gone)) throw error;
      text.textContent = error.message;
      if (error instanceof Gone) this._page.source.whenBack().then(() => this._study());
    } finally {
      if (number === this._studies) {
        this._isStudying = false;
        asking.style.visibility = "hidden";
        this._describe();
      }
    }
  }

  /** Offer the newest results of the server while no game is shown. */
  async _listResults() {
    const results = await this._page.source.results().catch(() => null);
    if (!results) return; // the banner shows that the server does not answer
    const links = results
      .filter(({ games }) => games)
      .slice(0, MOST_RESULTS)
      .map(({ name, conditions: { model, version }, games }) => {
        const text = `${model}${version ? ` ${version}` : ""}, ${grouped(games)} ${games === 1 ? "game" : "games"}`;
        return make("li", {}, make("a", { href: `#replay/${encodeURIComponent(name)}`, title: name }, text));
      });
    const others = results.length ? "All results" : "No evaluation yet: see Watch";
    this._ui.results.replaceChildren(...links, make("li", {}, make("a", { href: "#watch" }, others)));
  }

  /** Add the costliest mistakes to the notebook, and open the Practice tab. */
  _practice() {
    const mistakes = mistakesOf(this._verdicts);
    const found = mistakes
      .slice(0, MOST_EXERCISES)
      .map(({ verdict, move }) => ({
        board: formatBoard(this._viewer.boards[move]),
        better: better(verdict),
        costs: verdict.costs,
        costly: verdict.costly,
        ...this._scale,
        judge: this._judging.name,
        source: `${this._ui.title.textContent}, game ${this._record.game}, move ${move}`,
      }));
    if (!found.length) {
      this._say(this._isStudying ? "No mistake has been found yet." : "No mistake was found.");
      return;
    }
    const notebook = new Notebook();
    const added = notebook.add(found);
    const isFull = notebook.isFull ? ` ${FULL}` : "";
    const most = mistakes.length > found.length ? `, the ${MOST_EXERCISES} costliest` : "";
    this._page.added = `${grouped(added)} new ${added === 1 ? "exercise" : "exercises"} from ${mistakesText(mistakes.length)}${most}.${isFull}`;
    location.hash = "#practice";
  }

  _saved() {
    const { boards, scores, moves } = this._viewer;
    return { title: `${this._ui.title.textContent}, game ${this._record.game}`, boards, scores, moves };
  }

  async _saveGif() {
    const { _record: record } = this;
    const saved = this._saved();
    let problem = "";
    this._say("Making the GIF…");
    try {
      const { gameGif } = await import("../replay/gif.js");
      saveFile(`game-${record.game}.gif`, await gameGif(saved), "image/gif");
    } catch (error) {
      problem = `The GIF could not be made: ${error.message}`;
    } finally {
      if (record === this._record) {
        if (problem) this._say(problem);
        else this._describe();
      }
    }
  }

  _jumpToMistake(direction) {
    if (this._scale) this._jump(direction, isMistake, "mistake");
    else this._say("Choose a judge with values. Without values, the costs of moves are not known.");
  }

  /** Show the accuracy with its formula, and how often model and judge would have made another move. */
  _showTally(found, model, judge) {
    const { accuracy, tally: text } = this._ui;
    const { name } = judge ?? model;
    const how = found.isRatio
      ? `100 × the mean, over ${grouped(found.count)} moves, of (value of the move) / (value of the best move)`
      : `${grouped(found.equal)} of ${grouped(found.count)} moves are those of ${name}`;
    const mistakes = found.scale
      ? ` · ${mistakesText(found.mistakes)} (a move that costs ${thresholdText(found.scale)} or more)`
      : ` · ${name} gives no points or chances, so no move has a cost`;
    accuracy.replaceChildren(
      make("strong", {}, `${found.accuracy.toFixed(1)}% accuracy`),
      make("span.note", {}, ` by ${name}: ${how}${mistakes}.`),
    );
    text.textContent = tallied(found, model, judge);
  }

  _jump(direction, isWanted, what) {
    for (let move = this._viewer.at + direction; move >= 0 && move < this._viewer.moves.length; move += direction) {
      if (!this._verdicts[move] || !isWanted(this._verdicts[move])) continue;
      this._viewer.stop();
      this._viewer.seek(move);
      announce(`Move ${move}.`);
      return;
    }
    const where = direction > 0 ? "after" : "before";
    this._say(this._isStudying ? `No ${what} has been found ${where} this move yet.` : `There is no ${what} ${where} this move.`);
  }

  /** Show a message below the board, and announce it. */
  _say(text) {
    this._viewer.said.replaceChildren(this._viewer.said.firstChild, " ", text);
    announce(text);
  }
}

const mistakesText = (count) => `${grouped(count)} ${count === 1 ? "mistake" : "mistakes"}`;

const tooLarge = (name) => `${name} is larger than 512 MiB.`;

function tallied({ count, model: byModel, judge: byJudge, both }, model, judge) {
  const share = (number) => `${grouped(number)} (${((100 * number) / Math.max(1, count)).toFixed(1)}%)`;
  const parts = [`${model.name} would choose another move in ${share(byModel)} of ${grouped(count)} positions`];
  if (judge) parts.push(`, ${judge.name} in ${share(byJudge)}, both in ${share(both)}`);
  return `${parts.join("")}.`;
}
