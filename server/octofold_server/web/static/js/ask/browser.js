/** Networks and a search that run in the browser, as a source of moves: the same methods as `Server`, without a server. */

import { largestOf, tileOf } from "../../viewer/rules.js";
import { Refused } from "./server.js";

/** A source of moves: graphs and a search, each in a worker of its kind, which starts when it is asked first. */
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
    this._workers = {}; // by file
    this.hasResults = false;
    this.mayReload = false;
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
    const largest = Math.max(...boards.map(largestOf));
    if (largest > model.largest_exponent) {
      throw new Refused(`${model.name} knows tiles up to ${tileOf(model.largest_exponent)}.`, 400);
    }
    const worker = this._workerOf(model.search ? "expectimax_worker.js" : "browser_worker.js");
    if (worker.failure) throw new Refused(worker.failure, 500);
    const id = (this._count += 1);
    const question = { id, boards };
    if (model.search) Object.assign(question, { search: model.search });
    else Object.assign(question, { url: this._addressOf(model), temperature: model.views_temperature, wantsViews });
    worker.postMessage(question);
    return new Promise((resolve, reject) => this._waiting.set(id, { resolve, reject, worker }));
  }

  _addressOf({ file }) {
    return new URL(file, new URL(this._models, document.baseURI)).href;
  }

  _workerOf(file) {
    if (this._workers[file]) return this._workers[file];
    const worker = (this._workers[file] = new Worker(new URL(file, import.meta.url), { type: "module" }));
    worker.addEventListener("message", ({ data }) => this._receive(data));
    worker.addEventListener("error", (event) => this._fail(worker, event.message || "The model cannot be loaded."));
    return worker;
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

  /** A worker could not be loaded, and will answer nothing. */
  _fail(worker, message) {
    worker.failure = message;
    for (const [id, waiting] of this._waiting) {
      if (waiting.worker !== worker) continue;
      this._waiting.delete(id);
      waiting.reject(new Refused(message, 500));
    }
  }
}
