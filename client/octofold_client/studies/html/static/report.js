/** Shows the games of a report: its buttons choose a game, and the viewer of the page steps through it. */

import { GameViewer } from "./game_viewer.js";
import { ReplayReader } from "./replays.js";

const root = document.getElementById("viewer");

/** The games of all results, by the ids of their buttons. */
function gamesOf(boxes) {
  const games = {};
  for (const { dataset } of boxes) {
    const bytes = Uint8Array.from(atob(dataset.replay), (letter) => letter.charCodeAt(0));
    for (const record of new ReplayReader().push(bytes)) games[`game-${dataset.part}-${record.game}`] = record;
  }
  return games;
}

function begin() {
  const viewer = new GameViewer();
  const games = gamesOf(root.querySelectorAll("[data-replay]"));
  const buttons = [...root.querySelectorAll("button.game")];
  document.getElementById("stage").append(viewer.element);
  document.getElementById("curve").append(viewer.curve.element);
  root.hidden = false; // first, because drawing needs the width

  /** Show a game. It opens at its end, which shows how it was lost. */
  function choose(id, move = Infinity) {
    for (const each of buttons) each.setAttribute("aria-pressed", String(each.id === id));
    document.getElementById("viewer-title").textContent = document.getElementById(id).dataset.title;
    viewer.open(games[id], move);
  }

  document.addEventListener("click", ({ target }) => {
    const button = target.closest("button.game, button[data-game]");
    if (!button) return;
    const { game, move, better } = button.dataset;
    if (game) {
      choose(game, Number(move));
      viewer.point(Number(better), "is-wrong");
      root.querySelector(".board").focus();
    } else {
      choose(button.id);
    }
    root.querySelector(".stage").scrollIntoView({ block: "nearest" });
  });
  root.addEventListener("keydown", (event) => {
    if (viewer.onKey(event)) event.preventDefault();
  });
  choose(buttons[0].id);
}

if (root) begin();
