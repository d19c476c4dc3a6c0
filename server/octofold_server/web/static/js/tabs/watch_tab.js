/** The Watch tab: evaluations, also while they run, from the files that `octofold evaluate` writes. */

import { Gone, Refused } from "../ask/server.js";
import { smallBoard, updateSmallBoard } from "../../viewer/board_view.js";
import { announce, grouped, make, when } from "../../viewer/dom.js";
import { ReplayReader } from "../../viewer/replays.js";
import { comparison } from "../watch/comparison.js";
import { Facts } from "../watch/facts.js";
import { drawHistogram } from "../watch/histogram.js";
import { Ratings } from "../watch/ratings.js";

const LOOK_MS = 1000;
const LIST_MS = 5000;
const STALE_SECONDS = 30;
const GROWING_SECONDS = 60;
const LISTED = 5; // number of worst games, and of best games

/** Make the tab in an empty section. */
export const open = (root, page) => new WatchTab(root, page);

class WatchTab {
  constructor(root, page) {
    this._page = page;
    this._visits = 0; // number of the newest visit to this tab; loops of older visits end
    this._root = root;
    this._list = make("div.results");
    this._compared = make("div", { hidden: true });
    this._ratings = new Ratings(page.models);
    this._chosen = new Set(); // names of results to compare
    this._title = make("h2");
    this._said = make("p.note", { role: "status" });
    this._facts = new Facts();
    this._boards = make("div.live-boards");
    this._histogram = make("canvas.picture", { role: "img" });
    this._view = make(
      "div.watched",
      { hidden: true },
      make("p", {}, make("a", { href: "#watch" }, "‹ All evaluations")),
      this._title,
      this._said,
      this._facts.element,
      make(
        "div.pictures",
        {},
        this._facts.table,
        (this._figure = make("figure", {}, make("figcaption", {}, "Scores, with their average"), this._histogram)),
      ),
      this._boardsTitle = make("h3", {}, "Running games"),
      this._boards,
      make("p.note", {}, (this._games = make("a", { href: "" }, "Look at the finished games"))),
      (this._some = make("div")),
    );
    root.append(this._list, this._view, this._compared);
    addEventListener("themechange", () => this._draw());
    addEventListener("resize", () => this._draw());
  }

  /** Show the result that the address names, or the list of results. */
  async enter([name, other]) {
    const visit = (this._visits += 1);
    this._view.hidden = !name || Boolean(other);
    this._list.hidden = Boolean(name);
    this._compared.hidden = !other;
    if (other) {
      await this._compare([name, other], () => visit === this._visits);
      return;
    }
    const look = name ? this._begin(name) : () => this._showList();
    this._loop(visit, look, name ? LOOK_MS : LIST_MS);
  }

  leave() {
    this._visits += 1;
  }

  /** Call `look` repeatedly until the user leaves the tab. If the server does not answer, wait for it. */
  async _loop(visit, look, ms) {
    while (visit === this._visits) {
      try {
        if (!document.hidden) await look(() => visit === this._visits);
      } catch (error) {
        if (visit !== this._visits) return;
        if (error instanceof Gone) {
          await this._page.source.whenBack();
          continue;
        }
        this._say(error.message);
        if (!(error instanceof Refused) || error.status === 401) return; // the user is asked for a token only once per visit
      }
      await new Promise((resolve) => setTimeout(resolve, ms));
    }
  }

  _say(text) {
    if (this._view.hidden) this._list.replaceChildren(make("p.note", {}, text));
    else this._said.textContent = text;
  }

  async _showList() {
    const results = await this._page.source.results();
    if (!results.length) {
      this._list.replaceChildren(
        make("h2", {}, "No evaluation yet"),
        make(
          "p.note",
          {},
          "On the server's machine, in the folder where the server was started, run ",
          make("code", {}, "octofold evaluate --watch --games 100"),
          ". The evaluation appears here while it runs.",
        ),
      );
      return;
    }
    this._ratings.show(results);
    const shown = JSON.stringify(results.map(({ age_seconds: _, ...rest }) => rest));
    const isNew = shown !== this._shownResults;
    if (!isNew && this._list.contains(this._ratings.element)) return; // elements must not move while the user touches them
    this._shownResults = shown;
    this._button = make("button.primary", { type: "button", on: { click: () => this._openComparison() } });
    this._list.replaceChildren(
      make("div.replay-head", {}, make("h2", {}, "Evaluations"), this._button),
      make("ul.cards", {}, ...results.map((result) => this._card(result))),
      this._ratings.element,
    );
    this._updateButton();
  }

