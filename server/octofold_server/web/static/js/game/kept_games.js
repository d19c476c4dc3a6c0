/** Keeps unfinished games in the browser. Each tab continues its own game, and can open those of other tabs. */

import { parseBoard, formatBoard } from "../../viewer/board_text.js";
import { allStored, store, stored, unstore } from "../storage.js";
import { Game, randomSeed } from "./game.js";

const KEYS = "octofold.games/"; // prefix of the key of each game, so that tabs do not overwrite each other's games
const OWN_KEY = "octofold.game"; // key of the id of this tab's game, which a reload restores
const LEFT_KEY = "octofold.game-left"; // key of the id of the game that a tab last replaced with another one
const MOST = 5; // maximum number of other games: the one that was left last, and those with the most points

/**
 * @typedef {object} KeptGame the data to continue a game
 * @property {string} id
 * @property {string} seed
 * @property {string} start the initial board
 * @property {string} moves one digit for each move
 * @property {boolean} isHelped
 * @property {number} score
 * @property {number} at when the last move was made, in milliseconds
 */

/** @returns {KeptGame[]} the games of all tabs, the newest first */
export function keptGames() {
  return allStored(KEYS)
    .flatMap((text) => {
      try {
        return JSON.parse(text);
      } catch {
        return []; // the text was changed by hand
      }
    })
    .sort((a, b) => b.at - a.at);
}

/** Keep a game in its current state; returns whether the browser stores it. */
export function keepGame(game) {
  const kept = game.id && stored(KEYS + game.id);
  // If another tab has continued the game, it becomes two games.
  if (!game.id || (kept && kept !== game.keptAs)) game.id = String(randomSeed());
  const { id, seed, score, moves, isHelped = false } = game;
  const made = moves.map(({ move }) => move).join("");
  const own = { id, seed: String(seed), start: formatBoard(game.start), moves: made, isHelped, score, at: Date.now() };
  game.keptAs = JSON.stringify(own);
  const before = stored(OWN_KEY, { forSession: true });
  if (before !== id && stored(KEYS + before)) store(LEFT_KEY, before);
  store(OWN_KEY, id, { forSession: true });
  const isKept = store(KEYS + id, game.keptAs);
  const rank = (each) => (each.id === stored(LEFT_KEY) ? Infinity : each.score);
  const others = keptGames().filter((each) => each.id !== id).sort((a, b) => rank(b) - rank(a));
  for (const { id: old } of others.slice(MOST)) unstore(KEYS + old);
  return isKept;
}

/** Stop keeping a game, because it is over. */
export function dropGame(game) {
  if (game.id) unstore(KEYS + game.id);
}

/** The game of this tab, or else the newest one; undefined if none is kept. */
export function ownGame() {
  const games = keptGames();
  const own = stored(OWN_KEY, { forSession: true });
  return restored(games.find(({ id }) => id === own) ?? games[0]);
}

/** The game from kept data; undefined if the data are invalid. */
export function restored(kept) {
  try {
    const { id, seed, start, moves, isHelped } = kept;
    let game = new Game(BigInt(seed));
    if (formatBoard(game.start) !== start) game = new Game(BigInt(seed), { start: parseBoard(start) });
    for (const move of moves) if (!game.play(Number(move))) throw new Error("not legal");
    return Object.assign(game, { id, isHelped, keptAs: JSON.stringify(kept) });
  } catch {
    return undefined;
  }
}
