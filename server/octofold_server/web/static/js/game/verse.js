/**
 * Replays of 2048verse.com: a text with a head of seven characters and then a character for each new tile.
 *
 * A character stands for a number below 128: two bits for the move (up, right, down, left), one for a tile 4, and
 * two each for column and row of the new tile. The moves of the first two characters, the starting tiles, mean
 * nothing. Source: how `Analyzer.py` of 2048EndgameTablebase reads these files
 * (https://github.com/game-difficulty/2048EndgameTablebase).
 */

import { positions } from "../../viewer/replays.js";

const HEAD = 7;
const MOST_CHARACTERS = 1_000_000;
const ASCII = Array.from({ length: 95 }, (_, i) => String.fromCharCode(32 + i)).join("");
const ALPHABET = `${ASCII}ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜø£Ø×ƒá`;

/** Whether a text may be such a replay: all its characters are of the alphabet, after a head with letters. */
export const isVerse = (text) => /^[a-z0-9_ -]{7}[^\n]{2,}\s*$/i.test(text);

/**
 * The game of a replay.
 *
 * @param {string} text
 * @returns {import("../../viewer/replays.js").GameRecord}
 * @throws {Error} it is none; the message says why
 */
export function readVerse(text) {
  const body = text.replace(/[\r\n]+$/, "").slice(HEAD);
  if (body.length > MOST_CHARACTERS) throw new Error("The replay has more than a million moves.");
  const numbers = [...body].map((character, i) => {
    const number = ALPHABET.indexOf(character);
    if (number < 0) throw new Error(`Character ${HEAD + i + 1} of the replay, “${character}”, stands for no move.`);
    return number;
  });
  const steps = numbers.map((number) => ({
    move: number >> 5,
    exponent: number & 16 ? 2 : 1,
    cell: (number & 3) * 4 + ((number >> 2) & 3),
  }));
  const start = new Array(16).fill(0);
  for (const { cell, exponent } of steps.slice(0, 2)) start[cell] = exponent;
  const moves = steps.slice(2);
  const { boards, scores } = positions(start, moves);
  return { game: 0, seed: 0n, score: scores.at(-1), start, length: moves.length, moves, finalBoard: boards.at(-1) };
}
