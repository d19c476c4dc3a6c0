/** The button and the slider of autoplay. */

import { SPEEDS } from "./autoplay.js";
import { make } from "./dom.js";

let count = 0;

export class SpeedControl {
  /**
   * @param {HTMLElement} root
   * @param {import("./autoplay.js").Autoplay} autoplay
   * @param {{models?: EventTarget & {all: object[]}, verb?: string}} options `models` is the list of models, without
   *   which no model is needed; `verb` is the text of the button
   */
  constructor(root, autoplay, { models, verb = "Let the model play" } = {}) {
    this._autoplay = autoplay;
    this._verb = verb;
    this._button = make("button.primary", {
      type: "button",
      on: { click: () => autoplay.toggle() },
    });
    const id = `speed-${(count += 1)}`;
    this._slider = make("input", {
      id,
      type: "range",
      min: 0,
      max: SPEEDS.length - 1,
      step: 1,
      value: autoplay.speed,
      on: { input: () => this._setSpeed(Number(this._slider.value)) },
    });
    this._text = make("output", { for: id });
    root.append(
      this._button,
      make("label.speed", { for: id }, make("span.said", {}, "Speed"), this._slider, this._text),
    );
    this.update();
    const enable = () => (this._button.disabled = models?.all.length === 0);
    models?.addEventListener("change", enable);
    enable();
  }

  /** Show whether autoplay runs, and its speed. */
  update() {
    const { isRunning, speed } = this._autoplay;
    this._button.textContent = isRunning ? "Pause" : speed === 0 ? "One step" : this._verb;
    this._text.textContent = SPEEDS[speed].label;
    this._slider.setAttribute("aria-valuetext", SPEEDS[speed].label);
  }

  _setSpeed(speed) {
    this._autoplay.speed = speed;
    if (speed === 0) this._autoplay.stop();
    this.update();
  }
}
