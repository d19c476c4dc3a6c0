/** The Practice tab: positions come back as exercises until their best move is learned. */

import { costText } from "../../viewer/worth.js";
import { Arrow } from "../../viewer/arrow.js";
import { BoardView, smallBoard } from "../../viewer/board_view.js";
import { hasKeys, isForPage, moveOf, onSwipe } from "../../viewer/input.js";
import { announce, grouped, make } from "../../viewer/dom.js";
import { parseBoard } from "../../viewer/board_text.js";
import { MOVE_NAMES, legalMoves } from "../../viewer/rules.js";
import { KEY, LEARNED, Notebook, UNKEPT } from "../practice/notebook.js";

/** Make the tab in an empty section. */
export const open = (root, page) => new PracticeTab(root, page);

class PracticeTab {
  constructor(root, page) {
    this._page = page;
    const button = (text, click, kind = "button") => make(kind, { type: "button", on: { click } }, text);
    this._title = make("h2");
    this._board = make("div", { tabindex: 0 });
    this._stage = make("div.stage", {}, this._board);
    this._said = make("p.verdict.short", { role: "status" });
    this._next = button("Next exercise", () => this._show(this._notebook.next(this._exercise)), "button.primary");
    this._answer = button("Show the answer", () => this._try(-1));
    this._forget = button("Remove", () => this._remove());
    this._progress = make("div.practice-progress");
    this._list = make("ul.exercises");
    const exercise = make(
      "div.left",
      {},
      this._title,
      this._stage,
      this._said,
      make("div.buttons", {}, this._next, this._answer, this._forget),
    );
    const notebook = make("div.right.notebook", {}, make("h2", {}, "Notebook"), this._progress, this._list);
    root.append(make("div.columns", {}, exercise, notebook));
    this._view = new BoardView(this._board, "Board of the exercise");
    this._arrow = new Arrow(this._stage);
    onSwipe(this._stage, (move) => this._try(move));
    addEventListener("storage", ({ key }) => {
      if (key !== KEY && key !== null) return; // null stands for all keys
      this._notebook.read(); // another tab has changed the notebook
      if (!this._exercise) this._show(this._notebook.next());
      this._showNotebook();
    });
  }

  enter() {
    this._notebook = new Notebook(); // read again, because other tabs may have changed it
    if (!this._notebook.exercises.some(({ board }) => board === this._exercise?.board)) this._exercise = undefined;
    if (!this._exercise || this._isDone) this._show(this._notebook.next());
    this._showNotebook();
    const { _page: page } = this;
    if (page.added) this._progress.prepend(make("p", { role: "status" }, page.added));
    page.added = "";
  }

  onKey(event) {
    if (!isForPage(event) || !this._exercise) return false;
    const move = moveOf(event);
    if (move !== undefined) this._try(move);
    else if (event.key === "Enter" && !event.target.closest("button, a")) this._show(this._notebook.next(this._exercise));
    else return false;
    return true;
  }

  /** Show an exercise, or how to add exercises if it is undefined. */
  _show(exercise) {
    this._exercise = exercise;
    this._isDone = false;
    this._stage.hidden = this._next.hidden = this._answer.hidden = this._forget.hidden = !exercise;
    this._arrow.point(-1);
    if (!exercise) {
      this._title.textContent = "No exercise yet";
      this._said.replaceChildren(
        "In ",
        make("a", { href: "#replay" }, "Replay"),
        ", “Practice the mistakes” turns a game's mistakes into exercises. In ",
        make("a", { href: "#play" }, "Play"),
        ", “Practice this board” adds one.",
      );
      return;
    }
    this._title.textContent = "Find the best move";
    this._said.textContent = `From ${exercise.source}. ${hasKeys() ? "Use the arrow keys, or swipe." : "Swipe toward it."}`;
    this._view.show(parseBoard(exercise.board));
    this._answer.disabled = false;
  }

  /** Answer with a move; -1 gives up. */
  _try(move) {
    const { _exercise: exercise } = this;
    if (!exercise || this._isDone) return;
    if (move >= 0 && !legalMoves(parseBoard(exercise.board))[move]) {
      this._view.refuse();
      return;
    }
    const { better, costs, costly, judge } = exercise;
    const cost = move >= 0 ? (costs?.[move] ?? null) : null;
    const isSolved = move === better || (cost !== null && cost < costly);
    this._isDone = this._answer.disabled = true;
    this._notebook.count(exercise, isSolved);
    this._arrow.point(better, isSolved ? "" : "is-wrong");
    const price = cost ? `, which costs ${costText(exercise, cost)}` : "";
    const best = `${judge} plays ${MOVE_NAMES[better]}.`;
    if (isSolved) this._said.textContent = move === better ? `Right. ${best}` : `Good enough: ${MOVE_NAMES[move]} costs only ${costText(exercise, cost)}. ${best}`;
    else this._said.textContent = move < 0 ? best : `Not ${MOVE_NAMES[move]}${price}. ${best}`;
    announce(this._said.textContent);
    this._showNotebook();
  }

  _remove() {
    this._notebook.remove(this._exercise);
    this._show(this._notebook.next());
    this._showNotebook();
  }

  _showNotebook() {
    const { count, learned, tries, solved } = this._notebook.progress;
    const share = tries ? `, ${Math.round((100 * solved) / tries)}% of ${grouped(tries)} ${tries === 1 ? "try" : "tries"} solved` : "";
    this._progress.replaceChildren(
      make("p", {}, `${grouped(count)} ${count === 1 ? "exercise" : "exercises"}, ${grouped(learned)} learned (solved ${LEARNED} times in a row)${share}.`),
      this._notebook.isKept ? "" : make("p.costly", { role: "alert" }, UNKEPT),
      make("progress", { max: Math.max(1, count), value: learned, "aria-label": "Exercises that are learned" }),
    );
    this._list.replaceChildren(...this._notebook.exercises.slice(-60).reverse().map((exercise) => this._row(exercise)));
  }

  _row(exercise) {
    const { tries, solved, streak } = exercise;
    const state = streak >= LEARNED ? "learned" : tries ? `${solved} of ${tries}` : "new";
    const click = () => this._show(exercise);
    return make("li", {}, make("button.exercise", { type: "button", on: { click } }, smallBoard(parseBoard(exercise.board)), make("span.note", {}, state)));
  }
}
