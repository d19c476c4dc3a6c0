/** The elements of the replay tab. */

import { make } from "../../viewer/dom.js";
import { copyOnClick } from "../shell.js";

/**
 * Make the elements.
 *
 * @param {HTMLElement} root
 * @param {import("../../viewer/game_viewer.js").GameViewer} viewer
 * @param {object} on the listeners: `onFile` receives a chosen file, `onDispute` and `onMistake` a direction, 1 or -1;
 *   `onPractice`, `onText` and `onGif` are called by their buttons
 * @returns {object} the elements by name
 */
export function replayLayout(root, viewer, on) {
  const button = (text, label, click) =>
    make("button", { type: "button", "aria-label": label, title: label, on: { click } }, text);
  const ui = {
    title: make("h2", {}, "Games to look at"),
    viewer: make("div", { hidden: true }),
    moves: make("div.moves-box"),
    progress: make("progress", { max: 1, value: 0, "aria-label": "Asking the model about the game" }),
    asked: make("span"),
    tally: make("p.note"),
    accuracy: make("p.accuracy"),
    games: make("div"),
    choosers: make("div"),
    results: make("ul.some"),
    advice: make("div.advice"),
    link: make("a", { href: "" }),
    mistakes: [
      button("‹ Mistake", "Previous mistake", () => on.onMistake(-1)),
      button("Mistake ›", "Next mistake", () => on.onMistake(1)),
    ],
    practice: button("Practice the mistakes", "Practice the mistakes", on.onPractice),
  };
  copyOnClick(ui.link);
  ui.asking = make("div.asking.note", {}, ui.progress, ui.asked);
  ui.asking.style.visibility = "hidden";
  viewer.steps.append(...ui.mistakes, button("Disputed ›", "Next disputed move", () => on.onDispute(1)));
  viewer.element.append(
    make("div.buttons", {}, ui.practice, button("Save as text", "Save as text", on.onText), button("Save as GIF", "Save as GIF", on.onGif)),
    keys(),
    make("p.note", {}, ui.link),
  );
  ui.viewer.append(
    make(
      "div.columns",
      {},
      viewer.element,
      make("div.right", {}, ui.choosers, ui.asking, ui.accuracy, viewer.curve.element, ui.moves, ui.tally, ui.advice),
    ),
  );
  root.append(make("div.replay-head", {}, dropZone(ui, on.onFile), ui.games), ui.viewer);
  return ui;
}

function keys() {
  const key = (text) => make("kbd", {}, text);
  return make(
    "p.note.keys",
    {},
    ...[key("←"), key("→"), " one move, ", key("C"), " next mistake, ", key("D"), " next disputed move, "],
    ...["with ", key("shift"), " the previous one, ", key("space"), " play"],
  );
}

/** The area for choosing a file. A file can also be dropped anywhere on the page. */
function dropZone(ui, onFile) {
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
      make("span.full", {}, "Drop a replay file (games.replay of octofold evaluate) onto the page, or "),
      make("label.link", { for: "replay-file" }, "open a file"),
      input,
      make("span.full", {}, ". The file stays in this browser; only its boards are sent to the models that you choose."),
      make("span.full", {}, " “Study” in Play opens your own game."),
    ),
    make("div.full.results-box", {}, make("h3", {}, "Games of this server"), ui.results),
  );
}
