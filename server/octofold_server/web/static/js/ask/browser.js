/** Networks that run in the browser, as a source of moves: the same methods as `Server`, without a server. */

import { largestOf, tileOf } from "../game/rules.js";
import { Refused } from "./server.js";

/** A source of moves: graphs that a worker runs. */
export class Browser {
  /**
   * @param {string} models address of the list of models, which `make page` writes
   * @param {{onLoading: (text: string) => void}} page is told how much of a model is loaded
   */
  constructor(models, { onLoading }) {
    this._models = models;
    this._onLoading = onLoading;
    this._waiting = new Map();
    this._count = 0;
    this._failure = ""; // of the worker
    this.hasResults = false;
    this.mayReload = false;
    this._worker = new Worker(new URL("browser_worker.js", import.meta.url), { type: "module" });
    this._worker.addEventListener("message", ({ data }) => this._receive(data));
    this._worker.addEventListener("error", (event) => this._fail(event.message || "The networks cannot be loaded."));
  }

  async about() {
    try {
      const reply = await fetch(this._models);
      if (reply.ok) return await reply.json();
    } catch {
      // as if it were missing: a host may answer with a page
    }
    throw new Refused(`The list of models, ${this._models}, cannot be read.`, 404);
  }

  /** See `Server.infer`. */
  infer(model, boards) {
    return this._ask(model, boards, false);
  }

  /** See `Server.views`. */
  async views(model, board) {
    return (await this._ask(model, [board], true))[0];
  }

  async results() {
    return [];
  }

  async resultFile() {
    return null;
  }

  async whenBack() {}

  async _ask(model, boards, wantsViews) {
    if (this._failure) throw new Refused(this._failure, 500);
    const largest = Math.max(...boards.map(largestOf));
    if (largest > model.largest_exponent) {
      throw new Refused(`${model.name} knows tiles up to ${tileOf(model.largest_exponent)}.`, 400);
    }
    const id = (this._count += 1);
    const url = new URL(model.file, new URL(this._models, document.baseURI)).href;
    this._worker.postMessage({ id, url, temperature: model.views_temperature, boards, wantsViews });
    return new Promise((resolve, reject) => this._waiting.set(id, { resolve, reject }));
  }

  _receive({ id, answers, error, loaded }) {
    if (loaded !== undefined) {
      if (loaded < 1) this._onLoading(`Loading the model: ${Math.round(loaded * 100)}%`);
      else this._onLoading(loaded < 2 ? "Preparing the model…" : "");
      return;
    }
    const waiting = this._waiting.get(id);
    this._waiting.delete(id);
    if (error) waiting.reject(new Refused(error, 500));
    else waiting.resolve(answers);
  }

  /** The worker could not be loaded, and will answer nothing. */
  _fail(message) {
    this._failure = message;
    for (const { reject } of this._waiting.values()) reject(new Refused(message, 500));
    this._waiting.clear();
  }
}
