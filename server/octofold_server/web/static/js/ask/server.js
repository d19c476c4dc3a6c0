/**
 * The server that this page comes from, as a source of moves.
 *
 * It requests moves over the Open Inference Protocol, as any other program can. A token is kept only for this
 * tab and sent in a header. It is never part of an address.
 */

import { formatBoard } from "../../viewer/board_text.js";
import { legalMoves } from "../../viewer/rules.js";
import { store, stored } from "../storage.js";

const TOKEN_KEY = "octofold.token";
const LOOK_MS = 1000;
const RETRY_MS = 200;
const MAX_RETRIES = 20;

/** The server refused a request. `status` is the HTTP status. */
export class Refused extends Error {
  constructor(message, status) {
    super(message.replace(/^board 0, cell \d+: /, "")); // the page shows the position of the tile
    this.status = status;
  }
}

/** The server does not answer. */
export class Gone extends Error {}

/**
 * @typedef {object} Answer a model's answer for one board
 * @property {number} move 0 to 3; -1 if the game is over
 * @property {number[]} [probabilities] of the four moves, from a network
 * @property {number[]} [votes] the number of views for each move
 * @property {boolean[]} legal
 * @property {number[]} [values] of the four moves, in the model's unit, from a player
 * @property {number} [depth] search depth of a player in moves
 * @property {number|null} [value] of the board, in the model's unit, from a network with a value head
 * @property {number[][]|null} [views] each view's probabilities of the board's own moves
 * @property {string|null} [why_no_views] the reason for missing views, as a clause
 */

/** A source of moves. */
export class Server {
  /**
   * @param {{askToken: (wrong: boolean) => Promise<string|null>, onState: (gone: boolean) => void}} page `askToken`
   *   asks the user for a token; `onState` is called when the server stops answering, and when it answers again
   */
  constructor({ askToken, onState }) {
    this._askToken = askToken;
    this._onState = onState;
    this._asking = null; // a promise while the dialog for a token is open
    this._return = null; // a promise while the server does not answer
    this._withoutToken = []; // functions that resolve the promises of `whenTokenGiven`
    /** Waits while the model with this name is loaded. `Models` replaces it by a function that checks the list. */
    this.whenLoaded = () => new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }

  /** @returns {Promise<{version: string, models: object[]}>} models that are ready, loading, or loaded on demand */
  about() {
    return this._json("page/about");
  }

  /**
   * Ask a model for moves.
   *
   * @param {{name: string, version: string}} model
   * @param {number[][]} boards
   * @returns {Promise<Answer[]>}
   * @throws {Refused|Gone}
   */
  async infer(model, boards) {
    const path = `v2/models/${encodeURIComponent(model.name)}/versions/${model.version}/infer`;
    const input = { name: "boards", datatype: "UINT8", shape: [boards.length, 16], data: boards.flat() };
    const options = { method: "POST", body: JSON.stringify({ inputs: [input] }) };
    const reply = await this._json(path, options, model.name);
    const found = Object.fromEntries(reply.outputs.map(({ name, data }) => [name, data]));
    const four = (name, i) => found[name]?.slice(4 * i, 4 * i + 4);
    return boards.map((board, i) => ({
      move: found.move[i],
      probabilities: four("probabilities", i),
      votes: four("votes", i),
      legal: four("legal", i) ?? legalMoves(board),
      values: four("values", i),
      depth: found.depth?.[i],
      value: found.value?.[i],
    }));
  }

  /**
   * Ask a model for its move and for each view's probabilities.
   *
   * @returns {Promise<Answer>}
   * @throws {Refused|Gone}
   */
  views(model, board) {
    const query = new URLSearchParams({ model: model.name, version: model.version, board: formatBoard(board) });
    return this._json(`page/views?${query}`, {}, model.name);
  }

  /** @returns {Promise<object[]>} the results of evaluations, the newest first */
  results() {
    return this._json("page/results");
  }

  /**
   * Read a file of a result from byte `start`. The name of a result is its path, with slashes.
   *
   * @returns {Promise<{bytes: Uint8Array, age: number}|null>} the next bytes, and the seconds since the file was
   *   written; no bytes if the file does not exist yet; null if the result does not exist
   */
  async resultFile(name, file, start = 0) {
    try {
      const path = `page/results/${name.split("/").map(encodeURIComponent).join("/")}/${file}?start=${start}`;
      const reply = await this._fetch(path);
      const bytes = await this._receive(reply.arrayBuffer());
      return { bytes: new Uint8Array(bytes), age: Number(reply.headers.get("X-File-Age")) };
    } catch (error) {
      if (error instanceof Refused && error.status === 404) return null;
      throw error;
    }
  }

  /** Wait until the server responds again. */
  whenBack() {
    this._return ??= this._look();
    return this._return;
  }

  /** Wait until the user gives a token. */
  whenTokenGiven() {
    return new Promise((resolve) => this._withoutToken.push(resolve));
  }

  async _look() {
    this._onState(true);
    for (;;) {
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
      const reply = await fetch("readyz", { cache: "no-store" }).catch(() => null);
      if (reply?.ok) break;
    }
    this._return = null;
    this._onState(false);
  }

  async _json(path, options, modelName) {
    const reply = await this._fetch(path, options, modelName);
    return this._receive(reply.json());
  }

  /** Await a response. If the connection breaks, throw `Gone`. */
  async _receive(coming) {
    try {
      return await coming;
    } catch (error) {
      if (error instanceof SyntaxError) throw error; // the response is complete, but is not JSON
      this.whenBack();
      throw new Gone("The server does not answer.");
    }
  }

  /** Send a request and return the response. If the request names a model, wait while the server loads this model. */
  async _fetch(path, options = {}, modelName = undefined) {
    for (let tries = 0; ; tries += 1) {
      const token = stored(TOKEN_KEY, { forSession: true });
      const headers = token ? { Authorization: `Bearer ${token}` } : {};
      const reply = await this._receive(fetch(path, { ...options, headers, cache: "no-store" }));
      if (reply.ok) return reply;
      if (reply.status === 401) {
        await this._newToken(token);
      } else if (reply.status === 429 && tries < MAX_RETRIES) {
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      } else {
        const message = await reply.json().catch(() => ({}));
        if (reply.status === 503 && modelName && /is loading/.test(message.error)) {
          await this.whenLoaded(modelName);
          continue;
        }
        if (reply.status === 503) this.whenBack();
        const Kind = reply.status === 503 ? Gone : Refused;
        throw new Kind(message.error ?? `The server answered with status ${reply.status}.`, reply.status);
      }
    }
  }

  /** Ask the user for a token other than `used`, once for all waiting requests. */
  async _newToken(used) {
    if (stored(TOKEN_KEY, { forSession: true }) !== used) return; // another request already got a new one
    this._asking ??= this._askToken(used !== null).finally(() => (this._asking = null));
    const token = await this._asking;
    if (!token) throw new Refused("The server needs a token.", 401);
    store(TOKEN_KEY, token, { forSession: true });
    for (const resolve of this._withoutToken.splice(0)) resolve();
  }
}
