/** Makes an animated GIF of a game, with at most 300 positions, 5 per second. */

import { grouped } from "../../viewer/dom.js";
import { MOVE_NAMES, tileOf } from "../../viewer/rules.js";

const MOST_FRAMES = 300;
const FRAME_CS = 20; // duration of a frame in hundredths of a second
const LAST_CS = 300;
const [CELL, GAP, MARGIN, LINE] = [64, 6, 8, 19];
const BOARD = 4 * CELL + 5 * GAP;
const [WIDTH, HEIGHT] = [BOARD + 2 * MARGIN, BOARD + 2 * MARGIN + 2 * LINE];
const [PAPER, INK] = ["rgb(250, 249, 246)", "rgb(34, 38, 46)"];
const SHADES = 6; // number of shades from the color of a tile to the color of its number
const CODE_BITS = 8;
const MOST_CODES = 4096;

/**
 * @param {{boards: number[][], scores: number[], moves: {move: number}[]}} game
 * @returns {Promise<Uint8Array>}
 */
export async function gameGif({ boards, scores, moves }) {
  const canvas = new OffscreenCanvas(WIDTH, HEIGHT);
  const context = canvas.getContext("2d", { willReadFrequently: true });
  const colors = tileColors();
  const palette = paletteOf(colors);
  const last = boards.length - 1;
  const every = Math.max(1, Math.ceil(last / (MOST_FRAMES - 1)));
  const bytes = [...header(palette)];
  const parts = [Uint8Array.from(bytes)];
  for (let at = 0; ; at = Math.min(last, at + every)) {
    const next = moves[at] ? `next: ${MOVE_NAMES[moves[at].move]}` : "the game is over";
    drawScene(context, colors, boards[at], [`move ${grouped(at)} of ${grouped(last)}`, `score ${grouped(scores[at])}, ${next}`]);
    const pixels = indexed(context.getImageData(0, 0, WIDTH, HEIGHT).data, palette);
    parts.push(frame(pixels, at === last ? LAST_CS : FRAME_CS));
    if (at === last) break;
    if (parts.length % 20 === 0) await new Promise((resolve) => setTimeout(resolve)); // keeps the page responsive
  }
  parts.push(Uint8Array.of(0x3b));
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

/** The colors of the page's light theme, beginning with the empty cell. */
function tileColors() {
  const probe = document.createElement("span");
  probe.style.colorScheme = "light";
  document.body.append(probe);
  const found = Array.from({ length: 18 }, (_, exponent) => {
    probe.className = exponent ? `t${exponent}` : "";
    const { backgroundColor, color } = getComputedStyle(probe);
    return { background: exponent ? backgroundColor : "", text: color };
  });
  probe.className = "";
  for (const [i, name] of [[0, "--cell"], [18, "--board"]]) {
    probe.style.color = `var(${name})`;
    found[i] = { background: getComputedStyle(probe).color, text: INK };
  }
  probe.remove();
  return found;
}

function paletteOf(colors) {
  const numbers = (color) => color.match(/[\d.]+/g).slice(0, 3).map(Number);
  const blends = [...colors.slice(0, 18).map(({ background, text }) => [background, text]), [PAPER, INK], [colors[18].background, colors[18].background]];
  return blends.flatMap(([from, to]) => {
    const [a, b] = [numbers(from), numbers(to)];
    return Array.from({ length: SHADES }, (_, i) => a.map((each, channel) => Math.round(each + ((b[channel] - each) * i) / (SHADES - 1))));
  });
}

function drawScene(context, colors, board, lines) {
  context.fillStyle = PAPER;
  context.fillRect(0, 0, WIDTH, HEIGHT);
  context.textAlign = "left";
  context.textBaseline = "top";
  context.fillStyle = INK;
  context.font = "15px sans-serif";
  lines.forEach((line, i) => context.fillText(line, MARGIN, MARGIN + i * LINE));
  const top = MARGIN + 2 * LINE;
  context.fillStyle = colors[18].background;
  context.fillRect(MARGIN, top, BOARD, BOARD);
  context.textAlign = "center";
  context.textBaseline = "middle";
  board.forEach((exponent, cell) => {
    const x = MARGIN + GAP + (cell % 4) * (CELL + GAP);
    const y = top + GAP + Math.floor(cell / 4) * (CELL + GAP);
    context.fillStyle = colors[exponent].background;
    context.fillRect(x, y, CELL, CELL);
    if (!exponent) return;
    const text = String(tileOf(exponent));
    context.fillStyle = colors[exponent].text;
    context.font = `600 ${Math.min(28, Math.floor(100 / text.length))}px sans-serif`;
    context.fillText(text, x + CELL / 2, y + CELL / 2);
  });
}

const nearest = new Map();

/** The palette index of each pixel. */
function indexed(data, palette) {
  const pixels = new Uint8Array(data.length / 4);
  for (let i = 0; i < pixels.length; i += 1) {
    const key = (data[4 * i] << 16) | (data[4 * i + 1] << 8) | data[4 * i + 2];
    if (!nearest.has(key)) {
      const far = ([r, g, b]) => (r - (key >> 16)) ** 2 + (g - ((key >> 8) & 255)) ** 2 + (b - (key & 255)) ** 2;
      nearest.set(key, palette.reduce((best, color, at) => (far(color) < far(palette[best]) ? at : best), 0));
    }
    pixels[i] = nearest.get(key);
  }
  return pixels;
}

const short = (number) => [number & 255, number >> 8];

/** The header of the file: one palette for all frames, and endless repetition. */
function header(palette) {
  const table = Array.from({ length: 256 }, (_, i) => palette[i] ?? [0, 0, 0]).flat();
  const repeats = [0x21, 0xff, 11, ...new TextEncoder().encode("NETSCAPE2.0"), 3, 1, 0, 0, 0];
  return [...new TextEncoder().encode("GIF89a"), ...short(WIDTH), ...short(HEIGHT), 0xf7, 0, 0, ...table, ...repeats];
}

function frame(pixels, delay) {
  const control = [0x21, 0xf9, 4, 4, ...short(delay), 0, 0];
  const image = [0x2c, 0, 0, 0, 0, ...short(WIDTH), ...short(HEIGHT), 0, CODE_BITS];
  const packed = compressed(pixels);
  const blocks = [];
  for (let at = 0; at < packed.length; at += 255) {
    const block = packed.slice(at, at + 255);
    blocks.push(block.length, ...block);
  }
  return Uint8Array.from([...control, ...image, ...blocks, 0]);
}

/** LZW compression as in GIF89a, appendix F. */
function compressed(pixels) {
  const clear = 1 << CODE_BITS;
  const bytes = [];
  let [bits, count, size] = [0, 0, CODE_BITS + 1];
  let codes = new Map();
  let free = clear + 2;
  const write = (code) => {
    bits |= code << count;
    for (count += size; count >= 8; count -= 8) {
      bytes.push(bits & 255);
      bits >>>= 8;
    }
  };
  write(clear);
  let prefix = pixels[0];
  for (let i = 1; i < pixels.length; i += 1) {
    const key = (prefix << 8) | pixels[i];
    const known = codes.get(key);
    if (known !== undefined) {
      prefix = known;
      continue;
    }
    write(prefix);
    if (free < MOST_CODES) {
      codes.set(key, free);
      if (free === 1 << size) size += 1;
      free += 1;
    } else {
      write(clear);
      codes = new Map();
      [free, size] = [clear + 2, CODE_BITS + 1];
    }
    prefix = pixels[i];
  }
  write(prefix);
  write(clear + 1);
  if (count) bytes.push(bits & 255);
  return bytes;
}
