/** Boards as text: sixteen digits for an address, and words for a screen reader. */

import { LARGEST_EXPONENT, tileOf } from "./rules.js";

const DIGITS = "0123456789abcdefgh";

/**
 * The board of a text such as `0112033400120001`.
 *
 * @param {string} text sixteen hexadecimal exponents; g and h stand for the tiles 65536 and 131072
 * @returns {number[]} 16 exponents
 * @throws {Error} the text is not a board; the message says why
 */
export function parseBoard(text) {
  if (text.length !== 16) throw new Error(`A board has 16 digits, not ${text.length}.`);
  return [...text.toLowerCase()].map((digit, cell) => {
    const exponent = DIGITS.indexOf(digit);
    if (exponent < 0 || exponent > LARGEST_EXPONENT) {
      throw new Error(`The board has “${digit}” in ${describeCell(cell)}; cells are 0 to 9 and a to h.`);
    }
    return exponent;
  });
}

/** The sixteen digits of a board. */
export const formatBoard = (board) => board.map((exponent) => DIGITS[exponent]).join("");

/** A board in words: "Row 1: 2, empty, 4, 8." */
export function describeBoard(board) {
  const rows = [0, 1, 2, 3].map((row) => {
    const cells = board.slice(row * 4, row * 4 + 4).map((each) => (each ? String(tileOf(each)) : "empty"));
    return `Row ${row + 1}: ${cells.join(", ")}.`;
  });
  return rows.join(" ");
}

/** A cell in words: "row 1, column 3". */
export const describeCell = (cell) => `row ${Math.floor(cell / 4) + 1}, column ${(cell % 4) + 1}`;
