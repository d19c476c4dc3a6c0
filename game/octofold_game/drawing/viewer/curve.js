/**
 * The curve of a game: its value at each move, the contributions of tiles and moves, its largest tiles, and
 * its mistakes.
 */

import { colorOf } from "./colors.js";
import { grouped, make, percent } from "./dom.js";
import { largestOf, tileOf } from "./rules.js";
import { isDisputed, isMistake, mostOf } from "./worth.js";

const HEIGHT = 150;
const [LEFT, RIGHT, TOP, BOTTOM] = [46, 6, 18, 28];
const LINE = 12; // height of a line of text in pixels
const TICKS = 7; // height of the marks of mistakes and disagreements in pixels

export class Curve {
  /** @param {(move: number) => void} onSeek */
  constructor(onSeek) {
    this._title = make("p.note");
    this._canvas = make("canvas.timeline", { "aria-hidden": "true" });
    this._slider = make("input.seek", {
      type: "range",
      min: 0,
      max: 0,
      value: 0,
      "aria-label": "Move",
      on: { input: () => onSeek(Number(this._slider.value)) },
    });
    this._legend = make("p.note.legend-line");
    this.element = make("div.timeline-box", {}, this._title, this._canvas, this._slider, this._legend);
    this._boards = [];
    this._scores = [];
    this._verdicts = [];
    this._at = 0;
    new ResizeObserver(() => this.draw()).observe(this.element);
    const seek = (event) => {
      if (!(event.buttons & 1)) return;
      const { left, width } = this._canvas.getBoundingClientRect();
      const share = (event.clientX - left - LEFT) / (width - LEFT - RIGHT);
      onSeek(Math.round(Math.min(1, Math.max(0, share)) * (this._boards.length - 1)));
    };
    this._canvas.addEventListener("pointerdown", seek);
    this._canvas.addEventListener("pointermove", seek);
    addEventListener("themechange", () => this.draw());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  /** Show another game: all positions and their scores. */
  open(boards, scores) {
    Object.assign(this, { _boards: boards, _scores: scores, _verdicts: [], _milestones: milestones(boards) });
    this._slider.max = Math.max(0, boards.length - 1);
    this._legend.replaceChildren(...legend(false));
    this.at = 0;
  }

  /** Show the verdicts of model and judge. `scale` is the scale of the costs, `name` the name of the judge. */
  judge(verdicts, scale, name) {
    Object.assign(this, { _verdicts: verdicts, _scale: scale, _name: name });
    this._legend.replaceChildren(...legend(true, scale));
    this.draw();
  }

  /** Show the cursor at a move. */
  set at(move) {
    this._at = move;
    this._slider.value = move;
    this._slider.setAttribute("aria-valuetext", `Move ${move} of ${this._boards.length - 1}`);
    this.draw();
  }

  draw() {
    const { clientWidth: width } = this._canvas;
    if (!width || !this._boards.length) return;
    const ratio = devicePixelRatio || 1;
    this._canvas.width = width * ratio;
    this._canvas.height = HEIGHT * ratio;
    const context = this._canvas.getContext("2d");
    context.scale(ratio, ratio);
    context.font = `11px ${getComputedStyle(this._canvas).fontFamily}`;
    const { title, lines, format } = this._plotted();
    this._title.replaceChildren(...title);
    const values = lines.flatMap((line) => line.values).filter(Number.isFinite);
    const least = values.reduce((found, value) => Math.min(found, value), 0);
    const most = values.reduce((found, value) => Math.max(found, value), 1);
    const last = Math.max(1, this._boards.length - 1);
    const plot = { left: LEFT, right: width - RIGHT, top: TOP, floor: HEIGHT - BOTTOM };
    const x = (move) => plot.left + (move / last) * (plot.right - plot.left);
    const y = (value) => plot.floor - ((value - least) / (most - least)) * (plot.floor - plot.top);
    drawAxes(context, plot, { x, y, last, least, most, format });
    drawMilestones(context, plot, x, this._milestones ?? []);
    for (const line of lines) drawLine(context, { x, y, width, ...line });
    drawMarks(context, plot, x, this._verdicts);
    context.fillStyle = colorOf("--ink");
    context.fillRect(x(this._at) - 1, TOP - 4, 2, plot.floor - TOP + 4);
  }

  /** The plotted values: expected score or chance of success; without values, the score so far. */
  _plotted() {
    const known = this._verdicts.filter(() => true); // without gaps
    const whole = known.filter(({ value }) => value !== null);
    if (whole.length <= known.length / 2) return { title: ["Score so far"], lines: [line(this._scores)], format: points };
    const values = this._verdicts.map(({ value }) => value);
    if (mostOf(this._scale) === 1) {
      return { title: [`Chance of success, by ${this._name}`], lines: [line(values)], format: percent };
    }
    const expected = values.map((value, move) => value && value + this._scores[move]);
    const title = [`Score to expect at the end, by ${this._name}`];
    if (known.length < this._boards.length - 1 || !known.every(({ luck }) => Number.isFinite(luck))) {
      return { title, lines: [line(expected)], format: points };
    }
    expected.push(this._scores.at(-1) + known.at(-1).next);
    const tiles = [0];
    for (const { luck } of known) tiles.push(tiles.at(-1) + luck);
    const moves = expected.map((score, move) => score - expected[0] - tiles[move]);
    const added = (kind, what, sum) => mark(kind, `${what}: ${sum < 0 ? "−" : "+"}${grouped(Math.abs(sum))}`);
    title.push(added("is-luck", "luck of the tiles", tiles.at(-1)), added("is-cost", "moves", moves.at(-1)));
    return { title, lines: [line(moves, "--muted"), line(tiles, "--good"), line(expected)], format: points };
  }
}

const line = (values, color = "--model") => ({ values, color });

const points = (number) => (Math.abs(number) < 10_000 ? grouped(number) : `${grouped(number / 1000)}k`);

/** A text with its color. */
const mark = (kind, text) => make("span", {}, make(`span.legend.${kind}`, { "aria-hidden": "true" }), text);

/** The meaning of the marks. */
function legend(isJudged, scale) {
  return [
    isJudged && scale ? mark("is-costly", "a mistake") : "",
    isJudged ? mark("is-disputed", "disputed: the model or the judge prefers another move") : "",
    mark("is-tile", "a new largest tile"),
  ];
}

/** The moves at which a new largest tile appeared, from 128 on. */
function milestones(boards) {
  const found = [];
  let most = 6;
  boards.forEach((board, move) => {
    const largest = largestOf(board);
    if (largest > most) found.push({ move, exponent: (most = largest) });
  });
  return found;
}

function drawAxes(context, { left, right }, { x, y, last, least, most, format }) {
  context.textBaseline = "middle";
  context.textAlign = "right";
  const isCrowded = least < 0 && y(least) - y(0) < LINE;
  for (const value of [...(isCrowded ? [] : [least]), least < 0 ? 0 : most / 2, most]) {
    context.fillStyle = colorOf("--line");
    context.fillRect(left, y(value), right - left, 1);
    context.fillStyle = colorOf("--muted");
    context.fillText(format(value), left - 6, y(value));
  }
  context.textBaseline = "bottom";
  for (const [share, align] of [[0, "left"], [0.5, "center"], [1, "right"]]) {
    context.textAlign = align;
    const text = share ? grouped(last * share) : "move 0";
    context.fillText(text, x(last * share), HEIGHT);
  }
  context.textAlign = "left";
}

function drawMilestones(context, { right, floor }, x, found) {
  context.textBaseline = "top";
  context.textAlign = "left";
  let free = right + 40;
  for (const { move, exponent } of [...found].reverse()) {
    const text = String(tileOf(exponent));
    const at = x(move);
    context.fillStyle = colorOf(`--t${exponent}`);
    context.fillRect(at, TOP - 4, 1, floor - TOP + 4);
    const size = context.measureText(text).width;
    const left = Math.min(at, right - size);
    if (left + size + 6 > free) continue;
    context.fillStyle = colorOf("--muted");
    context.fillText(text, left, 0);
    free = left;
  }
}

function drawLine(context, { x, y, values, color, width }) {
  const step = Math.max(1, Math.floor(values.length / (2 * width)));
  context.beginPath();
  for (let move = 0; move < values.length; move += step) {
    if (Number.isFinite(values[move])) context.lineTo(x(move), y(values[move]));
  }
  context.strokeStyle = colorOf(color);
  context.lineWidth = 1.6;
  context.stroke();
}

/** Draw mistakes in red below the curve, and disagreements in a color that is darker if they are dense. */
function drawMarks(context, { floor }, x, verdicts) {
  const columns = new Map();
  verdicts.forEach((verdict, move) => {
    const at = Math.floor(x(move));
    const column = columns.get(at) ?? { moves: 0, disputed: 0, isMistake: false };
    column.moves += 1;
    column.disputed += isDisputed(verdict);
    column.isMistake ||= isMistake(verdict);
    columns.set(at, column);
  });
  const [bad, judge] = ["--bad", "--judge"].map(colorOf);
  for (const [at, { moves, disputed, isMistake: hasMistake }] of columns) {
    if (hasMistake) {
      context.fillStyle = bad;
      context.fillRect(at - 0.5, floor + 1, 2, TICKS + 5);
    } else if (disputed) {
      context.fillStyle = judge;
      context.globalAlpha = 0.2 + (0.8 * disputed) / moves;
      context.fillRect(at, floor + 3, 1, TICKS);
      context.globalAlpha = 1;
    }
  }
}