  _card(result) {
    const { name } = result;
    const box = make("input", { type: "checkbox", "aria-label": `Compare ${name}`, on: { change: () => this._choose(name, box) } });
    box.checked = this._chosen.has(name);
    return card(result, make("label.choose", {}, box, "compare"));
  }

  /** Choose a result to compare. A third choice replaces the first. */
  _choose(name, box) {
    if (box.checked) this._chosen.add(name);
    else this._chosen.delete(name);
    if (this._chosen.size > 2) {
      this._chosen.delete([...this._chosen][0]);
      for (const each of this._list.querySelectorAll(".choose input")) {
        each.checked = this._chosen.has(each.ariaLabel.replace("Compare ", ""));
      }
    }
    this._updateButton();
  }

  _updateButton() {
    this._button.disabled = this._chosen.size !== 2;
    this._button.textContent = this._chosen.size === 2 ? "Compare the two" : "Choose two to compare";
  }

  _openComparison() {
    location.hash = `#watch/${[...this._chosen].map(encodeURIComponent).join("/")}`;
  }

  async _compare(names, isWanted) {
    this._compared.replaceChildren(make("p.note", {}, "Loading both evaluations…"));
    try {
      const two = [];
      const results = await this._page.source.results();
      for (const name of names) {
        const games = [];
        for await (const game of gamesOf(this._page.source, name)) {
          games.push({ game: game.game, seed: game.seed, score: game.score, tile: Math.max(...game.finalBoard) });
        }
        if (!isWanted()) return;
        if (!games.length) throw new Error(`No game of ${name} has finished yet.`);
        two.push({ name, games, unfinished: results.find((each) => each.name === name)?.unfinished });
      }
      this._compared.replaceChildren(comparison(two));
    } catch (error) {
      if (!isWanted()) return;
      this._compared.replaceChildren(make("p", {}, make("a", { href: "#watch" }, "‹ All evaluations")), make("p.note", { role: "status" }, error.message));
      if (!(error instanceof Gone)) return;
      await this._page.source.whenBack();
      if (isWanted()) await this._compare(names, isWanted);
    }
  }

  /** Begin to read a result; returns a function that reads the rest. */
  _begin(name) {
    let reader;
    let begunAgain = false;
    const begin = () => {
      reader = new ReplayReader();
      this._scores = [];
      this._tiles = [];
      this._finished = [];
    };
    begin();
    this._live = null;
    this._state = null;
    this._isRunning = false;
    this._title.textContent = name;
    this._games.href = `#replay/${encodeURIComponent(name)}`;
    this._boards.replaceChildren();
    this._some.replaceChildren();
    return async (isWanted) => {
      const { source } = this._page;
      // This file is read before the games, so a game that finishes in between counts as running.
      const live = await source.resultFile(name, "live.json");
      if (!isWanted()) return;
      for (;;) {
        const piece = await source.resultFile(name, "games.replay", reader.bytes);
        if (!isWanted()) return;
        if (!piece) throw new Refused(`There is no result named ${name}.`, 404);
        if (!piece.bytes.length) break;
        let games;
        try {
          games = reader.push(piece.bytes);
        } catch (error) {
          if (begunAgain) throw error;
          begunAgain = true; // the evaluation has ended, and has written its games in another order
          begin();
          continue;
        }
        for (const game of games) {
          this._scores.push(game.score);
          this._tiles.push(Math.max(...game.finalBoard));
          this._finished.push({ game: game.game, score: game.score });
        }
        this._showSome(name);
      }
      begunAgain = false;
      this._live = parsed(live);
      const state = parsed(await source.resultFile(name, "state.json"));
      if (!isWanted()) return;
      if (!state) throw new Refused(`${name} cannot be read: its conditions.json is damaged.`, 404);
      this._state = state;
      this._show(live?.age);
    };
  }

