/** The elements of the replay tab. */

import { make } from "../dom.js";

/**
 * Make the elements.
 *
 * @param {HTMLElement} root
 * @param {object} on listeners: `onFile` gets a file that was chosen, `onStep` a number of moves, `onDispute` and
 *   `onMistake` a direction; `onPractise`, `onText` and `onGif` are told of their buttons
 * @param {boolean} hasResults whether the source has results of evaluations
 * @returns {object} the elements by name
 */
export function replayLayout(root, on, hasResults) {
  const ui = {
    title: make("h2", {}, "Games to look at"),
    viewer: make("div", { hidden: true }),
    curve: make("div"),
    moves: make("div.moves-box"),
    progress: make("progress", { max: 1, value: 0, "aria-label": "Asking the model about the game" }),
    tally: make("p.note"),
    accuracy: make("p.accuracy"),
    stage: make("div.stage"),
    board: make("div", { tabindex: 0 }),
    controls: make("div.controls"),
    games: make("div"),
    choosers: make("div"),
    advice: make("div.advice"),
    score: make("dd"),
    move: make("dd"),
    tile: make("dd"),
    said: make("p.verdict.short"),
    link: make("a", { href: "" }),
    mistakes: [],
  };
  const button = (text, label, click) =>
    make("button", { type: "button", "aria-label": label, title: label, on: { click } }, text);
  ui.progress.style.visibility = "hidden";
  ui.mistakes = [
    button("‹ Mistake", "Previous mistake", () => on.onMistake(-1)),
    button("Mistake ›", "Next mistake", () => on.onMistake(1)),
  ];
  ui.practise = button("Practise the mistakes", "Practise the mistakes", on.onPractise);
  ui.stage.append(ui.board);
  ui.viewer.append(
    make(
      "div.columns",
      {},
      make(
        "div.left",
        {},
        make("dl.scores", {}, fact("Score", ui.score), fact("Move", ui.move), fact("Tile", ui.tile)),
        ui.stage,
        ui.said,
        ui.controls,
        make(
          "div.buttons.steps",
          {},
          button("‹", "One move back", () => on.onStep(-1)),
          button("›", "One move on", () => on.onStep(1)),
          ...ui.mistakes,
          button("Other ›", "Next other move", () => on.onDispute(1)),
        ),
        make("div.buttons", {}, ui.practise, button("Save as text", "Save as text", on.onText), button("Save as GIF", "Save as GIF", on.onGif)),
        keys(),
        make("p.note", {}, ui.link),
      ),
      make("div.right", {}, ui.choosers, ui.progress, ui.accuracy, ui.curve, legend(), ui.moves, ui.tally, ui.advice),
    ),
  );
  root.append(make("div.replay-head", {}, dropZone(ui, on.onFile, hasResults), ui.games), ui.viewer);
  return ui;
}

const fact = (name, value) => make("div", {}, make("dt", {}, name), value);

function legend() {
  const mark = (kind) => make(`span.legend.${kind}`, { "aria-hidden": "true" });
  return make(
    "p.note",
    {},
    ...[mark("is-costly"), "mistakes ", mark("is-disputed"), "others prefer another move ", mark("is-tile")],
    "a new largest tile",
  );
}

function keys() {
  const key = (text) => make("kbd", {}, text);
  return make(
    "p.note.keys",
    {},
    ...[key("←"), key("→"), " one move, ", key("C"), " next mistake, ", key("D"), " next other move, "],
    ...["with ", key("shift"), " the one before, ", key("space"), " play"],
  );
}

/** Where a file is chosen. It may also be dropped, anywhere on the page. */
function dropZone(ui, onFile, hasResults) {
  const input = make("input", {
    id: "replay-file",
    type: "file",
    accept: ".replay,.txt,.json,.vrs,.rpl",
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
      make("span.full", {}, "Drop a replay file (games.replay of octofold evaluate) onto the page, or "),
      make("label.link", { for: "replay-file" }, "open a file"),
      input,
      make("span.full", {}, ". It stays in this browser; only boards go to the models that you ask."),
      ...(hasResults ? [make("span.full", {}, " Or open a "), make("a.full", { href: "#watch" }, "result of this server"), make("span.full", {}, ".")] : []),
    ),
  );
}
