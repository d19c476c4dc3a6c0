/** The rating list: every model and player of the results, with its average over all their games. */

import { keyOf } from "../ask/models.js";
import { grouped, make } from "../../viewer/dom.js";
import { FEWEST, averageInterval } from "../game/statistics.js";

/**
 * Sort players by strength.
 *
 * Results of one player with different seeds contain different games, so they count together. Results with the same
 * seed repeat games, so only the largest one counts. An unfinished result has no figures. A player with only
 * unfinished results comes last, without a rank.
 *
 * @param {object[]} results as the server lists them
 * @returns {{name: string, version: string, precision: string, games: number, average: number|null,
 *   interval: [number, number]|null, unfinished: string|null}[]} the strongest first
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

/** The largest finished result of a player for each seed; the largest unfinished ones if none is finished. */
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
  if (unfinished) return { name, version, precision, games: results[0].games, average: null, interval: null, unfinished };
  const games = results.reduce((sum, each) => sum + each.games, 0);
  const average = results.reduce((sum, each) => sum + each.games * each.average, 0) / games;
  const squares = results.reduce(
    (sum, each) => sum + (each.games - 1) * (each.deviation ?? 0) ** 2 + each.games * (each.average - average) ** 2,
    0,
  );
  const interval = averageInterval(games, average, Math.sqrt(squares / (games - 1)));
  return { name, version, precision, games, average, interval, unfinished };
}

/** The rank of a player as text: a range if intervals overlap, or a dash without an interval. */
function rankOf({ interval }, ranked) {
  if (!interval) return "–";
  const first = 1 + ranked.filter((other) => other.interval[0] > interval[1]).length;
  const last = ranked.length - ranked.filter((other) => other.interval[1] < interval[0]).length;
  return first === last ? String(first) : `${first} to ${last}`;
}

/** The list as a table. */
export class Ratings {
  /** @param {{all: object[]}} models the models, whose published strengths are shown beside the ratings */
  constructor(models) {
    this._models = models;
    this._table = make("table.ratings");
    this.element = make(
      "section.ratings-box",
      { "aria-label": "Rating list" },
      make("h2", {}, "Rating list"),
      make("div.scrolls", { tabindex: 0, role: "region", "aria-label": "Table of ratings" }, this._table),
      make(
        "p.note",
        {},
        `Average score, with its 95% interval, over all games of the results above. A rank requires at least ${FEWEST} games; where intervals overlap, ` +
          "it is a range. “Published” is the average in the card of a model, which is from other games.",
      ),
    );
  }

  show(results) {
    const ratings = ratingsOf(results);
    const ranked = ratings.filter(({ interval }) => interval);
    const rows = [...ranked, ...ratings.filter(({ interval }) => !interval)];
    const published = new Map(this._models.all.filter(({ average }) => average).map((model) => [keyOf(model), model]));
    const others = [...published].filter(([key]) => !ratings.some((each) => keyOf(each) === key));
    this._table.replaceChildren(
      make("thead", {}, make("tr", {}, ...["Rank", "Player", "Average", "Games", "Published"].map((name) => make("th", { scope: "col" }, name)))),
      make(
        "tbody",
        {},
        ...rows.map((each) => row(each, rankOf(each, ranked), published.get(keyOf(each)))),
        ...others.map(([, model]) => make("tr.published", {}, make("td.note", {}, "–"), nameOf(model), make("td.note", { colspan: 2 }, "no result here"), strength(model))),
      ),
    );
  }
}

function row(rating, rank, published) {
  const { average, interval, games, unfinished } = rating;
  return make(
    "tr",
    {},
    make("td.note", {}, rank),
    nameOf(rating),
    unfinished ? make("td.note", {}, unfinished) : strength({ average, average_interval: interval }, `fewer than ${FEWEST} games`),
    make("td", {}, grouped(games)),
    published ? strength(published) : make("td"),
  );
}

const nameOf = ({ name, version, precision }) =>
  make("th", { scope: "row" }, `${name}${version ? ` ${version}` : ""}`, make("span.note", {}, precision ? ` ${precision}` : ""));

/** An average with its 95% interval, or a replacement text. */
const strength = ({ average, average_interval: interval }, otherwise = "") =>
  make("td", {}, make("strong", {}, grouped(average)), make("span.note", {}, interval ? ` ${interval.map(grouped).join(" to ")}` : ` ${otherwise}`));
