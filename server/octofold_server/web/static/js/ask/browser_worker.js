/**
 * Runs exported graphs in the browser, in a worker, so that the page stays smooth.
 *
 * A message is `{id, url, temperature, boards, wantsViews}`. The reply is `{id, answers}` or `{id, error}`; while
 * a model is loaded, `{loaded}` tells the share of its bytes, and 2 when it is ready or has failed. `make page` puts
 * onnxruntime-web beside the page.
 */

import * as ort from "../../ort/ort.wasm.min.mjs";

import { VIEWS, withViews } from "./onnx_views.js";

const OUTPUTS = ["move", "probabilities", "votes", "legal"];

ort.env.wasm.numThreads = 1; // more need headers that many hosts do not send
ort.env.wasm.wasmPaths = new URL("../../ort/", import.meta.url).href;

/** @type {Map<string, Promise<{session: object, hasViews: boolean}>>} by address */
const loaded = new Map();
let last = Promise.resolve(); // a session answers one call at a time

addEventListener("message", ({ data }) => {
  last = last.then(() => reply(data));
});

async function reply({ id, url, temperature, boards, wantsViews }) {
  try {
    if (!loaded.has(url)) loaded.set(url, load(url, temperature));
    const { session, hasViews } = await loaded.get(url);
    postMessage({ id, answers: await answersOf(session, boards, wantsViews && hasViews) });
  } catch (error) {
    if (loaded.delete(url)) postMessage({ loaded: 2 }); // the next call tries again
    postMessage({ id, error: error.message });
  }
}

async function load(url, temperature) {
  const { model, hasViews } = withViews(await bytesOf(url), temperature);
  postMessage({ loaded: 1 });
  const session = await ort.InferenceSession.create(model, { executionProviders: ["wasm"], logSeverityLevel: 3 });
  postMessage({ loaded: 2 });
  return { session, hasViews };
}

async function bytesOf(url) {
  const reply = await fetch(url);
  if (!reply.ok) throw new Error(`The model cannot be loaded: status ${reply.status}.`);
  const total = Number(reply.headers.get("Content-Length"));
  const pieces = [];
  let size = 0;
  for (const reader = reply.body.getReader(); ; ) {
    const { done, value } = await reader.read();
    if (done) break;
    pieces.push(value);
    size += value.length;
    if (total) postMessage({ loaded: Math.min(1, size / total) });
  }
  return new Uint8Array(await new Blob(pieces).arrayBuffer());
}

async function answersOf(session, boards, wantsViews) {
  const count = boards.length;
  const input = new ort.Tensor("uint8", Uint8Array.from(boards.flat()), [count, 16]);
  const found = await session.run({ boards: input }, wantsViews ? [...OUTPUTS, VIEWS] : OUTPUTS);
  const [move, probabilities, votes, legal] = OUTPUTS.map((name) => Array.from(found[name].data));
  const answers = boards.map((_, i) => ({
    move: move[i],
    probabilities: probabilities.slice(4 * i, 4 * i + 4),
    votes: votes.slice(4 * i, 4 * i + 4),
    legal: legal.slice(4 * i, 4 * i + 4).map(Boolean),
    views: null,
  }));
  if (wantsViews) {
    const views = Array.from(found[VIEWS].data);
    const size = views.length / count;
    answers.forEach((answer, i) => {
      const own = views.slice(i * size, (i + 1) * size);
      answer.views = Array.from({ length: size / 4 }, (_, view) =>
        own.slice(4 * view, 4 * view + 4).map((share, to) => (answer.legal[to] ? share : 0)),
      );
    });
  }
  return answers;
}
