/** Makes moves one after the other, from one move at a time to as fast as answers arrive. */

/** @type {{label: string, delay: number}[]} the speeds; the first makes one move at a time */
export const SPEEDS = [
  { label: "one step at a time", delay: Infinity },
  { label: "1 move a second", delay: 1000 },
  { label: "4 moves a second", delay: 250 },
  { label: "12 moves a second", delay: 83 },
  { label: "40 moves a second", delay: 25 },
  { label: "as fast as it goes", delay: 0 },
];

/** Minimum delay that leaves time to animate a move. */
const ANIMATED_MS = 120;

export class Autoplay {
  /**
   * @param {() => Promise<boolean>} step makes a move; resolves to whether another one can follow
   * @param {(isRunning: boolean) => void} onChange called when autoplay starts or stops
   */
  constructor(step, onChange) {
    this._step = step;
    this._onChange = onChange;
    this._run = 0; // number of the current run; an older one ends
    this.isRunning = false;
    this.speed = 2;
  }

  get delay() {
    return SPEEDS[this.speed].delay;
  }

  /** Whether there is time to animate each move. */
  get isSlow() {
    return !this.isRunning || this.delay >= ANIMATED_MS;
  }

  /** Stop if running, otherwise start. */
  toggle() {
    if (this.isRunning) this.stop();
    else this.start();
  }

  /** Play until the end of the game or until `stop`. At the slowest speed, make one move. */
  async start() {
    if (this.isRunning) return;
    const run = (this._run += 1);
    this._set(true);
    try {
      for (;;) {
        const begun = performance.now();
        const goesOn = await this._step();
        if (run !== this._run || !goesOn || this.delay === Infinity) break;
        await pause(this.delay - (performance.now() - begun));
        if (run !== this._run) break;
      }
    } finally {
      if (run === this._run) this._set(false);
    }
  }

  stop() {
    this._run += 1;
    this._set(false);
  }

  _set(isRunning) {
    if (this.isRunning === isRunning) return;
    this.isRunning = isRunning;
    this._onChange(isRunning);
  }
}

let last = 0;

/** Wait for some milliseconds. For 0 milliseconds, let the browser draw about once a frame. */
function pause(ms) {
  if (ms > 1) return new Promise((resolve) => setTimeout(resolve, ms));
  const now = performance.now();
  if (now - last < 14) return Promise.resolve();
  last = now;
  const { port1, port2 } = new MessageChannel(); // a timer would wait for four milliseconds
  return new Promise((resolve) => {
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(0);
  });
}
