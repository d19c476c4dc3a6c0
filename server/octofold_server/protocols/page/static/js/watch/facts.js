/** The figures of an evaluation, with their 95% intervals. */

import { grouped, make, percent } from "../dom.js";
import { largestIn, summarize, wilson } from "../game/statistics.js";
import { tileOf } from "../game/rules.js";

const SMALLEST_TILE = 9; // 512

export class Facts {
  constructor() {
    this._list = make("dl.scores.facts");
    this._reached = make("table.reached");
    this._warning = make("p.note");
    this.element = make("div", {}, this._list, this._warning);
    /** The table of tiles. */
    this.table = make("div", {}, this._reached);
  }

  /**
   * @param {number[]} scores of finished games
   * @param {number[]} tiles their largest exponents
   * @param {object|null} live the evaluation, if it wrote `live.json`
   */
  show(scores, tiles, live) {
    const { count, average, margin, median, best } = summarize(scores);
    const running = live?.running_scores ?? [];
    const facts = [
      ["Games", live ? `${grouped(count)} of ${grouped(live.games)}` : grouped(count)],
      ["Average", count ? grouped(average) + (margin === null ? "" : ` ± ${grouped(margin)}`) : "–"],
      ["Median", count ? grouped(median) : "–"],
      ["Best", count ? grouped(best) : "–"],
    ];
    this._list.replaceChildren(
      ...facts.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))),
    );
    const atLeast = (sum(scores) + sum(running)) / Math.max(1, count + running.length);
    this._warning.textContent = running.length
      ? `Short games finish first, so this average is too low. With the scores so far of the ` +
        `${grouped(running.length)} games that still run, it is at least ${grouped(atLeast)}.`
      : "";
    this._showTiles(tiles);
  }

  _showTiles(tiles) {
    const largest = largestIn(tiles, 0);
    const rows = [];
    for (let exponent = SMALLEST_TILE; exponent <= largest; exponent += 1) {
      const hits = tiles.filter((tile) => tile >= exponent).length;
      const [low, high] = wilson(hits, tiles.length);
      rows.push(
        make(
          "tr",
          {},
          make("th", { scope: "row" }, make("span", { class: `chip t${exponent}` }, String(tileOf(exponent)))),
          make("td.share", {}, make("span.bar.of-model", { style: { "--share": hits / tiles.length } })),
          make("td", {}, percent(hits / tiles.length)),
          make("td.note", {}, `${percent(low)} to ${percent(high)}`),
        ),
      );
    }
    this._reached.replaceChildren(
      make("caption", { hidden: !rows.length }, "Games that reached a tile, with the 95% interval"),
      make("tbody", {}, ...rows),
    );
  }
}

const sum = (numbers) => numbers.reduce((total, each) => total + each, 0);
