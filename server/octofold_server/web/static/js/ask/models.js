/** The list of the server's models, which is updated when the server loads or unloads models. */

import { Gone } from "./server.js";

const LOOK_MS = 3000;
const LOADING_MS = 1000; // between two requests while a model is loaded for this page

/** The identity of a model: its name and version. */
export const keyOf = (model) => `${model.name}/${model.version}`;

/** A list of models as text, to compare lists. It omits the loading progress. */
export const contentOf = (models) => JSON.stringify(models, (name, value) => (name === "loading_seconds" ? undefined : value));

/** A list of models. It dispatches `change` when it changes, and `loading` when only loading times change. */
export class Models extends EventTarget {
  /**
   * @param {object} source the source of moves
   * @param {object[]} models the initial list
   */
  constructor(source, models) {
    super();
    this._source = source;
    this._waits = new Map(); // promises for models that are being loaded, by name
    source.whenLoaded = (name) => this._whenLoaded(name);
    /** The models, the strongest first. */
    this.all = sorted(models);
  }

  /** The initial model: the server's default, or the strongest one. */
  get first() {
    return this.all.find((model) => model.default) ?? strongest(this.all);
  }

  /** The initial opponent: the strongest other model, or the same model if there is no other. */
  get rival() {
    return strongest(this.all.filter((model) => model !== this.first)) ?? this.first;
  }

  /** Request the list again. */
  async refresh() {
    const { models } = await this._source.about();
    const before = this.all;
    this.all = sorted(models);
    if (contentOf(before) !== contentOf(this.all)) this.dispatchEvent(new Event("change"));
    else if (JSON.stringify(before) !== JSON.stringify(this.all)) this.dispatchEvent(new Event("loading"));
  }

  /** Wait until no version of a model is being loaded. Several callers share one wait. */
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

  /** Request the list repeatedly while the page is visible. If the server is gone, wait for it. */
  async watch() {
    for (;;) {
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
      if (document.hidden) continue;
      try {
        await this.refresh();
      } catch (error) {
        // Wait, so that the page does not ask for a token repeatedly.
        if (error.status === 401) await this._source.whenTokenGiven();
        if (error instanceof Gone) await this._source.whenBack();
      }
    }
  }

  /** The replacement for a model after a change of the list: itself, or else its newest version, or undefined. */
  successorOf(model) {
    const same = this.all.filter(({ name }) => name === model.name);
    const newest = same.sort((a, b) => Number(b.version) - Number(a.version))[0];
    return same.find((each) => keyOf(each) === keyOf(model)) ?? newest;
  }
}

/** Whether the server is loading a model. */
const isLoading = ({ loading_seconds: seconds }) => Number.isFinite(seconds);

/** The text for a model that is being loaded: "loading, 12 s"; empty for other models. */
export const loadingText = (model) => (isLoading(model) ? `loading, ${Math.floor(model.loading_seconds)} s` : "");

/** The strongest network, or else the first model. Players do not count: the server may lack what they need. */
const strongest = (models) => models.find((model) => !model.player && !isLoading(model)) ?? models[0];

/** The models sorted by strength, the strongest first. Models without a measured strength come last. */
function sorted(models) {
  const strength = ({ average }) => average ?? -1;
  const byName = (a, b) => a.name.localeCompare(b.name) || Number(b.version) - Number(a.version);
  return [...models].sort((a, b) => strength(b) - strength(a) || byName(a, b));
}
