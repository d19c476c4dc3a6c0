/** The rating list: every model and player of the results, with its average over all their games. */

import { grouped, make } from "../../viewer/dom.js";
import { averageInterval } from "../game/statistics.js";
import { drawVersions } from "./pictures.js";

/**
 * Players by strength.
 *
 * Results of one player with different seeds are different games and count together. Of two results with the same
 * seed, which repeat games, the larger one counts. A result that is not finished has no figures; a player who has no
 * other stands at the end, without a rank.
 *
 * @param {object[]} results as the server lists them
 * @returns {{name: string, version: string, precision: string, games: number, average: number|null,
 *   interval: [number, number]|null, age: number, unfinished: string|null}[]} the strongest first
 */
export function ratingsOf(results) {
  const players = new Map();
  for (const result of results.filter(({ games }) => games)) {
    const { model, version, precision, sha256 } = result.conditions;
    const key = JSON.stringify([model, version, precision, sha256]);
    players.set(key, [...(players.get(key) ?? []), result]);
  }
  return [...players.values()].map((each) => rated(counting(each))).sort((a, b) => (b.average ?? -1) - (a.average ?? -1));
}

/** Those of a player's results that count. */
function counting(results) {
  const finished = results.filter(({ unfinished }) => !unfinished);
  const seeds = new Map();
  for (const result of finished.length ? finished : results) {
    const seed = JSON.stringify([result.conditions.seed, result.conditions.slice ?? null]);
    if ((seeds.get(seed)?.games ?? 0) < result.games) seeds.set(seed, result);
  }
  return [...seeds.values()];
}

function rated(results) {
  const { model: name, version, precision } = results[0].conditions;
  const { unfinished } = results[0];
  const age = Math.min(...results.map((each) => each.age_seconds));
  if (unfinished) return { name, version, precision, games: results[0].games, average: null, interval: null, age, unfinished };
  const games = results.reduce((sum, each) => sum + each.games, 0);
  const average = results.reduce((sum, each) => sum + each.games * each.average, 0) / games;
  const squares = results.reduce(
    (sum, each) => sum + (each.games - 1) * (each.deviation ?? 0) ** 2 + each.games * (each.average - average) ** 2,
    0,
  );
  const interval = averageInterval(games, average, Math.sqrt(squares / (games - 1)));
  return { name, version, precision, games, average, interval, age, unfinished };
}

/** The list as a table, and for models of several versions a picture of their averages. */
export class Ratings {
  constructor() {
    this._table = make("table.ratings");
    this._pictures = make("div.pictures");
    this.element = make(
      "section.ratings-box",
      { "aria-label": "Rating list" },
      make("h2", {}, "Rating list"),
      make(
        "div.ratings-parts",
        {},
        make("div.scrolls", { tabindex: 0, role: "region", "aria-label": "Table of ratings" }, this._table),
        this._pictures,
      ),
      make("p.note", {}, "Average score over all games of the results above; from 10 games on with its 95% interval, as “octofold evaluate” gives it."),
    );
  }

  show(results) {
    const ratings = ratingsOf(results);
    const best = ratings[0]?.average || 1;
    this._table.replaceChildren(
      make("thead", {}, make("tr", {}, ...["Rank", "Player", "Average", "95% interval", "Games", "Last game"].map((name) => make("th", { scope: "col" }, name)))),
      make("tbody", {}, ...ratings.map((each, i) => row(each, i, best))),
    );
    const finished = ratings.filter(({ unfinished }) => !unfinished);
    const names = [...new Set(finished.map(({ name }) => name))];
    const known = names.map((name) => [name, finished.filter((each) => each.name === name)]);
    const several = known.filter(([, versions]) => versions.length > 1);
    this._pictures.replaceChildren(
      ...several.map(([name, versions]) => {
        const canvas = make("canvas.picture", { role: "img" });
        queueMicrotask(() => drawVersions(canvas, name, versions));
        return make("figure", {}, make("figcaption", {}, `Versions of ${name}: average with 95% interval`), canvas);
      }),
    );
  }
}

function row({ name, version, precision, games, average, interval, age, unfinished }, i, best) {
  return make(
    "tr",
    {},
    make("td.note", {}, unfinished ? "–" : String(i + 1)),
    make("th", { scope: "row" }, `${name}${version ? ` ${version}` : ""}`, make("span.note", {}, precision ? ` ${precision}` : "")),
    ...(unfinished
      ? [make("td.note", { colspan: 2 }, unfinished)]
      : [
          make("td", {}, make("strong", {}, grouped(average)), make("span.bar.of-model", { style: { "--share": average / best } })),
          make("td.note", {}, interval ? interval.map(grouped).join(" to ") : "–"),
        ]),
    make("td", {}, grouped(games)),
    make("td.note", {}, new Date(Date.now() - age * 1000).toLocaleDateString("en-CA")),
  );
}