  _show(age) {
    const { _live: live } = this;
    const wasRunning = this._isRunning;
    this._isRunning = Boolean(live?.boards.length) && age < STALE_SECONDS;
    const { conditions, unfinished } = this._state;
    const pace = this._isRunning ? `Running, ${grouped(live.moves_per_second)} moves a second.` : (unfinished ?? "Finished.");
    this._said.textContent = `${conditions.model}${conditions.version ? ` version ${conditions.version}` : ""}, seed ${conditions.seed}. ${pace}`;
    if (wasRunning && !this._isRunning) announce("The evaluation has ended.");
    const finished = this._isRunning ? live.finished : this._scores.length;
    const [scores, tiles] = [this._scores, this._tiles].map((all) => all.slice(0, finished));
    this._facts.show(scores, tiles, this._isRunning ? live : null, this._state);
    this._showBoards(this._isRunning ? live.boards : []);
    this._draw();
  }

  _draw() {
    if (this._view.hidden || !this._state) return;
    this._figure.hidden = Boolean(this._state.unfinished);
    if (!this._figure.hidden) drawHistogram(this._histogram, this._scores);
  }

  /** Link to the worst and the best games. */
  _showSome(name) {
    const sorted = [...this._finished].sort((a, b) => a.score - b.score);
    const link = ({ game, score }) => make("a", { href: `#replay/${encodeURIComponent(name)}/${game}` }, grouped(score));
    const row = (title, games) => games.length && make("p.note.some", {}, title, ...games.map(link));
    const half = Math.min(LISTED, Math.ceil(sorted.length / 2));
    const rows = [row("Worst games:", sorted.slice(0, half)), row("Best games:", sorted.slice(half).slice(-LISTED).reverse())];
    this._some.replaceChildren(...rows.filter(Boolean));
  }

  _showBoards(boards) {
    this._boardsTitle.hidden = !boards.length;
    const shown = [...this._boards.children];
    boards.forEach(({ game, board, score }, i) => {
      if (!shown[i]) {
        this._boards.append(make("figure.live", {}, smallBoard(board), make("figcaption")));
      } else {
        updateSmallBoard(shown[i].firstChild, board);
      }
      this._boards.children[i].lastChild.textContent = `${grouped(score)}`;
      this._boards.children[i].title = `Game ${game}`;
    });
    shown.slice(boards.length).forEach((each) => each.remove());
  }
}

/** The parsed JSON of a file of a result; null if the file does not exist. */
const parsed = (file) => (file?.bytes.length ? JSON.parse(new TextDecoder().decode(file.bytes)) : null);

/** Yields the finished games of a result while they are read. */
async function* gamesOf(source, name) {
  const reader = new ReplayReader();
  for (;;) {
    const piece = await source.resultFile(name, "games.replay", reader.bytes);
    if (!piece) throw new Error(`There is no result named ${name}.`);
    if (!piece.bytes.length) return;
    yield* reader.push(piece.bytes);
  }
}

function card({ name, conditions, age_seconds: age, games, planned, average, unfinished }, choose) {
  const { model, version, seed } = conditions;
  const played = `${grouped(games)} ${games === 1 ? "game" : "games"}`;
  const isGrowing = unfinished && age < GROWING_SECONDS;
  const state = isGrowing ? "growing now" : when(age);
  return make(
    "li.card-box",
    {},
    make(
      "a.card",
      { href: `#watch/${encodeURIComponent(name)}` },
      make("strong", {}, `${model}${version ? ` ${version}` : ""}`),
      make("span", {}, unfinished ?? (games ? `${grouped(average)} on average, ${played}` : "no game has finished yet")),
      unfinished ? make("progress", { max: planned, value: games, "aria-label": `${played} finished` }) : null,
      make("span.note", {}, `seed ${seed} · ${name}`),
      make("span.note", {}, state),
    ),
    choose,
  );
}
