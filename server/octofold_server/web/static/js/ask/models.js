/** The models that are ready: a list that follows the server when it reloads its repository. */

import { Gone } from "./server.js";

const LOOK_MS = 3000;
const MOST_MISSED = 20;

/** The identity of a model: its name and version. */
export const keyOf = (model) => `${model.name}/${model.version}`;

/** A list of models, which dispatches `change` when it changes. */
export class Models extends EventTarget {
  /**
   * @param {object} source of moves
   * @param {object[]} models that are ready now
   */
  constructor(source, models) {
    super();
    this._source = source;
    this._missed = new Map(); // by key, how often a player was not in the list
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
    const all = sorted([...models, ...this._loading(models)]);
    if (JSON.stringify(all) === JSON.stringify(this.all)) return;
    this.all = all;
    this.dispatchEvent(new Event("change"));
  }

  /** Players that the list lacks while they load: a chosen one stays chosen. After a minute, they are gone. */
  _loading(models) {
    const known = new Set(models.map(keyOf));
    for (const key of known) this._missed.delete(key);
    return this.all.filter((model) => {
      const key = keyOf(model);
      if (known.has(key) || !model.player) return false;
      this._missed.set(key, (this._missed.get(key) ?? 0) + 1);
      return this._missed.get(key) < MOST_MISSED;
    });
  }

  /** Ask again and again, while the page is visible. A server that is gone is waited for. */
  async watch() {
    if (!this._source.mayReload) return;
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

/** Of models in their order, the first network: a server may lack what a search needs. */
const strongest = (models) => models.find((model) => !model.player) ?? models[0];

/** The strongest first; those that nobody has measured last, by name. */
function sorted(models) {
  const strength = ({ average }) => average ?? -1;
  const byName = (a, b) => a.name.localeCompare(b.name) || Number(b.version) - Number(a.version);
  return [...models].sort((a, b) => strength(b) - strength(a) || byName(a, b));
}
