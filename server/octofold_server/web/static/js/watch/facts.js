/** The figures of an evaluation, with their 95% intervals. */

import { grouped, make, percent } from "../../viewer/dom.js";
import { largestIn, summarize, wilson } from "../game/statistics.js";
import { tileOf } from "../../viewer/rules.js";

const SMALLEST_TILE = 9; // 512
const FEWEST_ROWS = 3; // minimum rows of the table, even if no game reaches `SMALLEST_TILE`

/** The text of the average without luck: its interval, and its worth in games unless that is about 1. */
function withoutLuck({ average, interval, worth }) {
  const range = interval ? ` (95% interval ${interval.map(grouped).join(" to ")})` : "";
  return `${grouped(average)}${range}${worth >= 1.05 ? `, worth ${worth.toFixed(1)} times the games` : ""}`;
}

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
   * @param {number[]} scores the scores of the finished games
   * @param {number[]} tiles the exponents of their largest tiles
   * @param {object|null} live the content of `live.json` while the evaluation runs, otherwise null
   * @param {{planned: number, unfinished: string|null, without_luck: object|null}} state the number of planned
   *   games, the reason if some are missing, and the average without luck
   */
  show(scores, tiles, live, { planned, unfinished, without_luck: adjusted }) {
    const running = live?.running_scores ?? [];
    // A running game counts with its current score. Without it, only short games would count.
    const { count, average, interval, median, best } = summarize([...scores, ...running]);
    const isKnown = count && (running.length || !unfinished);
    const figure = (number) => (isKnown ? (running.length ? "at least " : "") + grouped(number) : "–");
    const facts = [
      ["Games", unfinished ? `${grouped(scores.length)} of ${grouped(planned)}` : grouped(count)],
      ["Average", figure(average)],
      ["95% interval", (!running.length && !unfinished && interval?.map(grouped).join(" to ")) || "–"],
      ...(adjusted && !running.length ? [["Without luck", withoutLuck(adjusted)]] : []),
      ["Median", figure(median)],
      ["Best", count ? grouped(best) : "–"],
    ];
    this._list.replaceChildren(
      ...facts.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))),
    );
    this._warning.textContent = running.length
      ? `The ${grouped(running.length)} running games count with their scores and tiles so far.`
      : (unfinished ?? "");
    this._showTiles(isKnown ? tiles : [], live?.running_exponents ?? []);
  }

  _showTiles(tiles, running) {
    const all = [...tiles, ...running];
    const largest = largestIn(all, 0);
    const rows = [];
    const first = Math.max(1, Math.min(SMALLEST_TILE, largest - FEWEST_ROWS + 1));
    for (let exponent = first; exponent <= largest; exponent += 1) {
      const hits = all.filter((tile) => tile >= exponent).length;
      const open = running.filter((tile) => tile < exponent).length;
      // The lower bound is for the case that no running game reaches the tile, the upper bound for the case that all do.
      const low = wilson(hits, all.length)[0];
      const high = wilson(hits + open, all.length)[1];
      rows.push(
        make(
          "tr",
          {},
          make("th", { scope: "row" }, make("span", { class: `chip t${exponent}` }, String(tileOf(exponent)))),
          make("td.share", {}, make("span.bar.of-model", { style: { "--share": hits / all.length } })),
          make("td", {}, (open ? "at least " : "") + percent(hits / all.length)),
          make("td.note", {}, `${percent(low)} to ${percent(high)}`),
        ),
      );
    }
    const counted = running.length
      ? `, of ${grouped(tiles.length)} finished and ${grouped(running.length)} running games`
      : "";
    this._reached.replaceChildren(
      make("caption", { hidden: !rows.length }, `Games that reached a tile, with the 95% interval${counted}`),
      make("tbody", {}, ...rows),
    );
  }
}
