/** Reads replay files, whose format `octofold_game/replays.py` describes, and replays their games. */

import { slide } from "./rules.js";

const MAGIC = "OctoGame";
const HEADER_BYTES = 12;
const HEAD_BYTES = 61; // moves u32, game u64, seed u64, score u64, largest exponent u8, two boards
const CHECKSUM_BYTES = 4;

/**
 * @typedef {object} GameRecord a finished game
 * @property {number} game index among the games of its seed
 * @property {bigint} seed
 * @property {number} score
 * @property {number[]} start the board with the starting tiles
 * @property {number[]} finalBoard
 * @property {number} length number of moves
 * @property {{move: number, cell: number, exponent: number}[]} moves each with the tile that followed
 */

/** A game of a file. It keeps its moves as bytes, because objects take 30 times the memory. */
class PackedGame {
  constructor(facts, packed) {
    Object.assign(this, facts);
    this._packed = packed;
  }

  get length() {
    return this._packed.length;
  }

  get moves() {
    return Array.from(this._packed, (byte) => ({ move: byte & 3, cell: (byte >> 2) & 15, exponent: byte & 64 ? 2 : 1 }));
  }
}

/** Reads a replay file piece by piece, as it grows. */
export class ReplayReader {
  constructor() {
    this._rest = new Uint8Array(0);
    this._begun = false;
    /** Number of bytes passed to the reader. */
    this.bytes = 0;
  }

  /**
   * Take the next bytes of the file.
   *
   * @param {Uint8Array} piece
   * @returns {GameRecord[]} the games that are complete now
   * @throws {Error} this is not a replay file, or it is damaged
   */
  push(piece) {
    this.bytes += piece.length;
    const bytes = new Uint8Array(this._rest.length + piece.length);
    bytes.set(this._rest);
    bytes.set(piece, this._rest.length);
    let at = 0;
    if (!this._begun) {
      if (bytes.length < HEADER_BYTES) return this._keep(bytes, []);
      checkHeader(bytes);
      this._begun = true;
      at = HEADER_BYTES;
    }
    const games = [];
    for (;;) {
      const record = readRecord(bytes, at);
      if (!record) break;
      games.push(record.game);
      at = record.end;
    }
    return this._keep(bytes.slice(at), games);
  }

  /**
   * Check that the file may end here.
   *
   * @throws {Error} this is not a replay file
   */
  end() {
    if (!this._begun) throw new Error("This is not a replay file of Octofold.");
  }

  _keep(rest, games) {
    this._rest = rest;
    return games;
  }
}

/**
 * Every position of a game.
 *
 * @param {number[]} start the first board
 * @param {{move: number, cell: number, exponent: number}[]} moves
 * @returns {{boards: number[][], scores: number[]}} one position before each move, and the last one
 * @throws {Error} a move breaks the rules
 */
export function positions(start, moves) {
  const boards = [start];
  const scores = [0];
  moves.forEach(({ move, cell, exponent }, number) => {
    const { board, reward, legal } = slide(boards[number], move);
    if (!legal || board[cell]) throw new Error(`move ${number} breaks the rules.`);
    board[cell] = exponent;
    boards.push(board);
    scores.push(scores[number] + reward);
  });
  return { boards, scores };
}

function checkHeader(bytes) {
  const magic = new TextDecoder("latin1").decode(bytes.slice(0, MAGIC.length));
  if (magic !== MAGIC) throw new Error("This is not a replay file of Octofold.");
  const version = new DataView(bytes.buffer, bytes.byteOffset).getUint32(8, true);
  if (version !== 1) throw new Error(`The replay file has format ${version}; this page reads format 1.`);
}

function readRecord(bytes, at) {
  if (bytes.length < at + HEAD_BYTES + CHECKSUM_BYTES) return null;
  const view = new DataView(bytes.buffer, bytes.byteOffset + at);
  if (view.getUint32(HEAD_BYTES, true) !== crc32(bytes.subarray(at, at + HEAD_BYTES))) {
    throw new Error(`The replay file is damaged at byte ${at}.`);
  }
  const first = at + HEAD_BYTES + CHECKSUM_BYTES;
  const last = first + view.getUint32(0, true);
  if (bytes.length < last + CHECKSUM_BYTES) return null;
  const packed = bytes.subarray(first, last);
  if (new DataView(bytes.buffer, bytes.byteOffset + last).getUint32(0, true) !== crc32(packed)) {
    throw new Error(`The replay file is damaged at byte ${first}.`);
  }
  const facts = {
    game: Number(view.getBigUint64(4, true)),
    seed: view.getBigUint64(12, true),
    score: Number(view.getBigUint64(20, true)),
    start: Array.from(bytes.subarray(at + 29, at + 45)),
    finalBoard: Array.from(bytes.subarray(at + 45, at + 61)),
  };
  return { game: new PackedGame(facts, packed.slice()), end: last + CHECKSUM_BYTES };
}

const CRC_TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let word = byte;
  for (let bit = 0; bit < 8; bit += 1) word = word & 1 ? (word >>> 1) ^ 0xedb88320 : word >>> 1;
  return word;
});

/** The CRC-32 of bytes, as zlib computes it. */
function crc32(bytes) {
  let crc = 0xffffffff;
  for (const byte of bytes) crc = (crc >>> 8) ^ CRC_TABLE[(crc ^ byte) & 255];
  return (crc ^ 0xffffffff) >>> 0;
}
