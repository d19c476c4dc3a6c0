/** Runs a search in a worker. A message is `{id, search, boards}`, with the options of the search; the reply `{id, answers}`. */

import { searched } from "./expectimax.js";

addEventListener("message", ({ data: { id, search, boards } }) => {
  postMessage({ id, answers: boards.map((board) => searched(board, search)) });
});
