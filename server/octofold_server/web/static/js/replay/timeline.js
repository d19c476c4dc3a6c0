/** The timeline of a game: its largest tiles, where others disagree, and what moves cost. */

import { colorOf } from "../colors.js";
import { make } from "../dom.js";
import { largestOf, tileOf } from "../game/rules.js";
import { COSTLY, isDisputed } from "./study.js";

const HEIGHT = 96;
const MARKS_HEIGHT = 22; // for the names of tiles
const TICKS_HEIGHT = 12; // for disagreements

export class Timeline {
  /**
   * @param {HTMLElement} root
   * @param {(move: number) => void} onSeek
   */
  constructor(root, onSeek) {
    this._canvas = make("canvas.timeline", { "aria-hidden": "true" });
    this._slider = make("input.seek", {
      type: "range",
      min: 0,
      max: 0,
      value: 0,
      "aria-label": "Move",
      on: { input: () => onSeek(Number(this._slider.value)) },
    });
    root.classList.add("timeline-box");
    root.append(this._canvas, this._slider);
    this._boards = [];
    this._verdicts = [];
    this._at = 0;
    new ResizeObserver(() => this.draw()).observe(root);
    const seek = (event) => {
      if (!(event.buttons & 1)) return;
      const { left, width } = this._canvas.getBoundingClientRect();
      const share = Math.min(1, Math.max(0, (event.clientX - left) / width));
      onSeek(Math.round(share * (this._boards.length - 1)));
    };
    this._canvas.addEventListener("pointerdown", seek);
    this._canvas.addEventListener("pointermove", seek);
    addEventListener("themechange", () => this.draw());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  /** Show another game. */
  set boards(boards) {
    this._boards = boards;
    this._verdicts = [];
    this._slider.max = Math.max(0, boards.length - 1);
    this._milestones = milestones(boards);
    this.at = 0;
  }

  /** Show what model and judge say. */
  set verdicts(verdicts) {
    this._verdicts = verdicts;
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
    if (!width) return;
    const ratio = devicePixelRatio || 1;
    this._canvas.width = width * ratio;
    this._canvas.height = HEIGHT * ratio;
    const context = this._canvas.getContext("2d");
    context.scale(ratio, ratio);
    context.font = `11px ${getComputedStyle(this._canvas).fontFamily}`;
    const scale = { x: (move) => (move / Math.max(1, this._boards.length - 1)) * width, width };
    drawMilestones(context, scale, this._milestones ?? []);
    drawCosts(context, scale, this._verdicts);
    context.fillStyle = colorOf("--ink");
    context.fillRect(scale.x(this._at) - 1, MARKS_HEIGHT - 4, 2, HEIGHT - MARKS_HEIGHT + 4);
  }
}

/** The moves at which a tile larger than all before appeared, from 128 on. */
function milestones(boards) {
  const found = [];
  let most = 6;
  boards.forEach((board, move) => {
    const largest = largestOf(board);
    if (largest > most) found.push({ move, exponent: (most = largest) });
  });
  return found;
}

function drawMilestones(context, { x, width }, found) {
  context.textBaseline = "top";
  let free = width + 40;
  for (const { move, exponent } of [...found].reverse()) {
    const text = String(tileOf(exponent));
    const at = x(move);
    context.fillStyle = colorOf(`--t${exponent}`);
    context.fillRect(at, MARKS_HEIGHT - 4, 1, HEIGHT);
    const size = context.measureText(text).width;
    const left = Math.min(at, width - size);
    if (left + size + 6 > free) continue;
    context.fillStyle = colorOf("--muted");
    context.fillText(text, left, 2);
    free = left;
  }
}

/** Bars for costs, and below them ticks that are the darker, the more moves of a pixel are disputed. */
function drawCosts(context, { x, width }, verdicts) {
  const bottom = HEIGHT - TICKS_HEIGHT - 4;
  const highest = bottom - MARKS_HEIGHT - 2;
  const columns = new Map();
  let most = 2 * COSTLY;
  verdicts.forEach((verdict, move) => {
    const at = Math.floor(x(move));
    const column = columns.get(at) ?? { cost: 0, moves: 0, disputed: 0 };
    column.cost = Math.max(column.cost, verdict.cost);
    column.moves += 1;
    column.disputed += isDisputed(verdict);
    columns.set(at, column);
    most = Math.max(most, verdict.cost);
  });
  const [line, bad, muted, judge] = ["--line", "--bad", "--muted", "--judge"].map(colorOf);
  context.fillStyle = line;
  context.fillRect(0, bottom, width, 1);
  for (const [at, { cost, moves, disputed }] of columns) {
    context.fillStyle = cost >= COSTLY ? bad : muted;
    context.globalAlpha = cost >= COSTLY ? 1 : 0.45;
    const high = (cost / most) * highest;
    context.fillRect(at, bottom - high, 1.4, high);
    context.fillStyle = judge;
    context.globalAlpha = disputed && 0.2 + (0.8 * disputed) / moves;
    if (disputed) context.fillRect(at, bottom + 4, 1, TICKS_HEIGHT);
  }
  context.globalAlpha = 1;
}
