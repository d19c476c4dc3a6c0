/** Networks that run in the browser, as a source of moves: the same methods as `Server`, without a server. */

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
    this.hasResults = false;
    this.mayReload = false;
    this._worker = new Worker(new URL("browser_worker.js", import.meta.url), { type: "module" });
    this._worker.addEventListener("message", ({ data }) => this._receive(data));
    this._worker.addEventListener("error", (event) => this._fail(event.message ?? "The worker has failed."));
  }

  async about() {
    const reply = await fetch(this._models);
    if (!reply.ok) throw new Refused("The list of models is missing.", reply.status);
    return reply.json();
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

  _ask(model, boards, wantsViews) {
    const id = (this._count += 1);
    const url = new URL(model.file, new URL(this._models, document.baseURI)).href;
    this._worker.postMessage({ id, url, temperature: model.temperature, boards, wantsViews });
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

  _fail(message) {
    for (const { reject } of this._waiting.values()) reject(new Refused(message, 500));
    this._waiting.clear();
  }
}
