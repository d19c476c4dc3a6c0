/** The elements of the replay tab. */

import { make } from "../dom.js";

/**
 * Make the elements.
 *
 * @param {HTMLElement} root
 * @param {object} on listeners: `onFile` gets a file that was chosen, `onStep` a number of moves,
 *   `onDispute` and `onCostly` a direction
 * @param {boolean} hasResults whether the source has results of evaluations
 * @returns {object} the elements by name
 */
export function replayLayout(root, on, hasResults) {
  const ui = {
    title: make("h2", {}, "Games to look at"),
    viewer: make("div", { hidden: true }),
    timeline: make("div"),
    progress: make("progress", { max: 1, value: 0, "aria-label": "Asking the model about the game", hidden: true }),
    tally: make("p.note"),
    board: make("div", { tabindex: 0 }),
    controls: make("div.controls"),
    games: make("div"),
    advice: make("div.right.advice"),
    score: make("dd"),
    move: make("dd"),
    tile: make("dd"),
    said: make("p.verdict.short"),
    link: make("a", { href: "" }),
  };
  const button = (text, label, click) =>
    make("button", { type: "button", "aria-label": label, title: label, on: { click } }, text);
  ui.viewer.append(
    ui.games,
    ui.timeline,
    ui.progress,
    legend(),
    ui.tally,
    make(
      "div.columns",
      {},
      make(
        "div.left",
        {},
        make("dl.scores", {}, fact("Score", ui.score), fact("Move", ui.move), fact("Tile", ui.tile)),
        ui.board,
        ui.said,
        ui.controls,
        make(
          "div.buttons",
          {},
          button("‹", "One move back", () => on.onStep(-1)),
          button("›", "One move on", () => on.onStep(1)),
          button("‹ Disagreement", "Previous disagreement", () => on.onDispute(-1)),
          button("Disagreement ›", "Next disagreement", () => on.onDispute(1)),
          button("‹ Costly", "Previous costly move", () => on.onCostly(-1)),
          button("Costly ›", "Next costly move", () => on.onCostly(1)),
        ),
        keys(),
        make("p.note", {}, ui.link),
      ),
      ui.advice,
    ),
  );
  root.append(dropZone(ui, on.onFile, hasResults), ui.viewer);
  return ui;
}

const fact = (name, value) => make("div", {}, make("dt", {}, name), value);

function legend() {
  const mark = (kind) => make(`span.legend.${kind}`, { "aria-hidden": "true" });
  return make(
    "p.note",
    {},
    ...[mark("is-costly"), "costly moves ", mark("is-disputed"), "another move was preferred ", mark("is-tile")],
    "a new largest tile",
  );
}

function keys() {
  const key = (text) => make("kbd", {}, text);
  return make(
    "p.note.keys",
    {},
    ...[key("←"), key("→"), " one move, ", key("D"), " next disagreement, ", key("C"), " next costly move, "],
    ...["with ", key("shift"), " the one before, ", key("space"), " play."],
  );
}

/** Where a file is chosen. It may also be dropped, anywhere on the page. */
function dropZone(ui, onFile, hasResults) {
  const input = make("input", {
    id: "replay-file",
    type: "file",
    accept: ".replay",
    class: "said",
    on: {
      change: () => {
        if (input.files[0]) onFile(input.files[0]);
        input.value = "";
      },
    },
  });
  return make(
    "div.drop",
    {},
    make("div", { role: "status" }, ui.title),
    make(
      "p.note",
      {},
      "Drop a replay file of octofold evaluate (games.replay) onto the page, or ",
      make("label.link", { for: "replay-file" }, "choose one"),
      input,
      ". It is read in this browser; only boards are sent to the models that you ask.",
      ...(hasResults ? [" Evaluations of this server open from the tab ", make("a", { href: "#watch" }, "Watch"), "."] : []),
    ),
  );
}
