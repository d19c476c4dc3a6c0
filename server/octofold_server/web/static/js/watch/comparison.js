/** Two evaluations side by side: their figures, and the difference of their averages. */

import { grouped, make, percent } from "../../viewer/dom.js";
import { tileOf } from "../../viewer/rules.js";
import { FEWEST, differenceOf, histogram, largestIn, summarize } from "../game/statistics.js";

const SMALLEST_TILE = 9; // 512

/**
 * The comparison of two evaluations.
 *
 * @param {{name: string, games: {game: number, seed: bigint, score: number, tile: number}[], isUnfinished: boolean}[]}
 *   two each with games
 * @returns {HTMLElement}
 */
export function comparison(two) {
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
    make("p", {}, make("a", { href: "#watch" }, "‹ All evaluations")),
    make("h2", {}, `${two[0].name} and ${two[1].name}`),
    make("p.verdict", { role: "status" }, sentence(two)),
    ...two.filter(({ isUnfinished }) => isUnfinished).map(({ name }) => make("p.note", {}, `${name} is not finished: its long games are missing, so its figures may be too low.`)),
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

/** Which one is better, and by how much. */
function sentence([first, second]) {
  const { difference, interval, isPaired, count } = differenceOf(first.games, second.games);
  const games = isPaired ? `${grouped(count)} equal games (same seed, same new tiles)` : "different games";
  if (!interval) return `Not decided over ${games}: at least ${FEWEST} ${isPaired ? "in which they differ" : "of each, with different scores,"} are needed.`;
  const isFirst = difference >= 0;
  const by = Math.abs(difference);
  const { name } = isFirst ? first : second;
  const [low, high] = isFirst ? interval : [-interval[1], -interval[0]];
  const said = `95% interval ${grouped(low)} to ${grouped(high)}, over ${games}.`;
  if (low <= 0) return `Not decided: ${name} scores ${grouped(by)} more on average, ${said}`;
  return `${name} is better: ${grouped(by)} points on average, ${said}`;
}

/** One scale for both, so that the bars can be compared. */
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
