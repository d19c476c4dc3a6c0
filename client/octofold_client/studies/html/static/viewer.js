// Steps through the games of a report. A game is its first board and a byte for each move, as replay files have
// it: the move in bits 0-1, the cell of the new tile in bits 2-5, and bit 6 if that tile is a 4.
(() => {
  "use strict";

  const MOVES = ["up", "right", "down", "left"];
  const ARROWS = ["↑", "→", "↓", "←"];
  const PAGE = 25; // moves
  const PLAY_MS = 120;
  const viewer = document.getElementById("viewer");
  if (!viewer) return;
  const byId = (id) => document.getElementById(id);
  const [stage, board, seek] = [byId("stage"), byId("board"), byId("seek")];
  const cells = [...board.children];
  const play = viewer.querySelector("[data-action=play]");
  let game = { boards: [new Array(16).fill(0)], scores: [0], moves: [], spawns: [] };
  let at = 0;
  let timer = 0;

  /** The cells of a line, from the edge toward which tiles slide. */
  function line(move, number) {
    const along = [0, 1, 2, 3].map((place) => (move === 1 || move === 2 ? 3 - place : place));
    return along.map((place) => (move % 2 ? number * 4 + place : place * 4 + number));
  }
  const LINES = MOVES.map((_, move) => [0, 1, 2, 3].map((number) => line(move, number)));

  /** The board after a slide, and the points that it brings. */
  function slid(before, move) {
    const after = new Array(16).fill(0);
    let points = 0;
    for (const places of LINES[move]) {
      let filled = 0;
      let mayMerge = false;
      for (const place of places) {
        const exponent = before[place];
        if (!exponent) continue;
        if (mayMerge && after[places[filled - 1]] === exponent) {
          after[places[filled - 1]] += 1;
          points += 2 ** (exponent + 1);
          mayMerge = false;
        } else {
          after[places[filled]] = exponent;
          filled += 1;
          mayMerge = true;
        }
      }
    }
    return [after, points];
  }

  /** Every position of the game that a button holds. */
  function positions({ start, moves }) {
    const bytes = Uint8Array.from(atob(moves), (letter) => letter.charCodeAt(0));
    const found = { boards: [start.split(",").map(Number)], scores: [0], moves: [], spawns: [-1] };
    for (const byte of bytes) {
      const [after, points] = slid(found.boards.at(-1), byte & 3);
      const cell = (byte >> 2) & 15;
      after[cell] = byte & 64 ? 2 : 1;
      found.boards.push(after);
      found.scores.push(found.scores.at(-1) + points);
      found.moves.push(byte & 3);
      found.spawns.push(cell);
    }
    return found;
  }

  function show(move) {
    at = Math.min(Math.max(0, move), game.moves.length);
    const shown = game.boards[at];
    shown.forEach((exponent, cell) => {
      const tile = exponent ? String(2 ** exponent) : "";
      const isNew = cell === game.spawns[at] ? " new" : "";
      cells[cell].textContent = tile;
      cells[cell].className = exponent ? `cell t${exponent} d${tile.length}${isNew}` : "cell";
    });
    const rows = [0, 4, 8, 12].map((row) => shown.slice(row, row + 4).map((each) => (each ? 2 ** each : "empty")));
    board.setAttribute("aria-label", rows.map((row, number) => `Row ${number + 1}: ${row.join(", ")}`).join(". "));
    const next = game.moves[at];
    byId("at-score").textContent = game.scores[at].toLocaleString("en-US");
    byId("at-move").textContent = `${at.toLocaleString("en-US")} of ${game.moves.length.toLocaleString("en-US")}`;
    byId("at-next").textContent = next === undefined ? "game over" : `${ARROWS[next]} ${MOVES[next]}`;
    seek.value = at;
    seek.setAttribute("aria-valuetext", `Move ${at} of ${game.moves.length}, score ${game.scores[at]}`);
  }

  function pause() {
    clearInterval(timer);
    timer = 0;
    play.textContent = "Play";
  }

  function toggle() {
    if (timer) {
      pause();
      return;
    }
    if (at === game.moves.length) show(0);
    play.textContent = "Pause";
    timer = setInterval(() => {
      show(at + 1);
      if (at === game.moves.length) pause();
    }, PLAY_MS);
  }

  /** Show a game; it opens at its end, which says how it was lost. */
  function choose(button, move = Infinity) {
    pause();
    for (const each of viewer.querySelectorAll(".game")) each.setAttribute("aria-pressed", String(each === button));
    game = positions(button.dataset);
    seek.max = game.moves.length;
    byId("viewer-title").textContent = button.dataset.title;
    show(move);
  }

  const actions = {
    start: () => show(0),
    back: () => show(at - 1),
    play: toggle,
    on: () => show(at + 1),
    end: () => show(game.moves.length),
  };
  const keys = {
    ArrowLeft: () => show(at - 1),
    ArrowRight: () => show(at + 1),
    PageUp: () => show(at - PAGE),
    PageDown: () => show(at + PAGE),
    Home: actions.start,
    End: actions.end,
    " ": toggle,
  };

  document.addEventListener("click", ({ target }) => {
    const button = target.closest("button");
    if (!button) return;
    const { action, game: id, move } = button.dataset;
    if (action) {
      if (action !== "play") pause();
      actions[action]();
    } else if (id) {
      choose(byId(id), Number(move));
      stage.focus();
    } else if (button.classList.contains("game")) {
      choose(button);
    }
  });
  seek.addEventListener("input", () => {
    pause();
    show(Number(seek.value));
  });
  viewer.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in keys)) return;
    if (event.key === " " && event.target.closest("button")) return; // presses it
    event.preventDefault();
    if (event.key !== " ") pause();
    keys[event.key]();
  });

  viewer.hidden = false;
  choose(viewer.querySelector(".game"));
})();
