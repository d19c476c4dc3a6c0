/** The models of the source: a list that follows the server when it loads and reloads them. */

import { Gone } from "./server.js";

const LOOK_MS = 3000;
const LOADING_MS = 1000; // between two looks while a model is loaded for this page

/** The identity of a model: its name and version. */
export const keyOf = (model) => `${model.name}/${model.version}`;

/** A list of models as a text, by which it is told from another: without how far loading is. */
export const contentOf = (models) => JSON.stringify(models, (name, value) => (name === "loading_seconds" ? undefined : value));

/** A list of models, which dispatches `change` when it changes, and `loading` when only more of a model is loaded. */
export class Models extends EventTarget {
  /**
   * @param {object} source of moves
   * @param {object[]} models that the source has now
   */
  constructor(source, models) {
    super();
    this._source = source;
    this._waits = new Map(); // by name, for models that are being loaded
    source.whenLoaded = (name) => this._whenLoaded(name);
    /** The models, the strongest first. */
    this.all = sorted(models);
  }

  /** The model to begin with: the default of the server, or the strongest one. */
  get first() {
    return this.all.find((model) => model.default) ?? strongest(this.all);
  }

  /** Whom it plays against: the strongest other one, or itself. */
  get rival() {
    return strongest(this.all.filter((model) => model !== this.first)) ?? this.first;
  }

  /** Ask the source again. */
  async refresh() {
    const { models } = await this._source.about();
    const before = this.all;
    this.all = sorted(models);
    if (contentOf(before) !== contentOf(this.all)) this.dispatchEvent(new Event("change"));
    else if (JSON.stringify(before) !== JSON.stringify(this.all)) this.dispatchEvent(new Event("loading"));
  }

  /** Wait until no version of a model is being loaded, however many wait for it. */
  _whenLoaded(name) {
    if (!this._waits.has(name)) this._waits.set(name, this._look(name).finally(() => this._waits.delete(name)));
    return this._waits.get(name);
  }

  async _look(name) {
    do {
      await this.refresh();
      await new Promise((resolve) => setTimeout(resolve, LOADING_MS));
    } while (this.all.some((model) => model.name === name && isLoading(model)));
  }

  /** Ask again and again, while the page is visible. A server that is gone is waited for. */
  async watch() {
    for (;;) {
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
      if (document.hidden) continue;
      try {
        await this.refresh();
      } catch (error) {
        // Without waiting, the page would ask for a token again and again.
        if (error.status === 401) await this._source.whenTokenGiven();
        if (error instanceof Gone) await this._source.whenBack();
      }
    }
  }

  /** What takes the place of a model in the list: itself, else the newest version of it; undefined for none. */
  successorOf(model) {
    const same = this.all.filter(({ name }) => name === model.name);
    const newest = same.sort((a, b) => Number(b.version) - Number(a.version))[0];
    return same.find((each) => keyOf(each) === keyOf(model)) ?? newest;
  }
}

/** Whether the server is loading a model. */
const isLoading = ({ loading_seconds: seconds }) => Number.isFinite(seconds);

/** What there is to say about a model that is being loaded: "loading, 12 s"; empty for others. */
export const loadingText = (model) => (isLoading(model) ? `loading, ${Math.floor(model.loading_seconds)} s` : "");

/** The strongest network: a server may lack what a search needs. */
const strongest = (models) => models.find((model) => !model.player && !isLoading(model)) ?? models[0];

/** The strongest first, models without a measured strength last. */
function sorted(models) {
  const strength = ({ average }) => average ?? -1;
  const byName = (a, b) => a.name.localeCompare(b.name) || Number(b.version) - Number(a.version);
  return [...models].sort((a, b) => strength(b) - strength(a) || byName(a, b));
}
