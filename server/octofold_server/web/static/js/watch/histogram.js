/** Draws a histogram of scores. */

import { colorOf } from "../../viewer/colors.js";
import { grouped } from "../../viewer/dom.js";
import { histogram, largestIn, smallestIn, summarize } from "../game/statistics.js";

const HEIGHT = 190;
const [LEFT, RIGHT, TOP, BOTTOM] = [8, 8, 16, 22];

/** Draw the histogram of scores into a canvas, with their average. */
export function drawHistogram(canvas, scores) {
  const { context, width } = prepared(canvas);
  const { width: bin, counts } = histogram(scores);
  const most = Math.max(1, ...counts);
  const step = (width - LEFT - RIGHT) / counts.length;
  const floor = HEIGHT - BOTTOM;
  const x = (score) => LEFT + (score / bin) * step;
  context.fillStyle = colorOf("--model");
  counts.forEach((count, i) => {
    const high = (count / most) * (floor - TOP);
    context.fillRect(LEFT + i * step + 1, floor - high, Math.max(1, step - 2), high);
  });
  const top = counts.indexOf(most);
  context.textAlign = "center";
  context.fillStyle = colorOf("--muted");
  if (scores.length) context.fillText(`${most} games`, LEFT + (top + 0.5) * step, 0);
  context.textAlign = "left";
  context.fillStyle = colorOf("--line");
  context.fillRect(LEFT, floor, width - LEFT - RIGHT, 1);
  if (!scores.length) return;
  for (let score = 0; score <= bin * counts.length; score += bin * Math.ceil(counts.length / 5)) {
    label(context, short(score), x(score), width);
  }
  const { average } = summarize(scores);
  context.fillStyle = colorOf("--judge");
  context.fillRect(x(average) - 1, TOP, 2, floor - TOP);
  canvas.setAttribute(
    "aria-label",
    `Histogram of ${scores.length} scores from ${grouped(smallestIn(scores))} to ${grouped(largestIn(scores))}`,
  );
}

function prepared(canvas) {
  const ratio = devicePixelRatio || 1;
  const width = canvas.clientWidth || 300;
  canvas.width = width * ratio;
  canvas.height = HEIGHT * ratio;
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  context.font = `12px ${getComputedStyle(canvas).fontFamily}`;
  context.textBaseline = "top";
  return { context, width };
}

function label(context, text, at, width) {
  const size = context.measureText(text).width;
  context.fillStyle = colorOf("--muted");
  context.textAlign = "left";
  context.fillText(text, Math.min(Math.max(LEFT, at - size / 2), width - RIGHT - size), HEIGHT - BOTTOM + 6);
}

const short = (score) => (score >= 10_000 ? `${grouped(score / 1000)}k` : grouped(score));
