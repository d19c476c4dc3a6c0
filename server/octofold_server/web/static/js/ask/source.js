/** Where moves come from: the server of the page, or networks that run in the browser. */

import { Server } from "./server.js";

/**
 * Choose the source of moves.
 *
 * A page that `make page` has built names its models in a `<meta name="octofold-models">`.
 *
 * @param {object} page as for `Server`
 */
export async function newSource(page) {
  const models = document.querySelector('meta[name="octofold-models"]')?.content;
  if (!models) return new Server(page);
  const { Browser } = await import("./browser.js");
  return new Browser(models, page);
}
