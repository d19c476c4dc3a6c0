/** The list of the games in a file, from the worst to the best. */

import { grouped, make } from "../../viewer/dom.js";
import { largestOf, tileOf } from "../../viewer/rules.js";

const MAX_SHOWN = 500;

export class GameList {
  /**
   * @param {HTMLElement} root
   * @param {(record: object) => void} onChoose
   */
  constructor(root, onChoose) {
    this._onChoose = onChoose;
    this._select = make("select", { id: "game-list", on: { change: () => this._choose() } });
    this._box = make("label.picker", { for: "game-list", hidden: true }, make("span", {}, "Game"), this._select);
    root.append(this._box);
    this._games = [];
  }

  /** Replace the games in the list. */
  set games(games) {
    this._games = [...games].sort((a, b) => a.score - b.score);
    const shown = this._games.length > MAX_SHOWN ? thinned(this._games) : this._games;
    this._select.replaceChildren(
      ...shown.map((record) => make("option", { value: this._games.indexOf(record) }, titleOf(record))),
    );
    this._box.hidden = games.length < 2;
    this._box.firstChild.textContent = `${grouped(games.length)} games, from the worst to the best`;
  }

  get worst() {
    return this._games[0];
  }

  /** Select the game that is shown. */
  set chosen(record) {
    this._select.value = String(this._games.indexOf(record));
  }

  _choose() {
    this._onChoose(this._games[Number(this._select.value)]);
  }
}

/** `MAX_SHOWN` evenly spread games, including the worst and the best. */
function thinned(games) {
  return Array.from({ length: MAX_SHOWN }, (_, i) => games[Math.round((i * (games.length - 1)) / (MAX_SHOWN - 1))]);
}

function titleOf({ game, score, finalBoard }) {
  return `${grouped(score)} points, tile ${tileOf(largestOf(finalBoard))}, game ${game}`;
}
