/** Pictures of scores: a histogram, and how the average settles. */

import { colorOf } from "../../viewer/colors.js";
import { grouped } from "../../viewer/dom.js";
import { FEWEST, histogram, largestIn, running, smallestIn, summarize } from "../game/statistics.js";

const HEIGHT = 190;
const [LEFT, RIGHT, TOP, BOTTOM] = [8, 8, 16, 22];

/** Draw how many games have which score. */
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
  axis(context, width, floor);
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

/** Draw the average after each game and its interval. */
export function drawRunning(canvas, scores) {
  const { context, width } = prepared(canvas);
  const floor = HEIGHT - BOTTOM;
  axis(context, width, floor);
  const path = running(scores);
  if (path.length < 2) return;
  // The averages of the first few games are farther off than anything that follows.
  const later = path.slice(Math.min(4, path.length - 2));
  const high = largestIn(later.map(highest)) * 1.02;
  const low = smallestIn(later.map(lowest)) * 0.98;
  const x = (i) => LEFT + (i / (path.length - 1)) * (width - LEFT - RIGHT);
  const y = (score) => floor - ((Math.min(high, Math.max(low, score)) - low) / (high - low || 1)) * (floor - TOP);
  context.beginPath();
  for (let i = FEWEST - 1; i < path.length; i += 1) context.lineTo(x(i), y(highest(path[i])));
  for (let i = path.length - 1; i >= FEWEST - 1; i -= 1) context.lineTo(x(i), y(lowest(path[i])));
  context.fillStyle = colorOf("--model-soft");
  context.fill();
  context.beginPath();
  path.forEach(({ average }, i) => context.lineTo(x(i), y(average)));
  context.strokeStyle = colorOf("--model");
  context.lineWidth = 2;
  context.stroke();
  label(context, "1", x(0), width);
  label(context, `${grouped(path.length)} games`, x(path.length - 1), width);
  context.fillStyle = colorOf("--muted");
  context.textAlign = "left";
  context.fillText(short(high), LEFT, TOP);
  context.textAlign = "right";
  context.fillText(short(low), width - RIGHT, floor - 14);
  const { average, interval } = path.at(-1);
  const within = interval ? `, 95% interval ${interval.map(grouped).join(" to ")},` : "";
  canvas.setAttribute("aria-label", `Average ${grouped(average)}${within} after ${path.length} games`);
}

const lowest = ({ average, interval }) => interval?.[0] ?? average;
const highest = ({ average, interval }) => interval?.[1] ?? average;

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

function axis(context, width, floor) {
  context.fillStyle = colorOf("--line");
  context.fillRect(LEFT, floor, width - LEFT - RIGHT, 1);
}

function label(context, text, at, width) {
  const size = context.measureText(text).width;
  context.fillStyle = colorOf("--muted");
  context.textAlign = "left";
  context.fillText(text, Math.min(Math.max(LEFT, at - size / 2), width - RIGHT - size), HEIGHT - BOTTOM + 6);
}

const short = (score) => (score >= 10_000 ? `${grouped(score / 1000)}k` : grouped(score));
