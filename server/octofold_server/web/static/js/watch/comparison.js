/** Compares two evaluations: their figures side by side, and the difference of their averages. */

import { grouped, make, percent } from "../../viewer/dom.js";
import { tileOf } from "../../viewer/rules.js";
import { FEWEST, differenceOf, gameKey, histogram, largestIn, summarize } from "../game/statistics.js";

const SMALLEST_TILE = 9; // 512

/**
 * Compare two evaluations.
 *
 * @param {{name: string, games: {game: number, seed: bigint, score: number, tile: number}[], unfinished: string|null}[]}
 *   both both results, each with its games; if they have games in common, only these are compared
 * @returns {HTMLElement}
 */
export function comparison(both) {
  const unfinished = both.filter((each) => each.unfinished).map((each) => `${each.name}: ${each.unfinished}`);
  const heading = [
    make("p", {}, make("a", { href: "#watch" }, "‹ All evaluations")),
    make("h2", {}, `${both[0].name} and ${both[1].name}`),
  ];
  if (unfinished.length) return make("div.watched", {}, ...heading, make("p.verdict", { role: "status" }, unfinished.join(" ")));
  const two = inCommon(both);
  const figures = two.map(({ games }) => summarize(games.map(({ score }) => score)));
  const tiles = two.flatMap(({ games }) => games.map(({ tile }) => tile));
  const rows = [
    ["Games", (i) => grouped(figures[i].count)],
    ["Average", (i) => grouped(figures[i].average)],
    ["95% interval", (i) => figures[i].interval?.map(grouped).join(" to ") ?? "–"],
    ["Median", (i) => grouped(figures[i].median)],
    ["Best", (i) => grouped(figures[i].best)],
  ];
  for (let exponent = largestIn(tiles, 0); exponent >= SMALLEST_TILE && rows.length < 10; exponent -= 1) {
    rows.push([`Reached ${tileOf(exponent)}`, (i) => percent(two[i].games.filter(({ tile }) => tile >= exponent).length / figures[i].count)]);
  }
  return make(
    "div.watched",
    {},
    ...heading,
    make("p.verdict", { role: "status" }, sentence(two, figures)),
    make(
      "div.scrolls",
      { tabindex: 0, role: "region", "aria-label": "Table of both" },
      make(
        "table.compared",
        {},
        make("thead", {}, make("tr", {}, make("td"), ...two.map(({ name }, i) => make("th", { scope: "col" }, make(`span.legend.${KINDS[i]}`), name)))),
        make("tbody", {}, ...rows.map(([name, figure]) => make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, figure(0)), make("td", {}, figure(1))))),
      ),
    ),
    make("h3", {}, "Share of games by score"),
    bars(two),
  );
}

const KINDS = ["is-model", "is-judge"];

/** Both results with only the games that both have; all games if they have none in common. */
function inCommon(two) {
  const [first, second] = two.map(({ games }) => new Set(games.map(gameKey)));
  const common = new Set([...first].filter((key) => second.has(key)));
  if (!common.size) return two;
  return two.map((each) => ({ ...each, games: each.games.filter((game) => common.has(gameKey(game))) }));
}

/** The sentence about the difference of both results, like that of `octofold compare`. */
function sentence([first, second], figures) {
  const { difference, interval, isPaired } = differenceOf(second.games, first.games);
  const [ours, theirs] = figures.map(({ count }) => count);
  const games = isPaired ? `${counted(ours)} each` : `not the same games: ${grouped(ours)} and ${counted(theirs)}`;
  if (!interval) {
    const averages = `On average, ${first.name} scores ${grouped(figures[0].average)} and ${second.name} ${grouped(figures[1].average)}`;
    return `${averages}; ${games}. An interval requires at least ${FEWEST} games${isPaired ? " with different scores" : ""}.`;
  }
  const [better, worse] = difference >= 0 ? [second, first] : [first, second];
  const [low, high] = difference >= 0 ? interval : [-interval[1], -interval[0]];
  const said = `(95% interval ${grouped(low)} to ${grouped(high)}; ${games})`;
  const more = `${better.name} scores ${grouped(Math.abs(difference))} more`;
  if (low > 0) return `${more} on average than ${worse.name} ${said}.`;
  return `No significant difference: on average, ${more} ${said}. This interval is valid for a single look, after a number of games that was fixed in advance.`;
}

const counted = (games) => `${grouped(games)} ${games === 1 ? "game" : "games"}`;

/** Bars with the distribution of scores of both results, on one scale. */
function bars(two) {
  const { width } = histogram(two.flatMap(({ games }) => games.map(({ score }) => score)), 12);
  const counts = two.map(({ games }) => {
    const found = [];
    for (const { score } of games) found[Math.floor(score / width)] = (found[Math.floor(score / width)] ?? 0) + 1 / games.length;
    return found;
  });
  const most = Math.max(...counts.flatMap((each) => each.filter(Boolean)));
  const count = Math.max(...counts.map(({ length }) => length));
  const rows = Array.from({ length: count }, (_, bin) =>
    make(
      "tr",
      {},
      make("th", { scope: "row" }, `${grouped(bin * width)} to ${grouped((bin + 1) * width)}`),
      make("td.share", {}, ...counts.map((each, i) => make(`span.bar.${i ? "of-judge" : "of-model"}`, { style: { "--share": (each[bin] ?? 0) / most } }))),
      make("td.note", {}, counts.map((each) => percent(each[bin] ?? 0)).join(" · ")),
    ),
  );
  return make("table.reached.has-judge", {}, make("tbody", {}, ...rows));
}
